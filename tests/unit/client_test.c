/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/client.h"
#include "proto/frame.h"

/* ---- the daemon's side ---------------------------------------------------- */

/* Feeds one frame; frees payload. */
static int
say(struct client *c, char *payload, struct err *err)
{
    size_t n = strlen(payload);
    uint8_t header[FRAME_HEADER_BYTES];
    int rc;

    frame_write_header(header, n);
    rc = client_feed(c, header, sizeof(header), err);
    if (rc == 0)
        rc = client_feed(c, payload, n, err);
    free(payload);
    return rc;
}

static int
say_text(struct client *c, const char *payload, struct err *err)
{
    return say(c, strdup(payload), err);
}

static int
say_hello(struct client *c, int min, int max, struct err *err)
{
    struct view_hello hello;

    view_init(VIEW_ID_hello, &hello);
    hello.hello = "traind";
    hello.version = "9.9.9";
    hello.proto_min = min;
    hello.proto_max = max;
    hello.uid = 1000;
    return say(c, codec_write_hello(&hello, NULL), err);
}

static struct client *
greeted(void)
{
    struct client *c = client_create();

    assert_int_equal(say_hello(c, 1, 1, NULL), 0);
    assert_int_equal(client_poll(c), CLIENT_HELLO);
    return c;
}

static void
ask_status(struct client *c)
{
    struct view_job_ref args = {"@", 0};
    struct err err = {0};

    assert_int_equal(client_ask(c, MESSAGE_ID_status, &args, &err), 0);
}

static int
say_job(struct client *c, int64_t id, struct err *err)
{
    struct view_job job;

    view_init(VIEW_ID_job, &job);
    job.id = 17;
    job.name = "fashion";
    return say(
        c, codec_write_reply(id, MESSAGE_ID_status, &job, 1, false, NULL), err);
}

/* Takes all pending bytes, some at a time, and opens them as one frame. */
static struct codec_doc *
take_frame(struct client *c, struct codec_envelope *e)
{
    struct frame_reader *r = frame_reader_create(FRAME_MAX_BYTES);
    struct codec_doc *doc = NULL;
    const char *payload;
    size_t n, len;
    const void *bytes;

    while ((bytes = client_pending(c, &n)) != NULL) {
        n = n > 3 ? 3 : n;
        assert_int_equal(frame_reader_feed(r, bytes, n, NULL), 0);
        client_sent(c, n);
    }
    payload = frame_reader_next(r, &len);
    assert_non_null(payload);
    assert_int_equal(codec_open(payload, len, e, &doc, NULL), 0);
    assert_null(frame_reader_next(r, &len));
    frame_reader_destroy(&r);
    return doc;
}

/* ---- tests ---------------------------------------------------------------- */

static void
test_client_conversation(void **state)
{
    struct client *c = client_create();
    struct codec_envelope e;
    struct codec_doc *doc;
    struct view_job_ref args;
    struct view_job job;
    size_t n;

    (void)state;
    assert_null(client_pending(c, &n));
    assert_int_equal(n, 0);
    assert_null(client_hello(c));
    ask_status(c); /* before the hello */
    assert_int_equal(say_hello(c, 1, 5, NULL), 0);
    assert_int_equal(client_poll(c), CLIENT_HELLO);
    assert_string_equal(client_hello(c)->version, "9.9.9");
    assert_int_equal(client_hello(c)->uid, 1000);
    doc = take_frame(c, &e);
    assert_int_equal(e.kind, CODEC_REQUEST);
    assert_int_equal(e.message, MESSAGE_ID_status);
    assert_int_equal(codec_read(doc, 0, VIEW_ID_job_ref, &args, NULL), 0);
    assert_string_equal(args.job, "@");
    codec_doc_close(&doc);
    assert_int_equal(client_poll(c), CLIENT_NOTHING);
    assert_int_equal(say_job(c, e.id, NULL), 0);
    assert_int_equal(client_poll(c), CLIENT_REPLY);
    assert_int_equal(client_envelope(c)->n_items, 1);
    assert_int_equal(client_read(c, 0, &job, NULL), 0);
    assert_int_equal(job.id, 17);
    assert_string_equal(job.name, "fashion");
    assert_int_equal(client_poll(c), CLIENT_NOTHING);
    /* The hello stays readable, the next request gets a new number. */
    assert_string_equal(client_hello(c)->version, "9.9.9");
    ask_status(c);
    doc = take_frame(c, &e);
    assert_int_equal(e.id, 2);
    codec_doc_close(&doc);
    client_destroy(&c);
    assert_null(c);
    client_destroy(&c);
}

static void
test_client_one_request_at_a_time(void **state)
{
    struct view_job_ref args = {"1", 0};
    struct client *c = greeted();
    struct err err;

    (void)state;
    assert_int_equal(client_grant(c, 1, &err), ERR_STATE);
    ask_status(c);
    assert_int_equal(client_ask(c, MESSAGE_ID_pause, &args, &err), ERR_STATE);
    assert_string_equal(err.msg, "status is still under way");
    assert_int_equal(say_job(c, 1, NULL), 0);
    /* Arrived, but nobody looked at it yet. */
    assert_int_equal(client_ask(c, MESSAGE_ID_pause, &args, &err), ERR_STATE);
    assert_int_equal(client_poll(c), CLIENT_REPLY);
    assert_int_equal(client_ask(c, MESSAGE_ID_pause, &args, &err), 0);
    client_destroy(&c);
}

static void
test_client_stream(void **state)
{
    struct client *c = greeted();
    struct view_follow args = {.job = "17", .credit = 2};
    struct view_notice notice;
    struct codec_envelope e;
    struct codec_doc *doc;

    (void)state;
    assert_int_equal(client_ask(c, MESSAGE_ID_follow, &args, NULL), 0);
    doc = take_frame(c, &e);
    codec_doc_close(&doc);
    for (int i = 0; i < 3; i++) {
        view_init(VIEW_ID_notice, &notice);
        notice.kind = "progress";
        notice.iteration = i;
        assert_int_equal(say(c, codec_write_notice(1, &notice, NULL), NULL), 0);
    }
    assert_int_equal(say_job(c, 1, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_poll(c), CLIENT_NOTICE);
        assert_int_equal(client_read(c, 0, &notice, NULL), 0);
        assert_int_equal(notice.iteration, i);
    }
    assert_int_equal(client_poll(c), CLIENT_REPLY);
    client_destroy(&c);
}

static void
test_client_grant(void **state)
{
    struct client *c = greeted();
    struct view_follow args = {.job = "17", .credit = 2};
    struct codec_envelope e;
    struct codec_doc *doc;

    (void)state;
    assert_int_equal(client_ask(c, MESSAGE_ID_follow, &args, NULL), 0);
    doc = take_frame(c, &e);
    codec_doc_close(&doc);
    assert_int_equal(client_grant(c, 32, NULL), 0);
    doc = take_frame(c, &e);
    assert_int_equal(e.kind, CODEC_CREDIT);
    assert_int_equal(e.id, 1);
    assert_int_equal(e.credit, 32);
    codec_doc_close(&doc);
    client_destroy(&c);
}

static void
test_client_refusal(void **state)
{
    struct spec_fault fault = {2, 7, "amp.dtype", "unknown dtype"};
    struct spec_faults faults = {&fault, 1};
    struct client *c = greeted();
    struct view_fault out;
    struct err err;

    (void)state;
    ask_status(c);
    err_set(&err, ERR_SPEC, "1 fault");
    assert_int_equal(say(c, codec_write_refusal(1, &err, &faults, NULL), NULL),
                     0);
    assert_int_equal(client_poll(c), CLIENT_REFUSAL);
    assert_int_equal(client_envelope(c)->error.code, ERR_SPEC);
    assert_string_equal(client_envelope(c)->error.msg, "1 fault");
    assert_int_equal(client_n_faults(c), 1);
    assert_int_equal(client_read_fault(c, 0, &out), 0);
    assert_string_equal(out.path, "amp.dtype");
    assert_int_equal(out.col, 7);
    ask_status(c); /* the request is over */
    client_destroy(&c);
}

/* A daemon that is full says so in its first frame. */
static void
test_client_turned_away(void **state)
{
    struct client *c = client_create();
    struct err err, full;

    (void)state;
    err_set(&full, ERR_AGAIN, "64 clients are connected already");
    assert_int_equal(say(c, codec_write_refusal(0, &full, NULL, NULL), &err),
                     ERR_AGAIN);
    assert_string_equal(err.msg, "64 clients are connected already");
    client_destroy(&c);
}

static void
check_versions(int min, int max, int rc)
{
    struct client *c = client_create();
    struct err err;

    assert_int_equal(say_hello(c, min, max, &err), rc);
    if (rc != 0) {
        assert_non_null(strstr(err.msg, "9.9.9"));
        assert_int_equal(client_poll(c), CLIENT_NOTHING);
        assert_null(client_hello(c));
    }
    client_destroy(&c);
}

static void
test_client_versions(void **state)
{
    (void)state;
    check_versions(MESSAGE_PROTO_MIN, MESSAGE_PROTO_MAX, 0);
    check_versions(MESSAGE_PROTO_MAX, MESSAGE_PROTO_MAX + 7, 0);
    check_versions(MESSAGE_PROTO_MIN - 1, MESSAGE_PROTO_MIN, 0);
    check_versions(MESSAGE_PROTO_MAX + 1, MESSAGE_PROTO_MAX + 7, ERR_VERSION);
    check_versions(0, MESSAGE_PROTO_MIN - 1, ERR_VERSION);
}

/* What a daemon may not say ends the conversation, for good. */
static void
test_client_violations(void **state)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"{\"id\":1,\"ok\":true,\"items\":[]}",
         "the daemon sent a list for status"},
        {"{\"id\":2,\"ok\":true,\"item\":{}}",
         "the daemon answers request 2, which nobody asked"},
        {"{\"id\":1,\"notice\":{}}", "the daemon sent a notice about status"},
        {"{\"id\":1,\"verb\":\"ping\"}",
         "the daemon sent what only a client may"},
        {"{\"id\":1,\"credit\":3}", "the daemon sent what only a client may"},
        {"{\"hello\":\"traind\"}", "the daemon sent what only a client may"},
        {"{\"id\":1,\"ok\"", "no JSON: column 12: ':' expected near end of "
                             "file"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c = greeted();
        struct err err;

        ask_status(c);
        assert_int_equal(say_text(c, rows[i].text, &err), ERR_PROTO);
        assert_string_equal(err.msg, rows[i].sentence);
        assert_int_equal(say_job(c, 1, &err), ERR_PROTO);
        assert_string_equal(err.msg, rows[i].sentence);
        assert_int_equal(client_poll(c), CLIENT_NOTHING);
        client_destroy(&c);
    }
}

static void
test_client_two_replies(void **state)
{
    struct client *c = greeted();
    struct err err;

    (void)state;
    ask_status(c);
    assert_int_equal(say_job(c, 1, NULL), 0);
    assert_int_equal(say_job(c, 1, &err), ERR_PROTO);
    assert_int_equal(client_poll(c), CLIENT_REPLY); /* the first one counts */
    client_destroy(&c);
}

static void
test_client_no_hello(void **state)
{
    struct client *c = client_create();
    struct err err;

    (void)state;
    ask_status(c);
    assert_int_equal(say_job(c, 1, &err), ERR_PROTO);
    assert_string_equal(err.msg, "the daemon's first frame is no hello");
    client_destroy(&c);
}

static void
test_client_garbage(void **state)
{
    struct client *c = client_create();
    struct err err;

    (void)state;
    assert_int_equal(client_feed(c, "SSH-2.0-OpenSSH", 15, &err), ERR_PROTO);
    client_destroy(&c);
}

/* Destroying with answers nobody polled frees them (the sanitizer looks). */
static void
test_client_destroy_unread(void **state)
{
    struct client *c = client_create();

    (void)state;
    assert_int_equal(say_hello(c, 1, 1, NULL), 0);
    ask_status(c);
    assert_int_equal(say_job(c, 1, NULL), 0);
    client_destroy(&c);
    assert_null(c);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_conversation),
        cmocka_unit_test(test_client_one_request_at_a_time),
        cmocka_unit_test(test_client_stream),
        cmocka_unit_test(test_client_grant),
        cmocka_unit_test(test_client_refusal),
        cmocka_unit_test(test_client_turned_away),
        cmocka_unit_test(test_client_versions),
        cmocka_unit_test(test_client_violations),
        cmocka_unit_test(test_client_two_replies),
        cmocka_unit_test(test_client_no_hello),
        cmocka_unit_test(test_client_garbage),
        cmocka_unit_test(test_client_destroy_unread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
