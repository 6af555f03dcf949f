/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/codec.h"

#define MAX_VIEW_BYTES 1024

/* ---- views --------------------------------------------------------------- */

static const int64_t ints[] = {INT64_MIN, -1, 0, 42, INT64_MAX};
static const double reals[] = {0.1,         -0.0,     5e-324,   1.7e308,
                               (double)NAN, HUGE_VAL, -HUGE_VAL};
static const char *strings[] = {"", "plain",
                                "quote \" slash \\ nl \n tab \t \x01 del \x7f",
                                "Gr\xc3\xb6\xc3\x9f"
                                "e \xf0\x9f\x8c\x8d"};

/* Fills every field with something that depends on the round. */
static void
fill(enum view_id id, void *view, int round)
{
    const struct view_desc *d = &view_table[id];

    view_init(id, view);
    for (int i = 0; i < d->n_fields; i++) {
        char *at = (char *)view + d->fields[i].offset;
        int k = i + round;

        switch (d->fields[i].type) {
        case VIEW_I64: *(int64_t *)at = ints[k % 5]; break;
        case VIEW_F64: *(double *)at = reals[k % 7]; break;
        case VIEW_BOOL: *(bool *)at = k % 2 == 0; break;
        case VIEW_STR: *(const char **)at = strings[k % 4]; break;
        case VIEW_I64S:
            *(struct view_i64s *)at = (struct view_i64s){ints, k % 6};
            break;
        case VIEW_STRS:
            *(struct view_strs *)at = (struct view_strs){strings, k % 5};
            break;
        }
    }
}

static void
check_equal(enum view_id id, const void *a, const void *b)
{
    const struct view_desc *d = &view_table[id];

    for (int i = 0; i < d->n_fields; i++) {
        const void *x = (const char *)a + d->fields[i].offset;
        const void *y = (const char *)b + d->fields[i].offset;
        const struct view_i64s *xi = x, *yi = y;
        const struct view_strs *xs = x, *ys = y;

        switch (d->fields[i].type) {
        case VIEW_I64: assert_memory_equal(x, y, 8); break;
        case VIEW_F64:
            if (isnan(*(const double *)x))
                assert_true(isnan(*(const double *)y));
            else
                assert_memory_equal(x, y, 8);
            break;
        case VIEW_BOOL:
            assert_int_equal(*(const bool *)x, *(const bool *)y);
            break;
        case VIEW_STR:
            assert_string_equal(*(const char *const *)x,
                                *(const char *const *)y);
            break;
        case VIEW_I64S:
            assert_int_equal(xi->n, yi->n);
            if (xi->n > 0)
                assert_memory_equal(xi->v, yi->v, (size_t)xi->n * 8);
            break;
        case VIEW_STRS:
            assert_int_equal(xs->n, ys->n);
            for (int j = 0; j < xs->n; j++)
                assert_string_equal(xs->v[j], ys->v[j]);
            break;
        }
    }
}

static void
test_codec_views(void **state)
{
    (void)state;
    for (int v = 0; v < VIEW_ID_COUNT; v++) {
        assert_true(view_table[v].size_bytes <= MAX_VIEW_BYTES);
        for (int round = 0; round < 70; round++) {
            _Alignas(16) char in[MAX_VIEW_BYTES], out[MAX_VIEW_BYTES];
            struct codec_doc *doc;
            struct err err;
            size_t len;
            char *text;

            fill((enum view_id)v, in, round);
            text = codec_write_view((enum view_id)v, in, round % 3, &len);
            assert_int_equal(strlen(text), len);
            assert_int_equal(strchr(text, '\n') != NULL,
                             round % 3 != 0 && view_table[v].n_fields > 0);
            assert_int_equal(
                codec_read_view(text, len, (enum view_id)v, out, &doc, &err),
                0);
            check_equal((enum view_id)v, in, out);
            free(text);
            codec_doc_close(&doc);
            assert_null(doc);
        }
    }
}

static void
test_codec_view_absent(void **state)
{
    struct view_metric in, out;
    struct codec_doc *doc;

    (void)state;
    view_init(VIEW_ID_metric, &in);
    assert_int_equal(
        codec_read_view("{\"new\":{}}", 10, VIEW_ID_metric, &out, &doc, NULL),
        0);
    check_equal(VIEW_ID_metric, &in, &out);
    codec_doc_close(&doc);
}

/* C strings that were never set go out empty rather than down. */
static void
test_codec_view_null_string(void **state)
{
    struct view_cancel in = {NULL, NULL, 0};
    char *text = codec_write_view(VIEW_ID_cancel, &in, 0, NULL);

    (void)state;
    assert_string_equal(text, "{\"job\":\"\",\"reason\":\"\"}");
    free(text);
}

static void
test_codec_view_wrong_types(void **state)
{
    static const struct {
        const char *text, *sentence;
    } rows[] = {
        {"{\"row\":1.5}", "metric.row must be an integer"},
        {"{\"row\":\"1\"}", "metric.row must be an integer"},
        {"{\"row\":null}", "metric.row must be an integer"},
        {"{\"live\":1}", "metric.live must be true or false"},
        {"{\"loss\":\"nan\"}", "metric.loss must be a number, \"NaN\", "
                               "\"Infinity\" or \"-Infinity\""},
        {"[]", "a list where an object should be"},
        {"{\"row\":1,\"row\":2}",
         "no JSON: column 14: duplicate object key near '\"row\"'"},
        {"{\"row\":99999999999999999999}",
         "no JSON: column 27: too big integer near '99999999999999999999'"},
        {"", "no JSON: column 0: '[' or '{' expected near end of file"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct view_metric out;
        struct codec_doc *doc;
        struct err err;

        assert_int_equal(codec_read_view(rows[i].text, strlen(rows[i].text),
                                         VIEW_ID_metric, &out, &doc, &err),
                         ERR_PROTO);
        assert_null(doc);
        assert_string_equal(err.msg, rows[i].sentence);
    }
}

static void
test_codec_view_wrong_lists(void **state)
{
    static const struct {
        enum view_id id;
        const char *text, *sentence;
    } rows[] = {
        {VIEW_ID_scale, "{\"samples\":[1,2.5]}",
         "scale.samples must be a list of integers"},
        {VIEW_ID_scale, "{\"samples\":7}",
         "scale.samples must be a list of integers"},
        {VIEW_ID_start, "{\"resume\":[\"a\",1]}",
         "start.resume must be a list of strings"},
        {VIEW_ID_start, "{\"spec\":{}}", "start.spec must be a string"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _Alignas(16) char out[MAX_VIEW_BYTES];
        struct codec_doc *doc;
        struct err err;

        assert_int_equal(codec_read_view(rows[i].text, strlen(rows[i].text),
                                         rows[i].id, out, &doc, &err),
                         ERR_PROTO);
        assert_string_equal(err.msg, rows[i].sentence);
    }
}

/* A whole number is a number; a real is no whole number. */
static void
test_codec_view_integer_as_real(void **state)
{
    const char *text = "{\"loss\":3,\"row\":9007199254740993}";
    struct view_metric out;
    struct codec_doc *doc;

    (void)state;
    assert_int_equal(
        codec_read_view(text, strlen(text), VIEW_ID_metric, &out, &doc, NULL),
        0);
    assert_true(out.loss == 3.0);
    assert_int_equal(out.row, 9007199254740993);
    codec_doc_close(&doc);
}

/* ---- envelopes ----------------------------------------------------------- */

static struct codec_doc *
open_text(char *text, struct codec_envelope *e)
{
    struct codec_doc *doc = NULL;
    struct err err = {0};

    assert_non_null(text);
    if (codec_open(text, strlen(text), e, &doc, &err) != 0)
        fail_msg("%s: %s", text, err.msg);
    free(text); /* nothing decoded may point into it */
    return doc;
}

static void
test_codec_requests(void **state)
{
    (void)state;
    for (int m = 0; m < MESSAGE_ID_COUNT; m++) {
        enum view_id id = message_table[m].request;
        _Alignas(16) char in[MAX_VIEW_BYTES], out[MAX_VIEW_BYTES];
        bool control = message_table[m].flow == MESSAGE_CONTROL;
        struct codec_envelope e;
        struct codec_doc *doc;
        size_t len;
        char *text;

        fill(id, in, m);
        text = control ? codec_write_request(7, (enum message_id)m, in, &len)
                       : codec_write_one_way((enum message_id)m, in, &len);
        doc = open_text(text, &e);
        assert_int_equal(e.kind, control ? CODEC_REQUEST : CODEC_ONE_WAY);
        assert_int_equal(e.id, control ? 7 : 0);
        assert_int_equal(e.message, m);
        assert_int_equal(codec_read(doc, 0, id, out, NULL), 0);
        check_equal(id, in, out);
        codec_doc_close(&doc);
    }
}

static void
test_codec_replies(void **state)
{
    (void)state;
    for (int m = 0; m < MESSAGE_ID_COUNT; m++) {
        enum view_id id = message_table[m].reply;
        size_t size = view_table[id].size_bytes;
        bool many = message_table[m].shape == MESSAGE_MANY;
        _Alignas(16) char in[3 * MAX_VIEW_BYTES], out[MAX_VIEW_BYTES];
        struct codec_envelope e;
        struct codec_doc *doc;

        if (message_table[m].flow != MESSAGE_CONTROL)
            continue;
        for (int n = many ? 0 : 1; n <= (many ? 3 : 1); n++) {
            for (int i = 0; i < n; i++)
                fill(id, in + (size_t)i * size, m + i);
            doc = open_text(
                codec_write_reply(9, (enum message_id)m, in, n, n == 3, NULL),
                &e);
            assert_int_equal(e.kind, CODEC_REPLY);
            assert_int_equal(e.id, 9);
            assert_int_equal(e.n_items, n);
            assert_int_equal(e.more, n == 3);
            for (int i = 0; i < n; i++) {
                assert_int_equal(codec_read(doc, i, id, out, NULL), 0);
                check_equal(id, in + (size_t)i * size, out);
            }
            codec_doc_close(&doc);
        }
    }
}

static void
test_codec_hello(void **state)
{
    struct view_hello in, out;
    struct codec_envelope e;
    struct codec_doc *doc;
    size_t len;
    char *text;

    (void)state;
    view_init(VIEW_ID_hello, &in);
    in.hello = "traind";
    in.proto_min = 1;
    in.proto_max = 3;
    in.uid = 1000;
    in.version = "0.1.0";
    text = codec_write_hello(&in, &len);
    assert_memory_equal(text, "{\"hello\":\"traind\",\"proto_min\":1,", 32);
    doc = open_text(text, &e);
    assert_int_equal(e.kind, CODEC_HELLO);
    assert_int_equal(codec_read(doc, 0, VIEW_ID_hello, &out, NULL), 0);
    check_equal(VIEW_ID_hello, &in, &out);
    codec_doc_close(&doc);
}

static void
test_codec_refusal(void **state)
{
    struct spec_fault list[2] = {{3, 5, "model[0]", "unknown layer"},
                                 {9, 1, "amp \"x\"", "no"}};
    struct spec_faults faults = {list, 2};
    struct err in;
    struct view_fault fault;
    struct codec_envelope e;
    struct codec_doc *doc;

    (void)state;
    err_set(&in, ERR_SPEC, "2 faults");
    doc = open_text(codec_write_refusal(4, &in, &faults, NULL), &e);
    assert_int_equal(e.kind, CODEC_REFUSAL);
    assert_int_equal(e.id, 4);
    assert_int_equal(e.error.code, ERR_SPEC);
    assert_string_equal(e.error.msg, "2 faults");
    assert_int_equal(codec_n_faults(doc), 2);
    assert_int_equal(codec_read_fault(doc, 1, &fault), 0);
    assert_int_equal(fault.line, 9);
    assert_int_equal(fault.col, 1);
    assert_string_equal(fault.path, "amp \"x\"");
    assert_string_equal(fault.message, "no");
    codec_doc_close(&doc);

    in = (struct err){.code = ERR_AGAIN}; /* nobody wrote a sentence */
    doc = open_text(codec_write_refusal(5, &in, NULL, NULL), &e);
    assert_string_equal(e.error.msg, "try again later");
    assert_int_equal(codec_n_faults(doc), 0);
    codec_doc_close(&doc);
}

static void
test_codec_notice_and_credit(void **state)
{
    struct view_notice in, out;
    struct codec_envelope e;
    struct codec_doc *doc;

    (void)state;
    fill(VIEW_ID_notice, &in, 3);
    doc = open_text(codec_write_notice(2, &in, NULL), &e);
    assert_int_equal(e.kind, CODEC_NOTICE);
    assert_int_equal(e.id, 2);
    assert_int_equal(codec_read(doc, 0, VIEW_ID_notice, &out, NULL), 0);
    check_equal(VIEW_ID_notice, &in, &out);
    codec_doc_close(&doc);

    doc = open_text(codec_write_credit(2, 32, NULL), &e);
    assert_int_equal(e.kind, CODEC_CREDIT);
    assert_int_equal(e.credit, 32);
    codec_doc_close(&doc);
}

static void
test_codec_bad_envelopes(void **state)
{
    static const struct {
        const char *text;
        int64_t id; /* that a refusal can name */
        const char *sentence;
    } rows[] = {
        {"{}", 0, "id must be an integer, 0 or more"},
        {"{\"id\":1}", 1, "a frame must have verb, ok, notice or credit"},
        {"{\"id\":-1,\"verb\":\"ping\"}", 0,
         "id must be an integer, 0 or more"},
        {"{\"id\":0,\"verb\":\"ping\"}", 0, "a request's id is above 0"},
        {"{\"id\":1.0,\"verb\":\"ping\"}", 0,
         "id must be an integer, 0 or more"},
        {"{\"id\":5,\"verb\":7}", 5, "verb must be a string"},
        {"{\"id\":5,\"verb\":\"ping\",\"args\":[]}", 5,
         "args must be an object"},
        {"{\"id\":5,\"verb\":\"ping\",\"argz\":{}}", 5,
         "unknown field \"argz\"; known: id, verb, args"},
        {"{\"id\":5,\"verb\":\"start\"}", 5, "start is not a client's message"},
        {"{\"verb\":\"ping\"}", 0, "ping is a request and needs an id"},
        {"{\"id\":5,\"ok\":1}", 5, "ok must be true or false"},
        {"{\"id\":5,\"ok\":true}", 5,
         "a reply must have an item or a list of items"},
        {"{\"id\":5,\"ok\":true,\"item\":{},\"items\":[]}", 5,
         "a reply must have an item or a list of items"},
        {"{\"id\":5,\"ok\":true,\"items\":[],\"more\":1}", 5,
         "more must be true or false"},
        {"{\"id\":5,\"ok\":false}", 5, "error.code must be a negative number"},
        {"{\"id\":5,\"ok\":false,\"error\":{\"code\":3,\"message\":\"\"}}", 5,
         "error.code must be a negative number"},
        {"{\"id\":5,\"ok\":false,\"error\":{\"code\":-3}}", 5,
         "error.message must be a string"},
        {"{\"id\":5,\"credit\":0}", 5, "credit must be from 1 to 1000000"},
        {"{\"id\":5,\"credit\":9223372036854775807}", 5,
         "credit must be from 1 to 1000000"},
        {"{\"hello\":\"sshd\"}", 0, "\"sshd\" says hello, not traind"},
        {"[1]", 0, "a list where an object should be"},
        {"\x16\x03\x01", 0, "no JSON: column 1: '[' or '{' expected near '?'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct codec_envelope e;
        struct codec_doc *doc;
        struct err err;

        assert_int_equal(
            codec_open(rows[i].text, strlen(rows[i].text), &e, &doc, &err),
            ERR_PROTO);
        assert_null(doc);
        assert_string_equal(err.msg, rows[i].sentence);
        assert_int_equal(e.id, rows[i].id);
    }
}

static void
test_codec_unknown_verb(void **state)
{
    const char *text = "{\"id\":3,\"verb\":\"stauts\"}";
    struct codec_envelope e;
    struct codec_doc *doc;
    struct err err;

    (void)state;
    assert_int_equal(codec_open(text, strlen(text), &e, &doc, &err), ERR_PROTO);
    assert_non_null(strstr(err.msg, "unknown verb \"stauts\"; known: ping, "));
    assert_non_null(strstr(err.msg, ", paths"));
    assert_null(strstr(err.msg, "checkin"));
}

/* A request with an unknown field is refused, a reply with one is not. */
static void
test_codec_unknown_field(void **state)
{
    const char *request = "{\"id\":1,\"verb\":\"cancel\",\"args\":"
                          "{\"jobb\":\"3\"}}";
    const char *reply = "{\"id\":1,\"ok\":true,\"item\":{\"pid\":9,"
                        "\"brand_new\":[]},\"brand_new\":1}";
    const char *order = "{\"verb\":\"order\",\"args\":{\"order\":\"stop\","
                        "\"brand_new\":0}}";
    struct codec_envelope e;
    struct codec_doc *doc;
    struct view_cancel cancel;
    struct view_pong pong;
    struct view_order out;
    struct err err;

    (void)state;
    assert_int_equal(codec_open(request, strlen(request), &e, &doc, NULL), 0);
    assert_int_equal(codec_read(doc, 0, VIEW_ID_cancel, &cancel, &err),
                     ERR_PROTO);
    assert_string_equal(err.msg, "unknown field \"jobb\"; known: job, reason");
    codec_doc_close(&doc);
    assert_int_equal(codec_open(reply, strlen(reply), &e, &doc, NULL), 0);
    assert_int_equal(codec_read(doc, 0, VIEW_ID_pong, &pong, NULL), 0);
    assert_int_equal(pong.pid, 9);
    codec_doc_close(&doc);
    assert_int_equal(codec_open(order, strlen(order), &e, &doc, NULL), 0);
    assert_int_equal(codec_read(doc, 0, VIEW_ID_order, &out, NULL), 0);
    assert_string_equal(out.order, "stop");
    codec_doc_close(&doc);
}

/* Every beginning of a good frame is a bad one. */
static void
test_codec_truncated(void **state)
{
    struct view_submit in;
    struct codec_envelope e;
    struct codec_doc *doc;
    struct err err;
    size_t len;
    char *text;

    (void)state;
    fill(VIEW_ID_submit, &in, 2);
    text = codec_write_request(7, MESSAGE_ID_submit, &in, &len);
    for (size_t n = 0; n < len; n++)
        assert_int_equal(codec_open(text, n, &e, &doc, &err), ERR_PROTO);
    free(text);
}

static void
test_codec_deep(void **state)
{
    size_t n = 1000000;
    char *text = malloc(n);
    struct codec_envelope e;
    struct codec_doc *doc;
    struct err err;

    (void)state;
    memset(text, '[', n);
    assert_int_equal(codec_open(text, n, &e, &doc, &err), ERR_PROTO);
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codec_views),
        cmocka_unit_test(test_codec_view_absent),
        cmocka_unit_test(test_codec_view_null_string),
        cmocka_unit_test(test_codec_view_wrong_types),
        cmocka_unit_test(test_codec_view_wrong_lists),
        cmocka_unit_test(test_codec_view_integer_as_real),
        cmocka_unit_test(test_codec_requests),
        cmocka_unit_test(test_codec_replies),
        cmocka_unit_test(test_codec_hello),
        cmocka_unit_test(test_codec_refusal),
        cmocka_unit_test(test_codec_notice_and_credit),
        cmocka_unit_test(test_codec_bad_envelopes),
        cmocka_unit_test(test_codec_unknown_verb),
        cmocka_unit_test(test_codec_unknown_field),
        cmocka_unit_test(test_codec_truncated),
        cmocka_unit_test(test_codec_deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
