/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "engine/data/safetensors.h"
#include "engine/run/ckpt_manifest.h"
#include "tests/support/place.h"

/* ---- non-finite --------------------------------------------------------- */

static void
check_poison(struct place *p, float *at, float value, const char *sentence)
{
    struct ckpt_info info;
    struct err err;
    const float before = *at;

    *at = value;
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_NUMERICS);
    assert_string_equal(err.msg, sentence);
    check_entries(p, 0, 0);
    *at = before;
}

static void
test_ckpt_refuses_non_finite(void **state)
{
    struct place *p = *state;
    struct state *s = p->state;

    model_state_fill(s, 200);
    check_poison(p, &s->weights[s->param[0].offset + 7], NAN,
                 "checkpoint " NAME_200 ": 0.weight[1,3] is nan");
    check_poison(p, &s->weights[s->param[2].offset], -INFINITY,
                 "checkpoint " NAME_200 ": 1.weight is -inf");
    check_poison(p, &s->moment[0][s->param[1].offset + 2], INFINITY,
                 "checkpoint " NAME_200 ": m.0.bias[2] is inf");
    check_poison(p, &s->moment[1][s->param[0].offset], NAN,
                 "checkpoint " NAME_200 ": v.0.weight[0,0] is nan");
    check_poison(p, &s->buffers[s->buffer[1].offset + 1], INFINITY,
                 "checkpoint " NAME_200 ": 1.running_var[1] is inf");
    check_poison(p, &s->scaler.scale, INFINITY,
                 "checkpoint " NAME_200 ": scaler.scale is inf");
    write_one(p, 200);
    check_reads(p, NAME_200, 200);
}

/* Puts bytes into a file of a checkpoint, and a right checksum of them into
 * the manifest: what somebody else's writer would have made. */
static void
forge(struct place *p, enum ckpt_manifest_file file, size_t at,
      const void *bytes, size_t n_bytes)
{
    char path[256], manifest_path[256], *text;
    struct ckpt_manifest m;
    struct err err;
    uint8_t *content, *manifest;
    size_t n, n_manifest;

    path_of(p, NAME_100, ckpt_manifest_file_name(file), path);
    path_of(p, NAME_100, "manifest.json", manifest_path);
    content = bytes_read_file(path, &n);
    manifest = bytes_read_file(manifest_path, &n_manifest);
    assert_int_equal(
        ckpt_manifest_parse((const char *)manifest, n_manifest, &m, &err), 0);
    assert_true(at + n_bytes <= n);
    memcpy(content + at, bytes, n_bytes);
    digest_of(content, n, m.file[file].digest);
    text = ckpt_manifest_print(&m);
    bytes_write_file(path, content, n);
    bytes_write_file(manifest_path, text, strlen(text));
    free(content);
    free(manifest);
    free(text);
}

/* Where a tensor's data begin in the file. */
static size_t
find_data(const struct place *p, const char *file, const char *name)
{
    const struct safetensors_entry *e;
    struct safetensors *f;
    struct err err;
    char path[256];
    uint8_t *content;
    size_t n, at;

    path_of(p, NAME_100, file, path);
    content = bytes_read_file(path, &n);
    assert_int_equal(safetensors_parse(content, n, "f", &f, &err), 0);
    e = safetensors_find(f, name);
    assert_non_null(e);
    at = (size_t)((const uint8_t *)e->data - content);
    safetensors_close(&f);
    free(content);
    return at;
}

static void
test_ckpt_poisoned_elsewhere(void **state)
{
    struct place *p = *state;
    const float bad = NAN;

    write_one(p, 100);
    forge(p, CKPT_MANIFEST_OPTIMIZER,
          find_data(p, "optimizer.safetensors", "v.0.bias") + 4, &bad, 4);
    check_refused(p, NAME_100, ERR_NUMERICS,
                  NAME_100 ": optimizer.safetensors: v.0.bias[1] is nan");
}

static void
test_ckpt_tracked_contradicts(void **state)
{
    struct place *p = *state;
    const int64_t other = 5;
    struct ckpt_info info;
    struct err err;

    write_one(p, 100);
    forge(p, CKPT_MANIFEST_MODEL,
          find_data(p, "model.safetensors", "1.num_batches_tracked"), &other,
          8);
    assert_int_equal(ckpt_read(p->ckpt, NAME_100, p->other, &info, &err),
                     ERR_CKPT);
    assert_string_equal(err.msg, NAME_100
                        ": model.safetensors: 1.num_batches_tracked is 5, "
                        "state.json says 98");
}

/* ---- damage ------------------------------------------------------------- */

static const char *const all_files[] = {"model.safetensors",
                                        "optimizer.safetensors", "state.json",
                                        "manifest.json"};

static void
test_ckpt_truncated(void **state)
{
    struct place *p = *state;

    for (int i = 0; i < 4; i++) {
        char path[256];
        size_t n;
        uint8_t *content;

        write_one(p, 100);
        path_of(p, NAME_100, all_files[i], path);
        content = bytes_read_file(path, &n);
        assert_int_equal(truncate(path, (off_t)n - 1), 0);
        check_refused(p, NAME_100, ERR_CKPT, all_files[i]);
        assert_int_equal(truncate(path, 0), 0);
        check_refused(p, NAME_100, ERR_CKPT, all_files[i]);
        assert_int_equal(unlink(path), 0);
        check_refused(p, NAME_100, ERR_CKPT, all_files[i]);
        assert_int_equal(symlink("/dev/zero", path), 0);
        check_refused(p, NAME_100, ERR_CKPT, all_files[i]);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0700), 0);
        check_refused(p, NAME_100, ERR_CKPT, all_files[i]);
        assert_int_equal(rmdir(path), 0);
        bytes_write_file(path, content, n);
        check_reads(p, NAME_100, 100); /* whole again */
        free(content);
        assert_int_equal(ckpt_remove(p->ckpt, NAME_100, NULL), 0);
    }
}

static void
test_ckpt_truncated_sentence(void **state)
{
    struct place *p = *state;
    char path[256], want[128];
    size_t n;

    write_one(p, 100);
    path_of(p, NAME_100, "model.safetensors", path);
    free(bytes_read_file(path, &n));
    assert_int_equal(truncate(path, (off_t)n - 1), 0);
    snprintf(want, sizeof(want),
             NAME_100 ": model.safetensors: %zu bytes, the manifest says %zu",
             n - 1, n);
    check_refused(p, NAME_100, ERR_CKPT, want);
}

/* Every bit of every file. */
static void
test_ckpt_flipped_bits(void **state)
{
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;
    long flips = 0;

    write_one(p, 100);
    for (int i = 0; i < 4; i++) {
        char path[256];
        size_t n;
        uint8_t *content;

        path_of(p, NAME_100, all_files[i], path);
        content = bytes_read_file(path, &n);
        for (size_t at = 0; at < n; at++) {
            const uint8_t before = content[at];

            content[at] ^= (uint8_t)(1u << at % 8);
            bytes_write_file(path, content, n);
            assert_int_not_equal(ckpt_verify(p->ckpt, NAME_100, &info, &err),
                                 0);
            content[at] = before;
            flips++;
        }
        bytes_write_file(path, content, n);
        free(content);
    }
    assert_true(flips > 2000);
    check_reads(p, NAME_100, 100);
}

static void
copy_file(const struct place *p, const char *file, const char *from,
          const char *to)
{
    char a[256], b[256];
    size_t n;
    uint8_t *content;

    path_of(p, from, file, a);
    path_of(p, to, file, b);
    content = bytes_read_file(a, &n);
    bytes_write_file(b, content, n);
    free(content);
}

static void
test_ckpt_mixed_steps(void **state)
{
    struct place *p = *state;

    write_one(p, 100);
    write_one(p, 200);
    /* The manifest of 100 beside the data of 200. */
    copy_file(p, "manifest.json", NAME_100, NAME_200);
    check_refused(p, NAME_200, ERR_CKPT, "manifest.json: belongs to " NAME_100);
    check_reads(p, NAME_100, 100);
    /* All but the weights of 100 under its own name. */
    for (int i = 0; i < 4; i++)
        copy_file(p, all_files[i], NAME_100, NAME_200);
    check_refused(p, NAME_200, ERR_CKPT, "manifest.json: belongs to " NAME_100);
    assert_int_equal(ckpt_remove(p->ckpt, NAME_200, NULL), 0);
    write_one(p, 200);
    copy_file(p, "model.safetensors", NAME_100, NAME_200);
    check_refused(p, NAME_200, ERR_CKPT, "model.safetensors: checksum ");
}

static void
test_ckpt_newer_format(void **state)
{
    struct place *p = *state;
    char path[256];
    size_t n;
    uint8_t *content;
    char *format;

    write_one(p, 100);
    path_of(p, NAME_100, "manifest.json", path);
    content = bytes_read_file(path, &n);
    format = strstr((char *)content, "\"format\": 2");
    assert_non_null(format);
    format[10] = '3';
    bytes_write_file(path, content, n);
    free(content);
    check_refused(p, NAME_100, ERR_CKPT,
                  "manifest.json: format version 3, this program reads 1 to 2");
}

static void
test_ckpt_wrong_names(void **state)
{
    static const char *const names[] = {"",
                                        "it000000100",
                                        "it000000100-a1x",
                                        "it100-a1",
                                        ".tmp-" NAME_100,
                                        "../ckpt/" NAME_100,
                                        "it-00000100-a1",
                                        "it000000100-a01",
                                        "it 00000100-a1",
                                        "it+00000100-a1"};
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;

    write_one(p, 100);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(ckpt_verify(p->ckpt, names[i], &info, &err), ERR_CKPT);
        assert_int_equal(ckpt_remove(p->ckpt, names[i], &err), ERR_NOTFOUND);
    }
    assert_int_equal(ckpt_verify(p->ckpt, NAME_200, &info, &err), ERR_CKPT);
    assert_string_equal(err.msg, NAME_200 ": No such file or directory");
    assert_int_equal(ckpt_remove(p->ckpt, NAME_200, &err), ERR_NOTFOUND);
    check_reads(p, NAME_100, 100);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ckpt_refuses_non_finite),  TEST(test_ckpt_poisoned_elsewhere),
        TEST(test_ckpt_tracked_contradicts), TEST(test_ckpt_truncated),
        TEST(test_ckpt_truncated_sentence),  TEST(test_ckpt_flipped_bits),
        TEST(test_ckpt_mixed_steps),         TEST(test_ckpt_newer_format),
        TEST(test_ckpt_wrong_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
