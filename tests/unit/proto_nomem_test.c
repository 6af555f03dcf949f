/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation of proto/ fails once: the answer is ERR_NOMEM or NULL, and
 * what was allocated before is freed. jansson is a shared library whose calls
 * are not wrapped: it aborts on some failures, which nobody here can help.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/client.h"
#include "proto/frame.h"
#include "proto/spec_merge.h"
#include "tests/unit/spec_samples.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);

static bool armed;
static int left;   /* allocations until the one that fails */
static bool fired; /* it did */
static int living; /* blocks allocated while armed, less those freed */

static bool
fails(void)
{
    if (!armed)
        return false;
    if (left-- == 0) {
        fired = true;
        return true;
    }
    return false;
}

void *
__wrap_malloc(size_t n)
{
    if (fails())
        return NULL;
    living += armed;
    return __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    if (fails())
        return NULL;
    living += armed;
    return __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
    if (fails())
        return NULL;
    living += armed && p == NULL;
    return __real_realloc(p, n);
}

void
__wrap_free(void *p)
{
    living -= armed && p != NULL;
    __real_free(p);
}

/* Feeds one frame without allocating on this side. */
static int
feed(struct client *c, const char *payload)
{
    uint8_t header[FRAME_HEADER_BYTES];
    int rc;

    frame_write_header(header, strlen(payload));
    rc = client_feed(c, header, sizeof(header), NULL);
    return rc != 0 ? rc : client_feed(c, payload, strlen(payload), NULL);
}

static char *text; /* what the functions below work on */
static size_t text_len;

static int
parse_spec(void)
{
    struct spec_faults faults;
    struct spec *spec;
    int rc = spec_parse(text, text_len, &spec, &faults);
    char *again = NULL;

    if (rc == 0)
        rc = spec_resolve_paths(spec, "/x", NULL);
    if (rc == 0) {
        again = spec_print(spec);
        rc = again != NULL ? 0 : ERR_NOMEM;
    }
    free(again);
    spec_destroy(&spec);
    spec_faults_fini(&faults);
    return rc;
}

static int
refuse_spec(void)
{
    struct spec_faults faults;
    struct spec *spec;
    int rc = spec_parse("{\"a\": 1}", 8, &spec, &faults);

    spec_faults_fini(&faults);
    return rc == ERR_SPEC ? 0 : rc;
}

static int
set_spec(void)
{
    char *out;
    int rc = spec_set(text, text_len, "train.epochs={\"a\": 1}", &out, NULL);

    free(out);
    return rc;
}

static int
merge_spec(void)
{
    const char *fragment = "{\"guard\": {\"mode\": \"off\"}}";
    char *out;
    int rc = spec_merge(text, text_len, fragment, &out, NULL);

    free(out);
    return rc;
}

static int
compare_specs(void)
{
    struct spec_faults faults;
    struct spec *spec;
    int rc = spec_parse(text, text_len, &spec, &faults);
    char *out = NULL;

    if (rc == 0)
        rc = spec_difference(spec, spec, &out, NULL);
    free(out);
    spec_destroy(&spec);
    spec_faults_fini(&faults);
    return rc;
}

static int
read_metric(void)
{
    const char *json = "{\"samples\":[1,2,3],\"cause\":\"skip\"}";
    struct view_scale view;
    struct codec_doc *doc;
    int rc =
        codec_read_view(json, strlen(json), VIEW_ID_scale, &view, &doc, NULL);
    char *out = NULL;

    if (rc == 0) {
        out = codec_write_view(VIEW_ID_scale, &view, 2, NULL);
        rc = out != NULL ? 0 : ERR_NOMEM;
    }
    free(out);
    codec_doc_close(&doc);
    return rc;
}

static int
read_event(void)
{
    const char *json = "{\"seq\":1,\"t_us\":2,\"kind\":\"scale\","
                       "\"iteration\":1,\"updates\":0,\"skips\":1,"
                       "\"cause\":\"skip\",\"samples\":[1,2,3]}";
    struct event event;
    struct codec_doc *doc;
    int rc = codec_read_event(json, strlen(json), &event, &doc, NULL);
    char *out = NULL;

    if (rc == 0) {
        out = codec_write_event(&event, NULL);
        rc = out != NULL ? 0 : ERR_NOMEM;
    }
    free(out);
    codec_doc_close(&doc);
    return rc;
}

static int
converse(void)
{
    struct client *c = client_create();
    struct view_none args = {0};
    struct view_pong out;
    int rc = c != NULL ? 0 : ERR_NOMEM;

    if (rc == 0)
        rc = feed(c, "{\"hello\":\"traind\",\"proto_min\":1,\"proto_max\":1}");
    if (rc == 0)
        rc = client_ask(c, MESSAGE_ID_ping, &args, NULL);
    if (rc == 0)
        rc = feed(c, "{\"id\":1,\"ok\":true,\"item\":{\"pid\":9}}");
    if (rc == 0 &&
        (client_poll(c) != CLIENT_HELLO || client_poll(c) != CLIENT_REPLY))
        rc = ERR_INTERNAL;
    if (rc == 0)
        rc = client_read(c, 0, &out, NULL);
    client_destroy(&c);
    return rc;
}

/* Runs fn with the 1st, 2nd, ... allocation failing until none fails. */
static void
fail_each(int (*fn)(void))
{
    int n = 0;

    do {
        int rc;

        left = n++;
        living = 0;
        fired = false;
        armed = true;
        rc = fn();
        armed = false;
        assert_int_equal(rc, fired ? ERR_NOMEM : 0);
        assert_int_equal(living, 0);
        assert_true(n < 10000);
    } while (fired);
    assert_true(n > 2);
}

static void
test_nomem_spec(void **state)
{
    (void)state;
    for (int i = 0; i < spec_samples_n; i++) {
        text = spec_sample_text(spec_samples[i]);
        text_len = strlen(text);
        fail_each(parse_spec);
        fail_each(set_spec);
        fail_each(merge_spec);
        fail_each(compare_specs);
        free(text);
    }
    fail_each(refuse_spec);
}

static void
test_nomem_codec(void **state)
{
    (void)state;
    fail_each(read_metric);
    fail_each(read_event);
}

static void
test_nomem_client(void **state)
{
    (void)state;
    fail_each(converse);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nomem_spec),
        cmocka_unit_test(test_nomem_codec),
        cmocka_unit_test(test_nomem_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
