/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec_event.h"
#include "proto/codec_view.h"
#include "proto/pool.h"
#include "proto/text.h"

#define MAX_CREDIT 1000000 /* more than anybody could use; sums stay small */

struct codec_doc {
    json_t *root;      /* owned */
    struct pool *pool; /* owned */
    enum codec_envelope_kind kind;
    const json_t *body;   /* borrowed from root: args, notice, item, items */
    const json_t *faults; /* borrowed from root; refusals */
};

void
codec_doc_close(struct codec_doc **doc)
{
    if (*doc == NULL)
        return;
    json_decref((*doc)->root);
    pool_destroy(&(*doc)->pool);
    free(*doc);
    *doc = NULL;
}

static int
open_doc(const char *text, size_t len, struct codec_doc **out, struct err *err)
{
    struct codec_doc *doc = calloc(1, sizeof(*doc));
    json_error_t error = {.text = ""};
    int rc = 0;

    *out = NULL;
    if (doc != NULL)
        doc->pool = pool_create();
    if (doc == NULL || doc->pool == NULL) {
        rc = err_set(err, ERR_NOMEM, "no memory for a frame");
        goto out;
    }
    doc->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (doc->root == NULL) {
        /* jansson has no words for a lack of memory. */
        rc = error.text[0] == '\0'
                 ? err_set(err, ERR_NOMEM, "no memory for a frame")
                 : err_set(err, ERR_PROTO, "no JSON: column %d: %s",
                           error.column, error.text);
        goto out;
    }
    if (!json_is_object(doc->root)) {
        rc = err_set(err, ERR_PROTO, "a list where an object should be");
        goto out;
    }
    *out = doc;
    doc = NULL;
out:
    codec_doc_close(&doc);
    return rc;
}

/* ---- envelopes in -------------------------------------------------------- */

/* A non-negative "id", or -1. */
static int64_t
read_id(const json_t *root)
{
    const json_t *id = json_object_get(root, "id");

    return json_is_integer(id) && json_integer_value(id) >= 0
               ? json_integer_value(id)
               : -1;
}

static int
refuse_verb(const char *verb, struct err *err)
{
    char known[360] = "";
    size_t n = 0;

    for (int i = 0; i < MESSAGE_ID_COUNT && n < sizeof(known) - 1; i++) {
        if (message_table[i].flow != MESSAGE_CONTROL)
            continue;
        snprintf(known + n, sizeof(known) - n, "%s%s", n > 0 ? ", " : "",
                 message_table[i].name);
        n += strlen(known + n);
    }
    return err_set(err, ERR_PROTO, "unknown verb \"%.60s\"; known: %s", verb,
                   known);
}

/* {"verb":..., "args":{...}} with an id (a request) or without (one way). */
static int
open_call(struct codec_doc *doc, struct codec_envelope *e, bool one_way,
          struct err *err)
{
    const char *verb = json_string_value(json_object_get(doc->root, "verb"));
    const char *key;
    json_t *value;

    if (verb == NULL)
        return err_set(err, ERR_PROTO, "verb must be a string");
    e->message = message_find(verb);
    if (e->message == MESSAGE_ID_COUNT)
        return refuse_verb(verb, err);
    if ((message_table[e->message].flow == MESSAGE_CONTROL) == one_way)
        return err_set(err, ERR_PROTO,
                       one_way ? "%s is a request and needs an id"
                               : "%s is not a client's message",
                       verb);
    e->kind = one_way ? CODEC_ONE_WAY : CODEC_REQUEST;
    doc->body = json_object_get(doc->root, "args");
    if (doc->body != NULL && !json_is_object(doc->body))
        return err_set(err, ERR_PROTO, "args must be an object");
    json_object_foreach(doc->root, key, value)
    {
        if (!one_way && strcmp(key, "id") != 0 && strcmp(key, "verb") != 0 &&
            strcmp(key, "args") != 0)
            return err_set(err, ERR_PROTO,
                           "unknown field \"%.80s\"; known: id, verb, args",
                           key);
    }
    return 0;
}

static int
open_refusal(struct codec_doc *doc, struct codec_envelope *e, struct err *err)
{
    const json_t *error = json_object_get(doc->root, "error");
    const json_t *code = json_object_get(error, "code");
    const char *message = json_string_value(json_object_get(error, "message"));

    e->kind = CODEC_REFUSAL;
    doc->faults = json_object_get(error, "faults");
    if (!json_is_integer(code) || json_integer_value(code) >= 0 ||
        json_integer_value(code) < -9999)
        return err_set(err, ERR_PROTO, "error.code must be a negative number");
    if (message == NULL)
        return err_set(err, ERR_PROTO, "error.message must be a string");
    if (doc->faults != NULL && !json_is_array(doc->faults))
        return err_set(err, ERR_PROTO, "error.faults must be a list");
    err_set(&e->error, (int)json_integer_value(code), "%s", message);
    return 0;
}

static int
open_reply(struct codec_doc *doc, struct codec_envelope *e, struct err *err)
{
    const json_t *ok = json_object_get(doc->root, "ok");
    const json_t *more = json_object_get(doc->root, "more");
    const json_t *item = json_object_get(doc->root, "item");
    const json_t *items = json_object_get(doc->root, "items");

    if (!json_is_boolean(ok))
        return err_set(err, ERR_PROTO, "ok must be true or false");
    if (json_is_false(ok))
        return open_refusal(doc, e, err);
    if (more != NULL && !json_is_boolean(more))
        return err_set(err, ERR_PROTO, "more must be true or false");
    e->kind = CODEC_REPLY;
    e->more = json_is_true(more);
    if (json_is_object(item) && items == NULL) {
        doc->body = item;
        e->n_items = 1;
    } else if (json_is_array(items) && item == NULL) {
        doc->body = items;
        e->n_items = (int)json_array_size(items);
    } else {
        return err_set(err, ERR_PROTO,
                       "a reply must have an item or a list of items");
    }
    return 0;
}

static int
open_credit(const struct codec_doc *doc, struct codec_envelope *e,
            struct err *err)
{
    const json_t *credit = json_object_get(doc->root, "credit");

    e->kind = CODEC_CREDIT;
    e->credit = json_integer_value(credit);
    if (!json_is_integer(credit) || e->credit < 1 || e->credit > MAX_CREDIT)
        return err_set(err, ERR_PROTO, "credit must be from 1 to %d",
                       MAX_CREDIT);
    return 0;
}

static int
read_envelope(struct codec_doc *doc, struct codec_envelope *e, struct err *err)
{
    const json_t *root = doc->root;
    const char *hello = json_string_value(json_object_get(root, "hello"));
    bool has_id = json_object_get(root, "id") != NULL;
    bool has_verb = json_object_get(root, "verb") != NULL;
    int64_t id = read_id(root);

    if (hello != NULL) {
        e->kind = CODEC_HELLO;
        doc->body = root;
        if (strcmp(hello, "traind") != 0)
            return err_set(err, ERR_PROTO, "\"%.60s\" says hello, not traind",
                           hello);
        return 0;
    }
    if (!has_id && has_verb)
        return open_call(doc, e, true, err);
    if (id < 0)
        return err_set(err, ERR_PROTO, "id must be an integer, 0 or more");
    e->id = id;
    if (has_verb)
        return id > 0 ? open_call(doc, e, false, err)
                      : err_set(err, ERR_PROTO, "a request's id is above 0");
    if (json_object_get(root, "ok") != NULL)
        return open_reply(doc, e, err);
    if (json_object_get(root, "credit") != NULL)
        return open_credit(doc, e, err);
    doc->body = json_object_get(root, "notice");
    e->kind = CODEC_NOTICE;
    if (!json_is_object(doc->body))
        return err_set(err, ERR_PROTO,
                       "a frame must have verb, ok, notice or credit");
    return 0;
}

int
codec_open(const char *text, size_t len, struct codec_envelope *envelope,
           struct codec_doc **doc, struct err *err)
{
    int rc;

    memset(envelope, 0, sizeof(*envelope));
    envelope->message = MESSAGE_ID_COUNT;
    rc = open_doc(text, len, doc, err);
    if (rc != 0)
        return rc;
    rc = read_envelope(*doc, envelope, err);
    (*doc)->kind = envelope->kind;
    if (rc != 0)
        codec_doc_close(doc);
    return rc;
}

int
codec_read(struct codec_doc *doc, int i, enum view_id id, void *out,
           struct err *err)
{
    const json_t *object = doc->body;

    assert(doc->kind != CODEC_CREDIT && doc->kind != CODEC_REFUSAL);
    if (json_is_array(object)) {
        assert(i >= 0 && (size_t)i < json_array_size(object));
        object = json_array_get(object, (size_t)i);
    } else {
        assert(i == 0);
    }
    return codec_view_decode(object, id, doc->kind == CODEC_REQUEST, out,
                             doc->pool, err);
}

int
codec_n_faults(const struct codec_doc *doc)
{
    return (int)json_array_size(doc->faults);
}

int
codec_read_fault(struct codec_doc *doc, int i, struct view_fault *out)
{
    assert(i >= 0 && i < codec_n_faults(doc));
    return codec_view_decode(json_array_get(doc->faults, (size_t)i),
                             VIEW_ID_fault, false, out, doc->pool, NULL);
}

/* ---- envelopes out ------------------------------------------------------- */

static void
put_int(struct text *t, const char *before, int64_t v)
{
    text_puts(t, before);
    text_json_int(t, v);
}

static void
put_string(struct text *t, const char *before, const char *s)
{
    text_puts(t, before);
    text_json_string(t, s);
}

char *
codec_write_hello(const struct view_hello *hello, size_t *len)
{
    struct text t = {0};

    codec_view_encode(&t, VIEW_ID_hello, hello, 0);
    return text_take(&t, len);
}

char *
codec_write_request(int64_t id, enum message_id message, const void *args,
                    size_t *len)
{
    const struct message *m = &message_table[message];
    struct text t = {0};

    assert(id > 0 && m->flow == MESSAGE_CONTROL);
    put_int(&t, "{\"id\":", id);
    put_string(&t, ",\"verb\":", m->name);
    text_puts(&t, ",\"args\":");
    codec_view_encode(&t, m->request, args, 0);
    text_putc(&t, '}');
    return text_take(&t, len);
}

static void
put_views(struct text *t, enum view_id id, const void *items, int n)
{
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? "," : "");
        codec_view_encode(
            t, id, (const char *)items + (size_t)i * view_table[id].size_bytes,
            0);
    }
}

char *
codec_write_reply(int64_t id, enum message_id message, const void *items,
                  int n_items, bool more, size_t *len)
{
    const struct message *m = &message_table[message];
    bool list = m->shape == MESSAGE_MANY;
    struct text t = {0};

    assert(m->flow == MESSAGE_CONTROL);
    assert(list || (n_items == 1 && !more));
    put_int(&t, "{\"id\":", id);
    text_puts(&t, list ? ",\"ok\":true,\"items\":[" : ",\"ok\":true,\"item\":");
    put_views(&t, m->reply, items, n_items);
    text_puts(&t, list ? "]" : "");
    text_puts(&t, more ? ",\"more\":true}" : "}");
    return text_take(&t, len);
}

char *
codec_write_refusal(int64_t id, const struct err *error,
                    const struct spec_faults *faults, size_t *len)
{
    struct text t = {0};
    int n = faults != NULL ? faults->n : 0;

    assert(error->code < 0);
    put_int(&t, "{\"id\":", id);
    put_string(&t, ",\"ok\":false,\"error\":{\"name\":", err_name(error->code));
    put_int(&t, ",\"code\":", error->code);
    put_string(&t, ",\"message\":",
               error->msg[0] != '\0' ? error->msg : err_line(error->code));
    text_puts(&t, n > 0 ? ",\"faults\":[" : "");
    for (int i = 0; i < n; i++) {
        const struct spec_fault *f = &faults->list[i];
        struct view_fault view = {.line = f->line,
                                  .col = f->col,
                                  .path = f->path,
                                  .message = f->message};

        text_puts(&t, i > 0 ? "," : "");
        codec_view_encode(&t, VIEW_ID_fault, &view, 0);
    }
    text_puts(&t, n > 0 ? "]}}" : "}}");
    return text_take(&t, len);
}

char *
codec_write_notice(int64_t id, const struct view_notice *notice, size_t *len)
{
    struct text t = {0};

    put_int(&t, "{\"id\":", id);
    text_puts(&t, ",\"notice\":");
    codec_view_encode(&t, VIEW_ID_notice, notice, 0);
    text_putc(&t, '}');
    return text_take(&t, len);
}

char *
codec_write_credit(int64_t id, int64_t credit, size_t *len)
{
    struct text t = {0};

    assert(credit > 0 && credit <= MAX_CREDIT);
    put_int(&t, "{\"id\":", id);
    put_int(&t, ",\"credit\":", credit);
    text_putc(&t, '}');
    return text_take(&t, len);
}

char *
codec_write_one_way(enum message_id message, const void *args, size_t *len)
{
    const struct message *m = &message_table[message];
    struct text t = {0};

    assert(m->flow != MESSAGE_CONTROL);
    put_string(&t, "{\"verb\":", m->name);
    text_puts(&t, ",\"args\":");
    codec_view_encode(&t, m->request, args, 0);
    text_putc(&t, '}');
    return text_take(&t, len);
}

/* ---- single views and events --------------------------------------------- */

char *
codec_write_view(enum view_id id, const void *view, int indent, size_t *len)
{
    struct text t = {0};

    codec_view_encode(&t, id, view, indent);
    return text_take(&t, len);
}

char *
codec_write_page(enum view_id id, const void *items, int n_items, bool more,
                 size_t *len)
{
    struct text t = {0};

    text_puts(&t, "{\"items\":[");
    put_views(&t, id, items, n_items);
    text_puts(&t, more ? "],\"more\":true}" : "],\"more\":false}");
    return text_take(&t, len);
}

static int
read_object(const char *text, size_t len, enum view_id id, bool strict,
            void *out, struct codec_doc **doc, struct err *err)
{
    int rc = open_doc(text, len, doc, err);

    if (rc != 0)
        return rc;
    rc = codec_view_decode((*doc)->root, id, strict, out, (*doc)->pool, err);
    if (rc != 0)
        codec_doc_close(doc);
    return rc;
}

int
codec_read_view(const char *text, size_t len, enum view_id id, void *out,
                struct codec_doc **doc, struct err *err)
{
    return read_object(text, len, id, false, out, doc, err);
}

int
codec_read_args(const char *text, size_t len, enum view_id id, void *out,
                struct codec_doc **doc, struct err *err)
{
    return read_object(text, len, id, true, out, doc, err);
}

char *
codec_write_event(const struct event *event, size_t *len)
{
    struct text t = {0};

    codec_event_encode(&t, event);
    return text_take(&t, len);
}

int
codec_read_event(const char *line, size_t len, struct event *event,
                 struct codec_doc **doc, struct err *err)
{
    int rc = open_doc(line, len, doc, err);

    if (rc != 0)
        return rc;
    rc = codec_event_decode((*doc)->root, event, (*doc)->pool, err);
    if (rc != 0)
        codec_doc_close(doc);
    return rc;
}
