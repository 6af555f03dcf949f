/* SPDX-License-Identifier: Apache-2.0 */
/* Class ids of a data set, and masks over them. */
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

/* ---- labels ------------------------------------------------------------- */

/* Four samples of one feature at most, labels as given. */
static int
open_labels(const struct datafiles *p, const char *descr, const void *labels,
            int n, size_t size, const struct dataset_options *options,
            struct dataset **out, struct err *err)
{
    static const float x[4];
    char shape[32];

    snprintf(shape, sizeof(shape), "(%d, 1)", n);
    datafiles_write_npy(p->x, "<f4", shape, x, (size_t)n * 4);
    snprintf(shape, sizeof(shape), "(%d,)", n);
    datafiles_write_npy(p->t, descr, shape, labels, (size_t)n * size);
    return open_place(p, SPEC_FORMAT_NPY, options, out, err);
}

static void
check_labels(const struct dataset *d, const int32_t *want, int n)
{
    static const int64_t ids[] = {0, 1, 2, 3};
    float input[4];
    int32_t target[4];

    dataset_fill(d, ids, n, NULL, input, target);
    assert_memory_equal(target, want, (size_t)n * sizeof(*want));
}

static void
test_dataset_labels_case_c55_floats(void **state)
{
    static const float f4[] = {0, 1, 2};
    static const double f8[] = {0, 1, 2};
    static const int32_t want[] = {0, 1, 2};
    struct dataset *d;
    struct err err;

    assert_int_equal(open_labels(*state, "<f4", f4, 3, 4, &classes, &d, &err),
                     0);
    assert_int_equal(dataset_check_classes(d, 3, &err), 0);
    check_labels(d, want, 3);
    dataset_destroy(&d);
    assert_null(d);
    assert_int_equal(open_labels(*state, "<f8", f8, 3, 8, &classes, &d, &err),
                     0);
    check_labels(d, want, 3);
    dataset_destroy(&d);
}

static void
check_classes_refused(const struct datafiles *p, const int64_t *labels, int n,
                      const char *sentence)
{
    struct dataset *d;
    struct err err;

    assert_int_equal(open_labels(p, "<i8", labels, n, 8, &classes, &d, &err),
                     0);
    assert_int_equal(dataset_check_classes(d, 3, &err), ERR_DATA);
    datafiles_check_sentence(&err, p->t, sentence);
    assert_int_equal(dataset_check_classes(d, 4, &err), 0);
    dataset_destroy(&d);
}

static void
test_dataset_labels_case_c55_too_big(void **state)
{
    static const int64_t too_big[] = {0, 1, 3}, one_based[] = {1, 2, 3, 1};

    check_classes_refused(*state, too_big, 3,
                          ": row 3 (sample 2) value 3, allowed 0..2");
    check_classes_refused(
        *state, one_based, 4,
        ": row 3 (sample 2) value 3, allowed 0..2; the labels look "
        "one-based");
}

static void
check_labels_refused(const struct datafiles *p, const double *labels,
                     const struct dataset_options *options,
                     const char *sentence)
{
    struct dataset *d;
    struct err err;

    assert_int_equal(open_labels(p, "<f8", labels, 3, 8, options, &d, &err),
                     ERR_DATA);
    assert_null(d);
    datafiles_check_sentence(&err, p->t, sentence);
}

static void
test_dataset_labels_case_c55_refused(void **state)
{
    static const double negative[] = {0, -1, 2}, fraction[] = {0, 2.5, 1};
    static const double nan_label[] = {0, (double)NAN, 1};
    static const double ignore[] = {0, -100, 2}, huge[] = {0, 1, 1e30};
    static const double infinite[] = {0, 1, (double)INFINITY};
    static const double wide[] = {0, 1, 4294967296.0};

    check_labels_refused(*state, negative, &classes,
                         ": row 2 (sample 1) value -1, class ids start at 0");
    check_labels_refused(*state, fraction, &classes,
                         ": row 2 (sample 1) value 2.5 not an integer");
    check_labels_refused(*state, nan_label, &classes, ": row 2 (sample 1) NaN");
    check_labels_refused(*state, infinite, &classes,
                         ": row 3 (sample 2) value inf not an integer");
    check_labels_refused(*state, huge, &classes,
                         ": row 3 (sample 2) value 1e+30 too "
                         "large");
    check_labels_refused(*state, wide, &classes,
                         ": row 3 (sample 2) value 4294967296 too large");
    check_labels_refused(
        *state, ignore, &classes,
        ": row 2 (sample 1) value -100, class ids start at 0; set "
        "loss.ignore_index to -100 to leave such rows out");
}

static void
test_dataset_labels_case_c55_ignored(void **state)
{
    static const int64_t labels[] = {0, -100, 2};
    static const int32_t want[] = {0, -100, 2};
    static const int64_t ids[] = {1, 1, 2};
    const struct dataset_options options = {.target_is_class = true,
                                            .has_ignore_index = true,
                                            .ignore_index = -100};
    struct dataset_options other = options;
    struct dataset *d;
    struct err err;
    float input[3];
    int32_t target[3];

    assert_int_equal(
        open_labels(*state, "<i8", labels, 3, 8, &options, &d, &err), 0);
    assert_int_equal(dataset_check_classes(d, 3, &err), 0);
    check_labels(d, want, 3);
    assert_int_equal(dataset_count(d, ids, 3), 1);
    assert_int_equal(dataset_fill(d, ids, 3, NULL, input, target), 1);
    assert_int_equal(dataset_fill(d, ids, 2, NULL, input, target), 0);
    dataset_destroy(&d);
    /* Another ignore_index does not excuse -100. */
    other.ignore_index = 255;
    assert_int_equal(open_labels(*state, "<i8", labels, 3, 8, &other, &d, &err),
                     ERR_DATA);
    other.ignore_index = INT64_MAX;
    assert_int_equal(open_labels(*state, "<i8", labels, 3, 8, &other, &d, &err),
                     ERR_SPEC);
    assert_string_equal(err.msg, "loss.ignore_index: 9223372036854775807 does "
                                 "not fit into 32 bits");
}

/* An ignored label above the classes is no class. */
static void
test_dataset_labels_ignored_255(void **state)
{
    static const uint8_t labels[] = {255, 2, 1};
    const struct dataset_options options = {
        .target_is_class = true, .has_ignore_index = true, .ignore_index = 255};
    struct dataset *d;
    struct err err;

    assert_int_equal(
        open_labels(*state, "|u1", labels, 3, 1, &options, &d, &err), 0);
    assert_int_equal(dataset_check_classes(d, 3, &err), 0);
    assert_int_equal(dataset_check_classes(d, 2, &err), ERR_DATA);
    dataset_destroy(&d);
}

/* ---- several labels a sample --------------------------------------------- */

/* Two samples of 2 x 2 labels; x has a feature for each. */
static int
open_map(const struct datafiles *p, const int64_t *labels, const uint8_t *mask,
         const struct dataset_options *options, struct dataset **out,
         struct err *err)
{
    const struct spec_source source = {.present = true,
                                       .format = SPEC_FORMAT_NPY,
                                       .input = p->x,
                                       .target = p->t,
                                       .mask = mask != NULL ? p->m : NULL};
    static const float x[8];

    datafiles_write_npy(p->x, "<f4", "(2, 4)", x, sizeof(x));
    datafiles_write_npy(p->t, "<i8", "(2, 2, 2)", labels, 8 * sizeof(*labels));
    if (mask != NULL)
        datafiles_write_npy(p->m, "|b1", "(2, 2, 2)", mask, 8);
    err_clear(err);
    return dataset_open(&source, options, out, err);
}

static void
test_dataset_labels_map(void **state)
{
    static const int64_t labels[] = {0, 1, 2, 255, 255, 255, 255, 2};
    static const int32_t want[] = {255, 255, 255, 2, 0, 1, 2, 255};
    static const struct dataset_options options = {
        .target_is_class = true, .has_ignore_index = true, .ignore_index = 255};
    static const int64_t ids[] = {1, 0};
    struct build_data shape;
    struct dataset *d;
    struct err err;
    float input[8];
    int32_t target[8];

    assert_int_equal(open_map(*state, labels, NULL, &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_true(shape.target_is_class);
    assert_int_equal(shape.target_rank, 2);
    assert_int_equal(shape.target_dim[0], 2);
    assert_int_equal(shape.target_dim[1], 2);
    assert_int_equal(shape.target_elems, 4);
    assert_int_equal(dataset_fill(d, ids, 2, NULL, input, target), 4);
    assert_memory_equal(target, want, sizeof(want));
    assert_int_equal(dataset_count(d, ids, 1), 1);
    assert_int_equal(dataset_check_classes(d, 3, &err), 0);
    assert_int_equal(dataset_check_classes(d, 2, &err), ERR_DATA);
    datafiles_check_sentence(&err, ((struct datafiles *)*state)->t,
                             ": row 1 (sample 0) element 2 value 2, allowed "
                             "0..1");
    dataset_destroy(&d);
    assert_int_equal(open_map(*state,
                              (const int64_t[]){0, 1, 2, 3, 0, -1, 0, 0}, NULL,
                              &classes, &d, &err),
                     ERR_DATA);
    datafiles_check_sentence(&err, ((struct datafiles *)*state)->t,
                             ": row 2 (sample 1) element 1 value -1, class ids "
                             "start at 0");
}

/* Masked labels may be anything; they become -100, or the spec's. */
static void
test_dataset_labels_mask(void **state)
{
    static const int64_t labels[] = {0, -7, 1 << 20, 2, 1, 1, 1, 1};
    static const uint8_t mask[] = {1, 0, 0, 1, 0, 0, 0, 0};
    static const int32_t want[] = {0, -100, -100, 2, -100, -100, -100, -100};
    static const struct dataset_options options = {
        .target_is_class = true, .has_ignore_index = true, .ignore_index = 9};
    static const int64_t ids[] = {0, 1};
    struct build_data shape;
    struct dataset *d;
    struct err err;
    float input[8];
    int32_t target[8];

    assert_int_equal(open_map(*state, labels, mask, &classes, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_true(shape.has_ignore_index && shape.ignore_index == -100);
    assert_int_equal(dataset_fill(d, ids, 2, NULL, input, target), 2);
    assert_memory_equal(target, want, sizeof(want));
    assert_int_equal(dataset_count(d, ids + 1, 1), 0);
    assert_int_equal(dataset_check_classes(d, 3, &err), 0);
    assert_int_equal(dataset_check_classes(d, 2, &err), ERR_DATA);
    dataset_destroy(&d);
    assert_int_equal(open_map(*state, labels, mask, &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_int_equal(shape.ignore_index, 9);
    dataset_fill(d, ids, 1, NULL, input, target);
    assert_int_equal(target[1], 9);
    dataset_destroy(&d);
}

/* -100 where the mask counts is still a mistake. */
static void
test_dataset_labels_mask_refused(void **state)
{
    static const int64_t labels[] = {0, -100, 0, 0, 0, 0, 0, 0};
    static const uint8_t mask[] = {0, 1, 1, 1, 1, 1, 1, 1};
    static const struct dataset_options values = {.target_is_class = false};
    const struct datafiles *p = *state;
    char want[256];
    struct dataset *d;
    struct err err;

    assert_int_equal(open_map(p, labels, mask, &classes, &d, &err), ERR_DATA);
    datafiles_check_sentence(&err, p->t,
                             ": row 1 (sample 0) element 1 value -100, class "
                             "ids start at 0; set loss.ignore_index to -100 to "
                             "leave such rows out");
    assert_int_equal(open_map(p, labels, mask, &values, &d, &err), ERR_SPEC);
    datafiles_check_sentence(&err, p->m,
                             ": a mask needs class ids as targets; use "
                             "cross_entropy or nll");
    datafiles_write_npy(p->m, "|b1", "(2, 4)", mask, 8);
    assert_int_equal(
        dataset_open(&(struct spec_source){.present = true,
                                           .format = SPEC_FORMAT_NPY,
                                           .input = p->x,
                                           .target = p->t,
                                           .mask = p->m},
                     &classes, &d, &err),
        ERR_DATA);
    snprintf(want, sizeof(want), ": mask bool[2,4], but %s is i64[2,2,2]",
             p->t);
    datafiles_check_sentence(&err, p->m, want);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        DATAFILES_TEST(test_dataset_labels_case_c55_floats),
        DATAFILES_TEST(test_dataset_labels_case_c55_too_big),
        DATAFILES_TEST(test_dataset_labels_case_c55_refused),
        DATAFILES_TEST(test_dataset_labels_case_c55_ignored),
        DATAFILES_TEST(test_dataset_labels_ignored_255),
        DATAFILES_TEST(test_dataset_labels_map),
        DATAFILES_TEST(test_dataset_labels_mask),
        DATAFILES_TEST(test_dataset_labels_mask_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
