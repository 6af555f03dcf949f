/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/dtype.h"
#include "proto/err.h"
#include "proto/event.h"
#include "proto/utf8.h"

static void
test_err_set(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(err_set(&e, ERR_SPEC, "%s at %d", "fault", 3), -5);
    assert_int_equal(e.code, ERR_SPEC);
    assert_string_equal(e.msg, "fault at 3");
    assert_int_equal(err_set(NULL, ERR_IO, "nobody listens"), ERR_IO);
    err_clear(&e);
    assert_int_equal(e.code, 0);
    assert_string_equal(e.msg, "");
    err_clear(NULL);
}

/* The sentence may be built from the one that it replaces. */
static void
test_err_alias(void **state)
{
    struct err e;

    (void)state;
    err_set(&e, ERR_IO, "disk full");
    err_set(&e, ERR_CKPT, "checkpoint 3: %s", e.msg);
    assert_string_equal(e.msg, "checkpoint 3: disk full");
    assert_int_equal(err_prefix(&e, "job %d", 17), ERR_CKPT);
    assert_string_equal(e.msg, "job 17: checkpoint 3: disk full");
}

static void
test_err_errno(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(err_set_errno(&e, ERR_IO, ENOENT, "/no/such"), ERR_IO);
    assert_string_equal(e.msg, "/no/such: No such file or directory");
}

/* A long sentence is cut between characters, whatever its phase. */
static void
test_err_cut(void **state)
{
    (void)state;
    for (int shift = 0; shift < 8; shift++) {
        char text[1200];
        struct err e;
        size_t n = (size_t)shift;

        memset(text, 'a', n);
        while (n + 7 < sizeof(text)) {
            memcpy(text + n, "\xe2\x82\xac\xf0\x9f\x8c\x8d", 7);
            n += 7;
        }
        text[n] = '\0';
        err_set(&e, ERR_IO, "%s", text);
        assert_true(strlen(e.msg) >= ERR_SENTENCE_MAX - 5);
        assert_true(utf8_valid(e.msg, strlen(e.msg)));
        err_prefix(&e, "%s", text);
        assert_true(utf8_valid(e.msg, strlen(e.msg)));
        assert_memory_equal(e.msg, text, strlen(e.msg));
    }
}

/* What a client put into a name may not forge lines of a log or move the
 * cursor of a terminal. */
static void
test_err_one_line(void **state)
{
    struct err e;

    (void)state;
    err_set(&e, ERR_USAGE, "job \"a\nb\x1b[2J\" \xff \xc2\x9b \xc3\xa9");
    assert_string_equal(e.msg, "job \"a?b?[2J\" ? ?? \xc3\xa9");
}

static void
test_err_table(void **state)
{
    (void)state;
    assert_string_equal(err_name(ERR_SPEC), "spec");
    assert_string_equal(err_name(ERR_UNREACHABLE), "unreachable");
    assert_string_equal(err_name(ERR_OK), "ok");
    assert_string_equal(err_name(-999), "unknown");
    assert_string_equal(err_line(ERR_SPEC), "the spec is invalid");
    assert_int_equal(err_exit_code(0), 0);
    assert_int_equal(err_exit_code(ERR_SPEC), 65);
    assert_int_equal(err_exit_code(ERR_TIMEOUT), 124);
    assert_int_equal(err_exit_code(1), 70);
    assert_int_equal(err_http_status(0), 200);
    assert_int_equal(err_http_status(ERR_NOTFOUND), 404);
    assert_int_equal(err_http_status(-999), 500);
}

static void
test_dtype_table(void **state)
{
    (void)state;
    for (int t = DTYPE_NONE + 1; t < DTYPE_COUNT; t++) {
        enum dtype d = (enum dtype)t;

        assert_int_equal(dtype_parse(dtype_name(d)), d);
        assert_int_equal(dtype_parse_safetensors(dtype_safetensors_name(d)), d);
        assert_true(dtype_size_bytes(d) >= 1);
    }
    assert_int_equal(dtype_size_bytes(DTYPE_NONE), 0);
    assert_int_equal(dtype_size_bytes(DTYPE_BF16), 2);
    assert_int_equal(dtype_parse("none"), DTYPE_NONE);
    assert_int_equal(dtype_parse_safetensors(""), DTYPE_NONE);
    assert_int_equal(dtype_parse("F32"), DTYPE_NONE);
    assert_string_equal(dtype_short_name(DTYPE_BF16), "bf16");
    assert_true(dtype_is_half(DTYPE_F16) && dtype_is_half(DTYPE_BF16));
    assert_false(dtype_is_half(DTYPE_I16));
    assert_true(dtype_is_float(DTYPE_F64));
    assert_false(dtype_is_float(DTYPE_NONE));
}

static void
test_dtype_widest(void **state)
{
    (void)state;
    assert_int_equal(dtype_widest_float(DTYPE_F16, DTYPE_F16), DTYPE_F16);
    assert_int_equal(dtype_widest_float(DTYPE_F16, DTYPE_BF16), DTYPE_F32);
    assert_int_equal(dtype_widest_float(DTYPE_BF16, DTYPE_F32), DTYPE_F32);
    assert_int_equal(dtype_widest_float(DTYPE_F64, DTYPE_F16), DTYPE_F64);
}

static void
test_event_names(void **state)
{
    (void)state;
    for (int i = EVENT_STARTED; i <= EVENT_INCIDENT_PRUNED; i++)
        assert_int_equal(event_kind_parse(event_kind_name((enum event_kind)i)),
                         i);
    for (int i = 0; i < EVENT_PASS_COUNT; i++)
        assert_int_equal(event_pass_parse(event_pass_name((enum event_pass)i)),
                         i);
    for (int i = 0; i <= EVENT_NEG_INF; i++)
        assert_int_equal(event_nonfinite_parse(
                             event_nonfinite_name((enum event_nonfinite)i)),
                         i);
    assert_int_equal(event_scale_cause_parse("growth"), EVENT_SCALE_GROWTH);
    assert_int_equal(event_checkpoint_cause_parse("stop"),
                     EVENT_CHECKPOINT_STOP);
    assert_int_equal(event_outcome_parse("failed"), EVENT_OUTCOME_FAILED);
    assert_int_equal(event_kind_parse(""), -1);
    assert_int_equal(event_kind_parse("Step"), -1);
    assert_int_equal(event_pass_parse("nothing"), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_err_set),
        cmocka_unit_test(test_err_alias),
        cmocka_unit_test(test_err_errno),
        cmocka_unit_test(test_err_cut),
        cmocka_unit_test(test_err_one_line),
        cmocka_unit_test(test_err_table),
        cmocka_unit_test(test_dtype_table),
        cmocka_unit_test(test_dtype_widest),
        cmocka_unit_test(test_event_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
