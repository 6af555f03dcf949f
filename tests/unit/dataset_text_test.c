/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets of tokens; the files themselves: tokens_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/data/dataset.h"
#include "tests/support/datafiles.h"

static int
open_text(const struct datafiles *p, const char *text,
          const struct dataset_options *options, struct dataset **out,
          struct err *err)
{
    const struct spec_source source = {.present = true,
                                       .format = SPEC_FORMAT_TEXT,
                                       .input = p->x,
                                       .part = {0, 0.5}};

    bytes_write_file(p->x, text, strlen(text));
    err_clear(err);
    return dataset_open(&source, options, out, err);
}

static void
test_dataset_text(void **state)
{
    static const struct dataset_options options = {.target_is_class = true,
                                                   .sequence_length = 3};
    static const int64_t ids[] = {6, 0};
    static const int32_t input[] = {'g', 'h', 'i', 'a', 'b', 'c'};
    static const int32_t target[] = {'h', 'i', 'j', 'b', 'c', 'd'};
    const struct datafiles *p = *state;
    int32_t x[6], y[6];
    struct build_data shape;
    struct dataset *d;
    struct err err;

    /* Ten tokens: three windows side by side, seven starts. */
    assert_int_equal(open_text(p, "abcdefghijklmnopqrst", &options, &d, &err),
                     0);
    assert_int_equal(dataset_n_samples(d), 3);
    assert_int_equal(dataset_id_step(d), 3);
    assert_int_equal(dataset_n_starts(d), 7);
    dataset_describe(d, &shape);
    assert_true(shape.input_is_tokens && shape.target_is_class);
    assert_int_equal(shape.rank, 1);
    assert_int_equal(shape.dim[0], 3);
    assert_int_equal(shape.target_rank, 1);
    assert_int_equal(shape.target_dim[0], 3);
    assert_int_equal(shape.target_elems, 3);
    assert_false(shape.has_ignore_index);
    assert_int_equal(dataset_fill(d, ids, 2, NULL, x, y), 6);
    assert_memory_equal(x, input, sizeof(x));
    assert_memory_equal(y, target, sizeof(y));
    assert_int_equal(dataset_count(d, ids, 2), 6);
    assert_int_equal(dataset_check_tokens(d, 'k', &err), 0);
    assert_int_equal(dataset_check_tokens(d, 'j', &err), ERR_DATA);
    datafiles_check_sentence(&err, p->x,
                             ": position 9: id 106 >= vocabulary 106");
    assert_int_equal(dataset_check_classes(d, 'k', &err), 0);
    assert_int_equal(dataset_check_classes(d, 'b', &err), ERR_DATA);
    datafiles_check_sentence(&err, p->x,
                             ": position 1: id 98 >= vocabulary 98");
    dataset_destroy(&d);
}

static void
test_dataset_text_ignores(void **state)
{
    static const struct dataset_options options = {.target_is_class = true,
                                                   .sequence_length = 3,
                                                   .has_ignore_index = true,
                                                   .ignore_index = 'b'};
    static const int64_t ids[] = {0, 3};
    const struct datafiles *p = *state;
    int32_t x[6], y[6];
    struct build_data shape;
    struct dataset *d;
    struct err err;

    assert_int_equal(open_text(p, "abcabcabcxxxxxxxxx", &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_true(shape.has_ignore_index && shape.ignore_index == 'b');
    assert_int_equal(dataset_fill(d, ids, 2, NULL, x, y), 4);
    assert_int_equal(dataset_count(d, ids, 1), 2);
    dataset_destroy(&d);
}

static void
check_text_refused(const struct datafiles *p, const char *text,
                   const struct dataset_options *options, int code,
                   const char *path, const char *sentence)
{
    struct dataset *d;
    struct err err;

    assert_int_equal(open_text(p, text, options, &d, &err), code);
    assert_null(d);
    datafiles_check_sentence(&err, path, sentence);
}

static void
test_dataset_text_refused(void **state)
{
    static const double one[] = {1};
    struct dataset_options options = {.target_is_class = true,
                                      .sequence_length = 5};
    const struct datafiles *p = *state;

    check_text_refused(p, "abcdefghij", &options, ERR_DATA, p->x,
                       ": 5 tokens in this part, a sample of sequence_length 5 "
                       "needs 6");
    options.sequence_length = 0;
    check_text_refused(p, "abcdefghij", &options, ERR_SPEC, "",
                       "data.sequence_length: 0, tokens need at least 1");
    options.mean = options.std = one;
    options.n_normalize = 1;
    check_text_refused(p, "abcdefghij", &options, ERR_SPEC, "",
                       "data.normalize: there is nothing to normalize in "
                       "tokens");
    options.target_is_class = false;
    check_text_refused(p, "abcdefghij", &options, ERR_SPEC, p->x,
                       ": targets are the tokens that follow, which are class "
                       "ids; use cross_entropy or nll");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        DATAFILES_TEST(test_dataset_text),
        DATAFILES_TEST(test_dataset_text_ignores),
        DATAFILES_TEST(test_dataset_text_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
