/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/data/tokens.h"
#include "tests/support/bytes.h"

static struct spec_source
make_source(enum spec_format format, enum dtype dtype)
{
    return (struct spec_source){.present = true,
                                .format = format,
                                .input = "f",
                                .token_dtype = dtype,
                                .part = {0, 1}};
}

static int
parse_hex(const char *hex, const struct spec_source *source, struct tokens *t,
          struct err *err)
{
    size_t n;
    uint8_t *bytes = bytes_from_hex(hex, &n);
    int rc;

    err_clear(err);
    rc = tokens_parse(bytes, n, source, t, err);
    free(bytes);
    return rc;
}

static void
check_ids(const struct tokens *t, const int32_t *want, int n)
{
    int32_t ids[64];

    assert_int_equal(t->n, n);
    tokens_copy(t, 0, n, ids);
    assert_memory_equal(ids, want, (size_t)n * sizeof(*ids));
}

static void
check_refused(const char *hex, enum dtype dtype, const char *sentence)
{
    const struct spec_source source = make_source(SPEC_FORMAT_TOKENS, dtype);
    struct tokens t;
    struct err err;

    assert_int_equal(parse_hex(hex, &source, &t, &err), ERR_DATA);
    assert_string_equal(err.msg, sentence);
    assert_null(t.ids.memory);
    assert_null(t.name);
}

/* ---- case C52: the width of ids ------------------------------------------ */

#define C52_U32 "010000000200000003000000"
#define C52_U16 "0500060007000800"

static void
test_tokens_case_c52_u32(void **state)
{
    static const int32_t want[] = {1, 2, 3};
    const struct spec_source source =
        make_source(SPEC_FORMAT_TOKENS, DTYPE_U32);
    struct tokens t;
    struct err err;

    (void)state;
    assert_int_equal(parse_hex(C52_U32, &source, &t, &err), 0);
    check_ids(&t, want, 3);
    assert_int_equal(tokens_check(&t, 100, false, &err), 0);
    tokens_fini(&t);
    check_refused(C52_U32, DTYPE_U16,
                  "f: looks like uint32: every second uint16 is 0; set "
                  "token_dtype to \"uint32\"");
}

static void
test_tokens_case_c52_u16(void **state)
{
    static const int32_t want[] = {5, 6, 7, 8}, wrong[] = {393221, 524295};
    struct spec_source source = make_source(SPEC_FORMAT_TOKENS, DTYPE_U16);
    struct tokens t;
    struct err err;

    (void)state;
    assert_int_equal(parse_hex(C52_U16, &source, &t, &err), 0);
    check_ids(&t, want, 4);
    assert_int_equal(tokens_check(&t, 100, false, &err), 0);
    assert_int_equal(tokens_check(&t, 65536, false, &err), 0);
    /* Id 70000 would have become 4464. */
    assert_int_equal(tokens_check(&t, 70001, false, &err), ERR_DATA);
    assert_string_equal(err.msg, "f: uint16 ids, but the vocabulary is 70001; "
                                 "at most 65536 fit");
    tokens_fini(&t);
    source.token_dtype = DTYPE_U32;
    assert_int_equal(parse_hex(C52_U16, &source, &t, &err), 0);
    check_ids(&t, wrong, 2);
    assert_int_equal(tokens_check(&t, 100, false, &err), ERR_DATA);
    assert_string_equal(err.msg,
                        "f: position 0: id 393221 >= vocabulary 100; looks "
                        "like uint16: set token_dtype to \"uint16\"");
    tokens_fini(&t);
}

/* Too short to tell, all zeros, or with one id above 65535: not suspicious. */
static void
test_tokens_width_not_guessed(void **state)
{
    static const char *const files[] = {"05000000", "0000000000000000",
                                        "010000000200010003000000",
                                        "01000000020000000300"};
    const struct spec_source source =
        make_source(SPEC_FORMAT_TOKENS, DTYPE_U16);
    struct tokens t;
    struct err err;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(parse_hex(files[i], &source, &t, &err), 0);
        tokens_fini(&t);
    }
}

/* ---- headers ------------------------------------------------------------- */

/* 1024 bytes: magic, version, count, zeros. */
static void
put_header(uint8_t *out, uint32_t magic, uint32_t version, uint32_t count)
{
    const uint32_t v[] = {magic, version, count};

    memset(out, 0, 1024);
    for (int i = 0; i < 12; i++)
        out[i] = (uint8_t)(v[i / 4] >> 8 * (i % 4));
}

static int
parse_header(const uint32_t head[3], const char *hex, size_t n_extra,
             enum dtype dtype, struct tokens *t, struct err *err)
{
    const struct spec_source source = make_source(SPEC_FORMAT_TOKENS, dtype);
    uint8_t bytes[1024 + 64];
    size_t n;
    uint8_t *ids = bytes_from_hex(hex, &n);

    assert_true(n_extra <= n);
    put_header(bytes, head[0], head[1], head[2]);
    memcpy(bytes + 1024, ids, n_extra);
    free(ids);
    err_clear(err);
    return tokens_parse(bytes, 1024 + n_extra, &source, t, err);
}

static void
test_tokens_llmc(void **state)
{
    static const uint32_t gpt2[] = {20240520, 1, 4}, llama[] = {20240801, 7, 2};
    static const uint32_t zeros[] = {20240520, 1, 6};
    static const int32_t want[] = {5, 6, 7, 8}, wide[] = {393221, 524295};
    struct tokens t;
    struct err err;

    (void)state;
    assert_int_equal(parse_header(gpt2, C52_U16, 8, DTYPE_NONE, &t, &err), 0);
    check_ids(&t, want, 4);
    tokens_fini(&t);
    assert_int_equal(parse_header(gpt2, C52_U16, 8, DTYPE_U16, &t, &err), 0);
    tokens_fini(&t);
    assert_int_equal(parse_header(llama, C52_U16, 8, DTYPE_NONE, &t, &err), 0);
    check_ids(&t, wide, 2);
    assert_int_equal(tokens_check(&t, 524296, false, &err), 0);
    tokens_fini(&t);
    /* A header knows better than a guess. */
    assert_int_equal(parse_header(zeros, C52_U32, 12, DTYPE_NONE, &t, &err), 0);
    tokens_fini(&t);
}

static void
test_tokens_llmc_refused(void **state)
{
    static const struct {
        uint32_t head[3];
        size_t n;
        enum dtype dtype;
        const char *sentence;
    } cases[] = {
        {{20240520, 1, 5},
         8,
         DTYPE_NONE,
         "f: header says 5 ids in 10 bytes, 8 bytes follow it"},
        {{20240520, 1, 3},
         8,
         DTYPE_NONE,
         "f: header says 3 ids in 6 bytes, 8 bytes follow it"},
        {{20240801, 1, 0xffffffff},
         8,
         DTYPE_NONE,
         "f: header says 4294967295 ids in 17179869180 bytes, 8 bytes follow "
         "it"},
        {{20240520, 7, 4}, 8, DTYPE_NONE, "f: header version 7, expected 1"},
        {{20240801, 2, 2},
         8,
         DTYPE_NONE,
         "f: header version 2, expected 1 or 7"},
        {{20240520, 1, 4},
         8,
         DTYPE_U32,
         "f: its header says uint16, token_dtype says uint32"},
        {{0x88d83401, 1, 4},
         8,
         DTYPE_NONE,
         "f: its header is big-endian, llm.c's files are little-endian"},
        {{20240520, 1, 0}, 0, DTYPE_NONE, "f: no tokens"},
        {{20240522, 1, 4},
         8,
         DTYPE_NONE,
         "f: no llm.c header says how wide the ids are; set token_dtype to "
         "\"uint16\" or \"uint32\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tokens t;
        struct err err;

        assert_int_equal(parse_header(cases[i].head, C52_U16, cases[i].n,
                                      cases[i].dtype, &t, &err),
                         ERR_DATA);
        assert_string_equal(err.msg, cases[i].sentence);
        assert_null(t.ids.memory);
    }
    check_refused("88d8340101000000", DTYPE_NONE,
                  "f: 8 bytes, its header alone has 1024");
    check_refused("", DTYPE_U16, "f: no tokens");
    check_refused("050006", DTYPE_U16,
                  "f: 3 bytes are no whole number of uint16 ids");
    check_refused("05000600", DTYPE_NONE,
                  "f: no llm.c header says how wide the ids are; set "
                  "token_dtype to \"uint16\" or \"uint32\"");
    check_refused("01000000ffffffff", DTYPE_U32,
                  "f: position 1: id 4294967295 is no token; is token_dtype "
                  "right?");
}

/* Raw ids that begin as gzip does are ids; text that does is unpacked. */
static void
test_tokens_gzip(void **state)
{
    static const char gz[] = "1f8b08000000000002ff6360e06066606060826346266616"
                             "563676003fd4821618000000";
    static const int32_t want[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                   0, 0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t raw[] = {0x8b1f, 8};
    struct spec_source source = make_source(SPEC_FORMAT_TEXT, DTYPE_NONE);
    struct tokens t;
    struct err err;

    (void)state;
    assert_int_equal(parse_hex(gz, &source, &t, &err), 0);
    check_ids(&t, want, 24);
    tokens_fini(&t);
    source = make_source(SPEC_FORMAT_TOKENS, DTYPE_U16);
    assert_int_equal(parse_hex("1f8b0800", &source, &t, &err), 0);
    check_ids(&t, raw, 2);
    tokens_fini(&t);
}

/* A text that unpacks to far more than the head that is looked at first. */
static void
test_tokens_gzip_long(void **state)
{
    struct spec_source source = make_source(SPEC_FORMAT_TEXT, DTYPE_NONE);
    char dir[64], path[96], command[256];
    struct tokens t;
    struct err err;
    int32_t ids[10];

    (void)state;
    bytes_make_dir(dir);
    snprintf(path, sizeof(path), "%s/t.gz", dir);
    snprintf(command, sizeof(command), "seq 100000 | gzip > %s", path);
    assert_int_equal(system(command), 0);
    source.input = path;
    err_clear(&err);
    assert_int_equal(tokens_open(&source, &t, &err), 0);
    assert_int_equal(t.n, 588895);
    tokens_copy(&t, 588895 - 7, 7, ids);
    for (int i = 0; i < 7; i++)
        assert_int_equal(ids[i], "100000\n"[i]);
    tokens_fini(&t);
    bytes_remove_dir(dir);
}

/* ---- parts --------------------------------------------------------------- */

static int
parse_part(double from, double to, struct tokens *t, struct err *err)
{
    struct spec_source source = make_source(SPEC_FORMAT_TEXT, DTYPE_NONE);

    source.part[0] = from;
    source.part[1] = to;
    return parse_hex("00010203040506070809", &source, t, err);
}

static void
test_tokens_parts(void **state)
{
    static const struct {
        double from, to;
        int64_t first, n;
    } cases[] = {
        {0, 1, 0, 10},      {0, 0, 0, 10},      {0, 0.9, 0, 9},
        {0.9, 1, 9, 1},     {0, 0.55, 0, 5},    {0.55, 1, 5, 5},
        {0.25, 0.75, 2, 5}, {0.11, 0.12, 1, 0},
    };
    struct tokens t;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int32_t id;

        assert_int_equal(parse_part(cases[i].from, cases[i].to, &t, &err), 0);
        assert_int_equal(t.first, cases[i].first);
        assert_int_equal(t.n, cases[i].n);
        if (t.n > 0) {
            tokens_copy(&t, 0, 1, &id);
            assert_int_equal(id, cases[i].first);
        }
        tokens_fini(&t);
    }
    assert_int_equal(parse_part(0.5, 0.5, &t, &err), ERR_SPEC);
    assert_string_equal(err.msg, "f: part 0.5..0.5, must ascend within 0..1");
    assert_int_equal(parse_part(-0.5, 0.5, &t, &err), ERR_SPEC);
    assert_int_equal(parse_part(0.5, 1.5, &t, &err), ERR_SPEC);
}

/* Positions are those of the file; only our part is looked at. */
static void
test_tokens_check_names_position(void **state)
{
    struct tokens t;
    struct err err;

    (void)state;
    assert_int_equal(parse_part(0.5, 1, &t, &err), 0);
    assert_int_equal(tokens_check(&t, 7, false, &err), ERR_DATA);
    assert_string_equal(err.msg, "f: position 7: id 7 >= vocabulary 7");
    tokens_fini(&t);
    assert_int_equal(parse_part(0, 0.5, &t, &err), 0);
    assert_int_equal(tokens_check(&t, 7, false, &err), 0);
    tokens_fini(&t);
}

/* ---- windows ------------------------------------------------------------- */

static void
test_tokens_window(void **state)
{
    static const int32_t input[] = {4, 5, 6}, target[] = {5, 6, 7};
    static const int32_t ignored[] = {5, 6, 7};
    int32_t x[3], y[3];
    struct tokens t;
    struct err err;

    (void)state;
    assert_int_equal(parse_part(0.2, 1, &t, &err), 0);
    assert_int_equal(tokens_window(&t, 2, 3, x, y), 3);
    assert_memory_equal(x, input, sizeof(x));
    assert_memory_equal(y, target, sizeof(y));
    t.has_ignore_index = true;
    t.ignore_index = 6;
    assert_int_equal(tokens_window(&t, 2, 3, x, y), 2);
    assert_memory_equal(y, ignored, sizeof(y));
    assert_int_equal(tokens_window(&t, 2, 3, NULL, NULL), 2);
    /* Ignored ids may be anything as targets, not as inputs. */
    t.ignore_index = 9;
    assert_int_equal(tokens_check(&t, 9, true, &err), 0);
    assert_int_equal(tokens_check(&t, 9, false, &err), ERR_DATA);
    tokens_fini(&t);
}

static void
write_mask(const char *path, const char *descr, const char *shape,
           const uint8_t *v, size_t n)
{
    uint8_t bytes[256];
    char dict[128];
    size_t len;

    snprintf(dict, sizeof(dict),
             "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr,
             shape);
    len = strlen(dict);
    memcpy(bytes, "\x93NUMPY\x01\0", 8);
    bytes[8] = (uint8_t)len;
    bytes[9] = 0;
    memcpy(bytes + 10, dict, len);
    memcpy(bytes + 10 + len, v, n);
    bytes_write_file(path, bytes, 10 + len + n);
}

/* The mask is of the whole file, whatever part is ours. */
static void
test_tokens_mask(void **state)
{
    static const uint8_t mask[] = {1, 1, 1, 1, 1, 0, 1, 0, 2, 1};
    static const int32_t target[] = {-100, 6, -100};
    char dir[64], path[96], npy[96], want[256];
    struct spec_source source = make_source(SPEC_FORMAT_TEXT, DTYPE_NONE);
    int32_t x[3], y[3];
    struct tokens t;
    struct err err;

    (void)state;
    bytes_make_dir(dir);
    snprintf(path, sizeof(path), "%s/t", dir);
    snprintf(npy, sizeof(npy), "%s/m.npy", dir);
    bytes_write_file(path, "\0\1\2\3\4\5\6\7\10\11", 10);
    source.input = path;
    source.mask = npy;
    source.part[0] = 0.2;
    write_mask(npy, "|b1", "(10,)", mask, 10);
    err_clear(&err);
    assert_int_equal(tokens_open(&source, &t, &err), 0);
    assert_int_equal(tokens_window(&t, 2, 3, x, y), 1);
    assert_memory_equal(y, target, sizeof(y));
    assert_int_equal(x[1], 5); /* inputs are seen all the same */
    assert_int_equal(tokens_window(&t, 2, 3, NULL, NULL), 1);
    tokens_fini(&t);
    write_mask(npy, "|u1", "(9,)", mask, 9);
    assert_int_equal(tokens_open(&source, &t, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: mask u8[9], but %s is u8[10]", npy, path);
    assert_string_equal(err.msg, want);
    assert_null(t.ids.memory);
    write_mask(npy, "|i1", "(10,)", mask, 10);
    assert_int_equal(tokens_open(&source, &t, &err), ERR_DATA);
    snprintf(want, sizeof(want), "%s: a mask is of bool or uint8, not int8",
             npy);
    assert_string_equal(err.msg, want);
    bytes_remove_dir(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_case_c52_u32),
        cmocka_unit_test(test_tokens_case_c52_u16),
        cmocka_unit_test(test_tokens_width_not_guessed),
        cmocka_unit_test(test_tokens_llmc),
        cmocka_unit_test(test_tokens_llmc_refused),
        cmocka_unit_test(test_tokens_gzip),
        cmocka_unit_test(test_tokens_gzip_long),
        cmocka_unit_test(test_tokens_parts),
        cmocka_unit_test(test_tokens_check_names_position),
        cmocka_unit_test(test_tokens_window),
        cmocka_unit_test(test_tokens_mask),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
