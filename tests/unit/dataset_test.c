/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "engine/data/dataset.h"
#include "tests/support/datafiles.h"

static int
open_place(const struct datafiles *p, enum spec_format format,
           const struct dataset_options *options, struct dataset **out,
           struct err *err)
{
    const struct spec_source source = {
        .present = true, .format = format, .input = p->x, .target = p->t};

    err_clear(err);
    return dataset_open(&source, options, out, err);
}

static const struct dataset_options classes = {.target_is_class = true};
static const struct dataset_options values = {.target_is_class = false};

/* ---- shapes ------------------------------------------------------------- */

/* case_c51: another number of images than of labels */
static void
test_dataset_counts_differ(void **state)
{
    const struct datafiles *p = *state;
    char want[256];
    struct dataset *d;
    struct err err;

    datafiles_write_hex(p->x,
                        "000008030000000200000002000000020001020304050607");
    datafiles_write_hex(p->t, "0000080100000003070301");
    assert_int_equal(open_place(p, SPEC_FORMAT_IDX, &classes, &d, &err),
                     ERR_DATA);
    snprintf(want, sizeof(want), ": 2 images, 3 labels; the input is %s", p->x);
    datafiles_check_sentence(&err, p->t, want);
}

static void
test_dataset_idx_pixels(void **state)
{
    const double mean = 0.2860, std = 0.3530;
    const struct datafiles *p = *state;
    const struct dataset_options options = {
        .target_is_class = true, .mean = &mean, .std = &std, .n_normalize = 1};
    static const int64_t ids[] = {1, 0};
    struct build_data shape;
    struct dataset *d;
    struct err err;
    float input[8];
    int32_t target[2];

    datafiles_write_hex(p->x,
                        "0000080300000002000000020000000200010203fffefdfc");
    datafiles_write_hex(p->t, "00000801000000020703");
    assert_int_equal(open_place(p, SPEC_FORMAT_IDX, &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_int_equal(shape.rank, 3);
    assert_int_equal(shape.dim[0], 1);
    assert_int_equal(shape.dim[1], 2);
    assert_int_equal(shape.dim[2], 2);
    assert_true(shape.target_is_class);
    assert_int_equal(dataset_n_samples(d), 2);
    assert_int_equal(dataset_fill(d, ids, 2, NULL, input, target), 2);
    assert_int_equal(target[0], 3);
    assert_int_equal(target[1], 7);
    /* ToTensor, then Normalize, in float32. */
    for (int i = 0; i < 8; i++) {
        const int v = i < 4 ? 255 - i : i - 4;
        const float want = ((float)v / 255.0f - (float)mean) / (float)std;

        assert_true(input[i] == want);
    }
    dataset_destroy(&d);
}

/* (N, C, H, W) in the file, channels last for the engine. */
static void
test_dataset_npy_images(void **state)
{
    static const double mean[] = {1, 10}, std[] = {2, 4};
    const struct datafiles *p = *state;
    const struct dataset_options options = {
        .target_is_class = false, .mean = mean, .std = std, .n_normalize = 2};
    static const int64_t ids[] = {1};
    float x[2 * 2 * 2 * 3], input[12], target[2];
    const double t[] = {0.5, 1.5, 2.5, 3.5};
    struct build_data shape;
    struct dataset *d;
    struct err err;

    for (int i = 0; i < 24; i++)
        x[i] = (float)i;
    datafiles_write_npy(p->x, "<f4", "(2, 2, 2, 3)", x, sizeof(x));
    datafiles_write_npy(p->t, "<f8", "(2, 2)", t, sizeof(t));
    assert_int_equal(open_place(p, SPEC_FORMAT_NPY, &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_int_equal(shape.rank, 3);
    assert_int_equal(shape.dim[2], 3);
    assert_int_equal(shape.target_rank, 1);
    assert_int_equal(shape.target_dim[0], 2);
    assert_int_equal(shape.target_elems, 2);
    assert_int_equal(dataset_count(d, ids, 1), 2);
    assert_int_equal(dataset_fill(d, ids, 1, NULL, input, target), 2);
    assert_true(target[0] == 2.5f && target[1] == 3.5f);
    for (int at = 0; at < 6; at++)
        for (int c = 0; c < 2; c++) {
            const float v = (float)(12 + c * 6 + at);

            assert_true(input[at * 2 + c] ==
                        (v - (float)mean[c]) / (float)std[c]);
        }
    dataset_destroy(&d);
}

/* u8 images of three channels in IDX: pixels, a table for each channel. */
static void
test_dataset_idx_color(void **state)
{
    static const double mean[] = {0, 0.5, 1}, std[] = {1, 2, 3};
    const struct datafiles *p = *state;
    const struct dataset_options options = {
        .target_is_class = true, .mean = mean, .std = std, .n_normalize = 3};
    static const int64_t ids[] = {0};
    struct dataset *d;
    struct err err;
    float input[6];
    int32_t target[1];

    datafiles_write_hex(p->x, "0000080400000001000000030000000100000002"
                              "0a140b150c16");
    datafiles_write_hex(p->t, "000008010000000100");
    assert_int_equal(open_place(p, SPEC_FORMAT_IDX, &options, &d, &err), 0);
    dataset_fill(d, ids, 1, NULL, input, target);
    for (int at = 0; at < 2; at++)
        for (int c = 0; c < 3; c++) {
            const float v = (float)(10 + 10 * at + c) / 255.0f;

            assert_true(input[at * 3 + c] ==
                        (v - (float)mean[c]) / (float)std[c]);
        }
    dataset_destroy(&d);
}

/* npy: rank 3 stays row-major, u8 is taken as it is, std per last axis. */
static void
test_dataset_npy_sequences(void **state)
{
    static const uint8_t x[] = {0, 1, 2, 3, 4, 255};
    static const double mean[] = {1, 2, 3}, std[] = {1, 2, 4};
    const struct datafiles *p = *state;
    const float t[] = {7};
    struct dataset_options options = values;
    struct build_data shape;
    struct dataset *d;
    struct err err;
    static const int64_t ids[] = {0};
    float input[6], target[1];

    options.mean = mean;
    options.std = std;
    options.n_normalize = 3;
    datafiles_write_npy(p->x, "|u1", "(1, 2, 3)", x, sizeof(x));
    datafiles_write_npy(p->t, "<f4", "(1,)", t, sizeof(t));
    assert_int_equal(open_place(p, SPEC_FORMAT_NPY, &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.target_rank, 0);
    assert_int_equal(shape.target_elems, 1);
    dataset_fill(d, ids, 1, NULL, input, target);
    for (int i = 0; i < 6; i++)
        assert_true(input[i] ==
                    ((float)x[i] - (float)mean[i % 3]) / (float)std[i % 3]);
    assert_true(target[0] == 7.0f);
    dataset_destroy(&d);
}

/* Training names non-finite inputs; opening lets them through. */
static void
test_dataset_non_finite_inputs(void **state)
{
    const struct datafiles *p = *state;
    static const int64_t ids[] = {0, 1};
    const float x[] = {NAN, INFINITY};
    const int32_t t[] = {0, 1};
    struct dataset *d;
    struct err err;
    float input[2];
    int32_t target[2];

    datafiles_write_npy(p->x, "<f4", "(2,)", x, sizeof(x));
    datafiles_write_npy(p->t, "<i4", "(2, 1)", t, sizeof(t));
    assert_int_equal(open_place(p, SPEC_FORMAT_NPY, &classes, &d, &err), 0);
    dataset_fill(d, ids, 2, NULL, input, target);
    assert_true(isnan(input[0]) && isinf(input[1]));
    assert_int_equal(target[1], 1);
    dataset_destroy(&d);
}

static void
check_refused(const struct datafiles *p, const struct dataset_options *options,
              int code, const char *path, const char *sentence)
{
    struct dataset *d;
    struct err err;

    assert_int_equal(open_place(p, SPEC_FORMAT_NPY, options, &d, &err), code);
    assert_null(d);
    datafiles_check_sentence(&err, path, sentence);
}

static void
test_dataset_refused(void **state)
{
    static const double two[] = {1, 1}, zero[] = {0};
    const struct datafiles *p = *state;
    struct dataset_options options = classes;
    const float x[6] = {0};

    datafiles_write_npy(p->x, "<f4", "(2, 3)", x, sizeof(x));
    check_refused(p, &classes, ERR_IO, p->t, ": No such file or directory");
    options.mean = options.std = two;
    options.n_normalize = 2;
    check_refused(p, &options, ERR_DATA, p->x,
                  ": 3 channels, data.normalize has 2 values");
    options.std = zero;
    options.n_normalize = 1;
    check_refused(p, &options, ERR_SPEC, "",
                  "data.normalize: mean 1 and std 0; std must be above 0 and "
                  "both finite in float32");
    datafiles_write_npy(p->t, "<f4", "()", x, 4);
    check_refused(p, &values, ERR_DATA, p->t, ": 0 dimensions, allowed 1..5");
    datafiles_write_npy(p->t, "<f4", "(2, 0)", x, 0);
    check_refused(p, &values, ERR_DATA, p->t, ": no elements");
    datafiles_write_npy(p->x, "<f4", "()", x, 4);
    check_refused(p, &classes, ERR_DATA, p->x, ": 0 dimensions, allowed 1..4");
    datafiles_write_npy(p->x, "<f4", "(0, 3)", x, 0);
    check_refused(p, &classes, ERR_DATA, p->x, ": no elements");
    datafiles_write_npy(p->x, "<f4", "(1, 1, 1, 1, 1)", x, 4);
    check_refused(p, &classes, ERR_DATA, p->x, ": 5 dimensions, allowed 1..4");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        DATAFILES_TEST(test_dataset_counts_differ),
        DATAFILES_TEST(test_dataset_idx_pixels),
        DATAFILES_TEST(test_dataset_npy_images),
        DATAFILES_TEST(test_dataset_idx_color),
        DATAFILES_TEST(test_dataset_npy_sequences),
        DATAFILES_TEST(test_dataset_non_finite_inputs),
        DATAFILES_TEST(test_dataset_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
