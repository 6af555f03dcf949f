/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/text.h"

#define MAGIC 0x636c6931u

/* Something that arrived whole. */
struct arrival {
    struct arrival *next; /* owned */
    struct codec_envelope envelope;
    struct codec_doc *doc; /* owned */
    enum message_id message;
};

enum phase {
    IDLE,
    ASKED,   /* a request is under way */
    ANSWERED /* its end has arrived, but was not polled yet */
};

struct client {
    unsigned magic;
    struct frame_reader *reader; /* owned */
    struct text out;             /* owned; bytes from `sent` on are pending */
    size_t sent;
    struct arrival *first, **last; /* owned queue of what was not polled */
    struct arrival *current;       /* owned; what the last poll gave */
    bool has_hello;                /* arrived, polled or not */
    struct view_hello hello;
    struct codec_doc *hello_doc; /* owned; hello's strings */
    enum phase phase;
    int64_t id; /* of the request under way, or the last one */
    enum message_id message;
    struct err broken; /* why nothing more can be fed */
};

struct client *
client_create(void)
{
    struct client *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->magic = MAGIC;
    c->last = &c->first;
    c->reader = frame_reader_create(FRAME_MAX_BYTES);
    if (c->reader == NULL) {
        free(c);
        return NULL;
    }
    return c;
}

static void
free_arrival(struct arrival **a)
{
    if (*a == NULL)
        return;
    codec_doc_close(&(*a)->doc);
    free(*a);
    *a = NULL;
}

void
client_destroy(struct client **client)
{
    struct client *c = *client;

    if (c == NULL)
        return;
    assert(c->magic == MAGIC);
    c->magic = 0;
    while (c->first != NULL) {
        struct arrival *a = c->first;

        c->first = a->next;
        free_arrival(&a);
    }
    free_arrival(&c->current);
    codec_doc_close(&c->hello_doc);
    frame_reader_destroy(&c->reader);
    text_fini(&c->out);
    free(c);
    *client = NULL;
}

/* ---- in ------------------------------------------------------------------ */

/* A refusal of no request in particular: the daemon is about to hang up, or
 * could not read the id of what it refuses. */
static bool
is_general_refusal(const struct arrival *a)
{
    return a->envelope.kind == CODEC_REFUSAL && a->envelope.id == 0;
}

static int
take_hello(struct client *c, struct arrival *a, struct err *err)
{
    int rc;

    if (is_general_refusal(a))
        return err_set(err, a->envelope.error.code, "%s",
                       a->envelope.error.msg);
    if (a->envelope.kind != CODEC_HELLO)
        return err_set(err, ERR_PROTO, "the daemon's first frame is no hello");
    rc = codec_read(a->doc, 0, VIEW_ID_hello, &c->hello, err);
    if (rc != 0)
        return rc;
    if (c->hello.proto_min > MESSAGE_PROTO_MAX ||
        c->hello.proto_max < MESSAGE_PROTO_MIN)
        return err_set(err, ERR_VERSION,
                       "the daemon (version %.40s) speaks protocol %lld to "
                       "%lld, this client %d to %d",
                       c->hello.version, (long long)c->hello.proto_min,
                       (long long)c->hello.proto_max, MESSAGE_PROTO_MIN,
                       MESSAGE_PROTO_MAX);
    c->has_hello = true;
    c->hello_doc = a->doc;
    a->doc = NULL;
    return 0;
}

/* Checks that the daemon may say this now. */
static int
take_answer(struct client *c, struct arrival *a, struct err *err)
{
    enum codec_envelope_kind kind = a->envelope.kind;
    const struct message *m = &message_table[c->message];

    if (kind != CODEC_REPLY && kind != CODEC_REFUSAL && kind != CODEC_NOTICE)
        return err_set(err, ERR_PROTO,
                       "the daemon sent what only a client may");
    if (is_general_refusal(a) && c->phase != ASKED)
        return err_set(err, a->envelope.error.code, "%s",
                       a->envelope.error.msg);
    if (c->phase != ASKED ||
        (a->envelope.id != c->id && !is_general_refusal(a)))
        return err_set(err, ERR_PROTO,
                       "the daemon answers request %lld, which nobody asked",
                       (long long)a->envelope.id);
    if (kind == CODEC_NOTICE && m->shape != MESSAGE_STREAM)
        return err_set(err, ERR_PROTO, "the daemon sent a notice about %s",
                       m->name);
    if (kind == CODEC_REPLY && m->shape != MESSAGE_MANY &&
        a->envelope.n_items != 1)
        return err_set(err, ERR_PROTO, "the daemon sent a list for %s",
                       m->name);
    a->message = c->message;
    if (kind != CODEC_NOTICE)
        c->phase = ANSWERED;
    return 0;
}

static int
take_frame(struct client *c, const char *payload, size_t len, struct err *err)
{
    struct arrival *a = calloc(1, sizeof(*a));
    int rc;

    if (a == NULL)
        return err_set(err, ERR_NOMEM, "no memory for an answer");
    rc = codec_open(payload, len, &a->envelope, &a->doc, err);
    if (rc == 0)
        rc = c->has_hello ? take_answer(c, a, err) : take_hello(c, a, err);
    if (rc != 0) {
        free_arrival(&a);
        return rc;
    }
    *c->last = a;
    c->last = &a->next;
    return 0;
}

int
client_feed(struct client *c, const void *bytes, size_t n, struct err *err)
{
    const char *payload;
    size_t len;
    int rc, fed;

    assert(c->magic == MAGIC);
    if (c->broken.code != 0)
        return err_set(err, c->broken.code, "%s", c->broken.msg);
    fed = frame_reader_feed(c->reader, bytes, n, &c->broken);
    rc = 0;
    while (rc == 0 && (payload = frame_reader_next(c->reader, &len)) != NULL)
        rc = take_frame(c, payload, len, &c->broken);
    if (rc == 0 && fed == 0)
        return 0;
    return err_set(err, c->broken.code, "%s", c->broken.msg);
}

enum client_news
client_poll(struct client *c)
{
    assert(c->magic == MAGIC);
    free_arrival(&c->current);
    if (c->first == NULL)
        return CLIENT_NOTHING;
    c->current = c->first;
    c->first = c->current->next;
    c->current->next = NULL;
    if (c->first == NULL)
        c->last = &c->first;
    switch (c->current->envelope.kind) {
    case CODEC_HELLO: return CLIENT_HELLO;
    case CODEC_NOTICE: return CLIENT_NOTICE;
    case CODEC_REPLY: c->phase = IDLE; return CLIENT_REPLY;
    case CODEC_REFUSAL: c->phase = IDLE; return CLIENT_REFUSAL;
    case CODEC_REQUEST:
    case CODEC_CREDIT:
    case CODEC_ONE_WAY: break;
    }
    assert(!"take_answer() lets nothing else in");
    return CLIENT_NOTHING;
}

const struct view_hello *
client_hello(const struct client *c)
{
    assert(c->magic == MAGIC);
    return c->has_hello ? &c->hello : NULL;
}

const struct codec_envelope *
client_envelope(const struct client *c)
{
    assert(c->magic == MAGIC && c->current != NULL);
    return &c->current->envelope;
}

int
client_read(struct client *c, int i, void *out, struct err *err)
{
    const struct arrival *a = c->current;
    enum view_id id;

    assert(c->magic == MAGIC && a != NULL);
    assert(a->envelope.kind == CODEC_REPLY || a->envelope.kind == CODEC_NOTICE);
    id = a->envelope.kind == CODEC_NOTICE ? VIEW_ID_notice
                                          : message_table[a->message].reply;
    return codec_read(a->doc, i, id, out, err);
}

int
client_n_faults(const struct client *c)
{
    assert(c->magic == MAGIC && c->current != NULL);
    if (c->current->envelope.kind != CODEC_REFUSAL)
        return 0;
    return codec_n_faults(c->current->doc);
}

int
client_read_fault(struct client *c, int i, struct view_fault *out)
{
    assert(c->magic == MAGIC && c->current != NULL);
    return codec_read_fault(c->current->doc, i, out);
}

/* ---- out ----------------------------------------------------------------- */

static int
put_frame(struct client *c, char *payload, size_t len, struct err *err)
{
    uint8_t header[FRAME_HEADER_BYTES];

    if (payload == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a request");
    if (len > FRAME_MAX_BYTES) {
        free(payload);
        return err_set(err, ERR_PROTO,
                       "a request of %zu bytes is more than the %d that a "
                       "frame can hold",
                       len, FRAME_MAX_BYTES);
    }
    frame_write_header(header, len);
    text_put(&c->out, (const char *)header, sizeof(header));
    text_put(&c->out, payload, len);
    free(payload);
    if (c->out.failed)
        return err_set(err, ERR_NOMEM, "no memory for a request");
    return 0;
}

int
client_ask(struct client *c, enum message_id message, const void *args,
           struct err *err)
{
    size_t len = 0;
    char *payload;
    int rc;

    assert(c->magic == MAGIC);
    if (c->phase != IDLE)
        return err_set(err, ERR_STATE, "%s is still under way",
                       message_table[c->message].name);
    payload = codec_write_request(c->id + 1, message, args, &len);
    rc = put_frame(c, payload, len, err);
    if (rc != 0)
        return rc;
    c->id++;
    c->message = message;
    c->phase = ASKED;
    return 0;
}

int
client_grant(struct client *c, int64_t n, struct err *err)
{
    size_t len = 0;
    char *payload;

    assert(c->magic == MAGIC);
    if (c->phase != ASKED)
        return err_set(err, ERR_STATE, "no request is under way");
    payload = codec_write_credit(c->id, n, &len);
    return put_frame(c, payload, len, err);
}

const void *
client_pending(struct client *c, size_t *n)
{
    assert(c->magic == MAGIC);
    *n = c->out.len - c->sent;
    return *n > 0 ? c->out.s + c->sent : NULL;
}

void
client_sent(struct client *c, size_t n)
{
    assert(c->magic == MAGIC && n <= c->out.len - c->sent);
    c->sent += n;
    if (c->sent == c->out.len) {
        text_fini(&c->out);
        c->sent = 0;
    }
}
