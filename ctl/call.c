/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int
call_hold_job(struct call_held_job *held, const struct view_job *job,
              struct err *err)
{
    size_t len = 0;
    char *text = codec_write_view(VIEW_ID_job, job, 0, &len);
    int rc;

    call_held_job_fini(held);
    if (text == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = codec_read_view(text, len, VIEW_ID_job, &held->job, &held->doc, err);
    free(text);
    return rc;
}

void
call_held_job_fini(struct call_held_job *held)
{
    codec_doc_close(&held->doc);
}

/* The daemon's sentence, or the table's where it sent none. */
static int
take_refusal(struct link *link, struct err *err)
{
    const struct err *error = &client_envelope(link_client(link))->error;
    int code = error->code < 0 ? error->code : ERR_PROTO;

    link_set_refused(link, true);
    return err_set(err, code, "%s",
                   error->msg[0] != '\0' ? error->msg : err_line(code));
}

int
call_await(struct link *link, int64_t deadline_ms, enum client_news *news,
           struct err *err)
{
    for (;;) {
        int rc = link_wait(link, deadline_ms, news, err);
        if (rc < 0)
            return rc;
        switch (*news) {
        case CLIENT_REPLY:
        case CLIENT_NOTICE: return 0;
        case CLIENT_REFUSAL: return take_refusal(link, err);
        case CLIENT_HELLO:
        case CLIENT_NOTHING: break;
        }
    }
}

/* Asks and waits: 0 with the reply open for client_read(). */
static int
ask(struct link *link, enum message_id message, const void *args,
    int64_t deadline_ms, struct err *err)
{
    enum client_news news = CLIENT_NOTHING;
    int rc;

    link_set_refused(link, false);
    rc = client_ask(link_client(link), message, args, err);
    if (rc == 0)
        rc = call_await(link, deadline_ms, &news, err);
    assert(rc < 0 || news == CLIENT_REPLY); /* the client lets no notice in */
    return rc;
}

int
call_one_by(struct link *link, enum message_id message, const void *args,
            int64_t deadline_ms, void *out, struct err *err)
{
    struct client *client = link_client(link);
    int rc = ask(link, message, args, deadline_ms, err);

    if (rc == ERR_TIMEOUT)
        return err_set(err, ERR_TIMEOUT, "timed out");
    if (rc == 0 && client_envelope(client)->n_items != 1)
        rc = err_set(err, ERR_PROTO, "%s: the answer holds %d records",
                     message_table[message].name,
                     client_envelope(client)->n_items);
    return rc == 0 ? client_read(client, 0, out, err) : rc;
}

int
call_one(struct link *link, enum message_id message, const void *args,
         void *out, struct err *err)
{
    bool later = message_table[message].shape == MESSAGE_LATER;
    int64_t deadline_ms = link_now_ms() + link_timeout_ms(link);
    int rc =
        call_one_by(link, message, args, later ? -1 : deadline_ms, out, err);

    assert(message_table[message].shape != MESSAGE_MANY);
    /* A refusal may carry this code too, but then the sentence is its own. */
    if (rc == ERR_TIMEOUT && !later && link_now_ms() >= deadline_ms)
        return link_silent(link, err);
    return rc;
}

/* ---- pages ---------------------------------------------------------------*/

static const struct view_field *
find_field(enum view_id view, const char *name)
{
    const struct view_desc *desc = &view_table[view];

    for (int i = 0; i < desc->n_fields; i++)
        if (strcmp(desc->fields[i].name, name) == 0)
            return &desc->fields[i];
    return NULL;
}

/* Which field of the request says where the next page begins, and which field
 * of a row it continues after. False: the message has no pages. */
static bool
find_cursor(enum message_id message, const struct view_field **where,
            const struct view_field **row)
{
    const struct message *m = &message_table[message];

    *where = find_field(m->request, "after_row");
    if (*where == NULL)
        *where = find_field(m->request, "after");
    *row = find_field(m->reply, "row");
    if (*row == NULL)
        *row = find_field(m->reply, "id");
    if (*row == NULL)
        *row = find_field(m->reply, "seq");
    return *where != NULL && *row != NULL;
}

struct page {
    enum message_id message;
    void *args;   /* copy of the request, moved on by pages */
    void *view;   /* room for one record */
    int64_t last; /* the last record's place */
    const struct view_field *where, *row; /* NULL: no pages */
    call_row_fn *call;
    void *ctx;
};

static int64_t *
field_i64(void *view, const struct view_field *field)
{
    assert(field->type == VIEW_I64);
    return (int64_t *)((char *)view + field->offset);
}

/* Asks for one page and hands out its rows; *more says whether another is
 * there. */
static int
read_page(struct link *link, struct page *p, bool *more, struct err *err)
{
    struct client *client = link_client(link);
    int64_t deadline_ms = link_now_ms() + link_timeout_ms(link);
    int rc = ask(link, p->message, p->args, deadline_ms, err);

    if (rc == ERR_TIMEOUT)
        return link_silent(link, err);
    if (rc < 0)
        return rc;
    int n = client_envelope(client)->n_items;
    *more = client_envelope(client)->more && n > 0 && p->where != NULL;
    for (int i = 0; i < n; i++) {
        rc = client_read(client, i, p->view, err);
        if (rc < 0)
            return rc;
        if (p->row != NULL)
            p->last = *field_i64(p->view, p->row);
        rc = p->call(p->ctx, p->view, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int
call_many(struct link *link, enum message_id message, const void *args,
          call_row_fn *row, void *ctx, struct err *err)
{
    const struct message *m = &message_table[message];
    size_t args_bytes = view_table[m->request].size_bytes;
    struct page p = {.message = message, .call = row, .ctx = ctx};
    bool more = true;
    int rc = 0;

    assert(m->shape == MESSAGE_MANY);
    p.args = malloc(args_bytes);
    p.view = malloc(view_table[m->reply].size_bytes);
    if (p.args == NULL || p.view == NULL) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
        goto out;
    }
    memcpy(p.args, args, args_bytes);
    if (!find_cursor(message, &p.where, &p.row))
        p.where = p.row = NULL;
    while (rc == 0 && more) {
        rc = read_page(link, &p, &more, err);
        if (rc < 0 || !more)
            break;
        /* Rows come in the order of iterations, so their numbers may fall. */
        if (p.last == *field_i64(p.args, p.where)) {
            rc = err_set(err, ERR_PROTO, "%s: the pages do not move on",
                         m->name);
            break;
        }
        *field_i64(p.args, p.where) = p.last;
    }
out:
    free(p.args);
    free(p.view);
    return rc;
}
