/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets from safetensors and CSV files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "engine/data/dataset.h"
#include "engine/data/safetensors.h"
#include "tests/support/datafiles.h"

static const struct dataset_options classes = {.target_is_class = true};

static struct safetensors_entry
make_entry(const char *name, enum dtype dtype, int rank, const int64_t *dim,
           const void *data)
{
    return (struct safetensors_entry){
        .name = name, .desc = tensor_make(dtype, rank, dim), .data = data};
}

static void
write_tensors(const char *path, const struct safetensors_entry *entries, int n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char digest[33];
    int64_t n_bytes;
    struct err err;

    assert_true(fd >= 0);
    assert_int_equal(
        safetensors_write(fd, entries, n, NULL, 0, digest, &n_bytes, &err), 0);
    assert_int_equal(close(fd), 0);
}

static int
open_tensors(const struct datafiles *p, const char *target_path,
             const char *input_name, const char *target_name,
             struct dataset **out, struct err *err)
{
    const struct spec_source source = {.present = true,
                                       .format = SPEC_FORMAT_SAFETENSORS,
                                       .input = p->x,
                                       .target = target_path,
                                       .input_name = input_name,
                                       .target_name = target_name};

    err_clear(err);
    return dataset_open(&source, &classes, out, err);
}

/* Three tensors, two of which make a data set. */
static void
write_pair(const char *path)
{
    static const uint8_t odd[] = {1, 2, 3};
    static const uint16_t half[] = {0x3c00, 0x4000, 0x7c00, 0xbc00};
    static const int64_t y[] = {2, 0};
    const struct safetensors_entry entries[] = {
        make_entry("y", DTYPE_I64, 1, (int64_t[]){2}, y),
        make_entry("x", DTYPE_F16, 2, (int64_t[]){2, 2}, half),
        make_entry("odd", DTYPE_U8, 1, (int64_t[]){3}, odd),
    };

    write_tensors(path, entries, 3);
}

static void
check_pair(struct dataset *d)
{
    static const int64_t ids[] = {1, 0};
    static const float want[] = {(float)INFINITY, -1, 1, 2};
    float input[4];
    int32_t target[2];

    assert_int_equal(dataset_n_samples(d), 2);
    assert_int_equal(dataset_fill(d, ids, 2, NULL, input, target), 2);
    assert_memory_equal(input, want, sizeof(want));
    assert_int_equal(target[0], 0);
    assert_int_equal(target[1], 2);
}

static void
test_dataset_tensors(void **state)
{
    const struct datafiles *p = *state;
    struct dataset *d;
    struct err err;

    write_pair(p->x);
    write_pair(p->t);
    assert_int_equal(open_tensors(p, NULL, "x", "y", &d, &err), 0);
    check_pair(d);
    assert_int_equal(dataset_check_classes(d, 2, &err), ERR_DATA);
    datafiles_check_sentence(&err, p->x,
                             " (y): row 1 (sample 0) value 2, allowed 0..1");
    dataset_destroy(&d);
    assert_int_equal(open_tensors(p, p->t, "x", "y", &d, &err), 0);
    check_pair(d);
    assert_int_equal(dataset_check_classes(d, 2, &err), ERR_DATA);
    datafiles_check_sentence(&err, p->t,
                             " (y): row 1 (sample 0) value 2, allowed 0..1");
    dataset_destroy(&d);
}

/* Each type of elements as inputs, and as class ids where they are whole. */
static void
test_dataset_tensor_types(void **state)
{
    static const float f32[] = {3, 1};
    static const double f64[] = {3, 1};
    static const uint16_t bf16[] = {0x4040, 0x3f80}, u16[] = {3, 1};
    static const int8_t i8[] = {3, 1};
    static const int16_t i16[] = {3, 1};
    static const int32_t i32[] = {3, 1};
    static const int64_t i64[] = {3, 1}, n = 2;
    static const uint8_t u8[] = {3, 1};
    static const uint32_t u32[] = {3, 1};
    static const struct {
        enum dtype dtype;
        const void *data;
    } cases[] = {
        {DTYPE_F32, f32}, {DTYPE_F64, f64}, {DTYPE_BF16, bf16},
        {DTYPE_U16, u16}, {DTYPE_I8, i8},   {DTYPE_I16, i16},
        {DTYPE_I32, i32}, {DTYPE_I64, i64}, {DTYPE_U8, u8},
        {DTYPE_U32, u32},
    };
    const struct datafiles *p = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct safetensors_entry e =
            make_entry("v", cases[i].dtype, 1, &n, cases[i].data);
        static const int64_t ids[] = {0, 1};
        struct dataset *d;
        struct err err;
        float input[2];
        int32_t target[2];

        write_tensors(p->x, &e, 1);
        assert_int_equal(open_tensors(p, NULL, "v", "v", &d, &err), 0);
        dataset_fill(d, ids, 2, NULL, input, target);
        assert_true(input[0] == 3 && input[1] == 1);
        assert_true(target[0] == 3 && target[1] == 1);
        dataset_destroy(&d);
    }
}

static void
check_tensors_refused(const struct datafiles *p, const char *input,
                      const char *target, int code, const char *path,
                      const char *sentence)
{
    struct dataset *d;
    struct err err;

    assert_int_equal(open_tensors(p, NULL, input, target, &d, &err), code);
    assert_null(d);
    datafiles_check_sentence(&err, path, sentence);
}

static void
test_dataset_tensors_refused(void **state)
{
    const struct datafiles *p = *state;
    char want[256];

    write_pair(p->x);
    check_tensors_refused(p, "z", "y", ERR_DATA, p->x,
                          ": there is no tensor \"z\"; it has 3, the first is "
                          "\"y\"");
    check_tensors_refused(p, "x", "z", ERR_DATA, p->x,
                          ": there is no tensor \"z\"; it has 3, the first is "
                          "\"y\"");
    snprintf(want, sizeof(want),
             " (odd): 2 samples, 3 labels; the input is %s "
             "(x)",
             p->x);
    check_tensors_refused(p, "x", "odd", ERR_DATA, p->x, want);
    check_tensors_refused(p, NULL, "y", ERR_SPEC, "",
                          "data: input_name is missing");
    check_tensors_refused(p, "x", NULL, ERR_SPEC, "",
                          "data: target_name is missing");
    write_tensors(p->x, NULL, 0);
    check_tensors_refused(p, "x", "y", ERR_DATA, p->x,
                          ": there is no tensor \"x\"; it has 0");
}

/* ---- csv ----------------------------------------------------------------- */

static int
open_csv(const struct datafiles *p, const char *text,
         const struct dataset_options *options, struct dataset **out,
         struct err *err)
{
    static const char *column[] = {"label"};
    const struct spec_source source = {.present = true,
                                       .format = SPEC_FORMAT_CSV,
                                       .input = p->x,
                                       .target_columns = column,
                                       .n_target_columns = 1};

    bytes_write_file(p->x, text, strlen(text));
    err_clear(err);
    return dataset_open(&source, options, out, err);
}

static void
test_dataset_csv(void **state)
{
    static const double mean[] = {1, 2}, std[] = {2, 4};
    const struct dataset_options options = {.target_is_class = true,
                                            .to_half = true,
                                            .mean = mean,
                                            .std = std,
                                            .n_normalize = 2};
    const struct datafiles *p = *state;
    static const int64_t ids[] = {1};
    struct build_data shape;
    struct dataset *d;
    struct err err;
    float input[2];
    int32_t target[1];

    assert_int_equal(
        open_csv(p, "a,label,b\n1,0,2\n3,2,70000\n", &options, &d, &err), 0);
    dataset_describe(d, &shape);
    assert_int_equal(shape.rank, 1);
    assert_int_equal(shape.dim[0], 2);
    assert_int_equal(shape.target_rank, 0);
    assert_int_equal(dataset_fill(d, ids, 1, NULL, input, target), 1);
    assert_true(input[0] == 1 && input[1] == (70000.0f - 2) / 4);
    assert_int_equal(target[0], 2);
    assert_int_equal(strncmp(dataset_warning(d), p->x, strlen(p->x)), 0);
    assert_string_equal(dataset_warning(d) + strlen(p->x),
                        ": row 2 column b: 70000 is inf in half");
    assert_int_equal(dataset_check_classes(d, 2, &err), ERR_DATA);
    datafiles_check_sentence(
        &err, p->x, " (label): row 2 (sample 1) value 2, allowed 0..1");
    dataset_destroy(&d);
    assert_int_equal(open_csv(p, "a,label\n1,0\n3,1.5\n", &classes, &d, &err),
                     ERR_DATA);
    datafiles_check_sentence(
        &err, p->x, " (label): row 2 (sample 1) value 1.5 not an integer");
    assert_int_equal(open_csv(p, "a,label\n1,0\n?,1\n", &classes, &d, &err),
                     ERR_DATA);
    datafiles_check_sentence(&err, p->x, ": row 2 column a: not a number: ?");
    assert_null(d);
}

static void
test_dataset_csv_numbers(void **state)
{
    static const struct dataset_options values = {.target_is_class = false};
    const struct datafiles *p = *state;
    static const int64_t ids[] = {0, 1};
    struct build_data shape;
    struct dataset *d;
    struct err err;
    float input[2], target[2];

    assert_int_equal(open_csv(p, "a,label\n1,0.1\n3,-2\n", &values, &d, &err),
                     0);
    dataset_describe(d, &shape);
    assert_false(shape.target_is_class);
    assert_int_equal(shape.target_rank, 0);
    assert_int_equal(shape.target_elems, 1);
    assert_null(dataset_warning(d));
    assert_int_equal(dataset_fill(d, ids, 2, NULL, input, target), 2);
    assert_true(target[0] == 0.1f && target[1] == -2.0f && input[1] == 3);
    dataset_destroy(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        DATAFILES_TEST(test_dataset_tensors),
        DATAFILES_TEST(test_dataset_tensor_types),
        DATAFILES_TEST(test_dataset_tensors_refused),
        DATAFILES_TEST(test_dataset_csv),
        DATAFILES_TEST(test_dataset_csv_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
