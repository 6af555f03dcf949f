/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <locale.h>

#include "engine/data/csv.h"
#include "tests/support/bytes.h"

static const char *label[] = {"label"};
static const struct csv_options by_name = {
    .target_columns = label, .n_target_columns = 1, .target_is_class = true};

static int
parse(const char *text, const struct csv_options *options, struct csv *out,
      struct err *err)
{
    const size_t n = strlen(text);
    char *bytes = malloc(n > 0 ? n : 1); /* no NUL behind: asan sees it */
    int rc;

    memcpy(bytes, text, n);
    err_clear(err);
    rc = csv_parse(bytes, n, "f", options, out, err);
    free(bytes);
    return rc;
}

static void
check_refused(const char *text, const struct csv_options *options,
              const char *sentence)
{
    struct csv csv;
    struct err err;

    assert_int_equal(parse(text, options, &csv, &err), ERR_DATA);
    assert_string_equal(err.msg, sentence);
    assert_null(csv.input.memory);
    assert_null(csv.target.memory);
}

static void
check_fault(const struct csv_fault *f, int64_t row, const char *column,
            const char *why)
{
    assert_int_equal(f->row, row);
    assert_string_equal(f->column, column);
    assert_string_equal(f->why, why);
}

static void
check_values(const struct csv *csv, int64_t n_rows, int64_t n_columns,
             const float *want)
{
    assert_int_equal(csv->input.desc.dtype, DTYPE_F32);
    assert_int_equal(csv->input.desc.rank, 2);
    assert_int_equal(csv->input.desc.dim[0], n_rows);
    assert_int_equal(csv->input.desc.dim[1], n_columns);
    assert_memory_equal(csv->input.data, want,
                        (size_t)(n_rows * n_columns) * sizeof(*want));
}

/* ---- case C54: bad values ------------------------------------------------ */

static void
test_csv_case_c54(void **state)
{
    static const char text[] = "f1,f2,label\n1.0,2.0,0\n0.5,NaN,1\n?,1.5,0\n"
                               "2.0,1e39,1\n3.0,65535,0\n,4.0,1\n";
    struct csv_options options = by_name;
    struct csv csv;
    struct err err;

    (void)state;
    options.to_half = true;
    assert_int_equal(parse(text, &options, &csv, &err), ERR_DATA);
    assert_int_equal(csv.errors.n, 4);
    check_fault(&csv.errors.first[0], 2, "f2", "NaN");
    check_fault(&csv.errors.first[1], 3, "f1", "not a number: ?");
    check_fault(&csv.errors.first[2], 4, "f2", "out of float32 range");
    check_fault(&csv.errors.first[3], 6, "f1", "missing");
    assert_int_equal(csv.warnings.n, 1);
    check_fault(&csv.warnings.first[0], 5, "f2", "65535 is inf in half");
    assert_string_equal(err.msg,
                        "f: row 2 column f2: NaN; row 3 column f1: not a "
                        "number: ?; row 4 column f2: out of float32 range; 4 "
                        "in all");
}

/* The valid rows of case C54 alone; the warning depends on the precision. */
static void
test_csv_case_c54_valid_rows(void **state)
{
    static const char text[] = "f1,f2,label\n1.0,2.0,0\n3.0,65535,0\n";
    static const float want[] = {1, 2, 3, 65535};
    struct csv_options options = by_name;
    struct csv csv;
    struct err err;

    (void)state;
    for (int half = 0; half < 2; half++) {
        options.to_half = half;
        assert_int_equal(parse(text, &options, &csv, &err), 0);
        check_values(&csv, 2, 2, want);
        assert_int_equal(csv.warnings.n, half);
        csv_fini(&csv);
    }
}

static void
test_csv_half_boundary(void **state)
{
    static const char text[] = "a,label\n65519.99,0\n65520,0\n-65520,0\n"
                               "-65519,0\n";
    struct csv_options options = by_name;
    struct csv csv;
    struct err err;

    (void)state;
    options.to_half = true;
    assert_int_equal(parse(text, &options, &csv, &err), 0);
    assert_int_equal(csv.warnings.n, 2);
    check_fault(&csv.warnings.first[0], 2, "a", "65520 is inf in half");
    check_fault(&csv.warnings.first[1], 3, "a", "-65520 is inf in half");
    csv_fini(&csv);
}

static void
test_csv_bad_values(void **state)
{
    static const struct {
        const char *field, *why;
    } cases[] = {
        {"-nan", "NaN"},
        {"NAN", "NaN"},
        {"inf", "not a number: inf"},
        {"-Infinity", "not a number: -Infinity"},
        {"0x10", "not a number: 0x10"},
        {"1,5", NULL}, /* another column */
        {"\"1,5\"", "not a number: 1,5"},
        {"1e", "not a number: 1e"},
        {".", "not a number: ."},
        {"+", "not a number: +"},
        {"1 2", "not a number: 1 2"},
        {"1_000", "not a number: 1_000"},
        {"3.4028236e38", "out of float32 range"},
        {"-1e999", "out of float32 range"},
        {"   ", "missing"},
        {"\"\"", "missing"},
        {"\x01\x7f", "not a number: ??"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        struct csv csv;
        struct err err;

        snprintf(text, sizeof(text), "a,label\n%s,1\n", cases[i].field);
        assert_int_equal(parse(text, &by_name, &csv, &err), ERR_DATA);
        assert_int_equal(csv.errors.n, 1);
        check_fault(&csv.errors.first[0], 1, cases[i].why ? "a" : "",
                    cases[i].why ? cases[i].why : "3 fields, expected 2");
    }
}

/* More than are kept, and rows that miss fields. */
static void
test_csv_many_faults(void **state)
{
    char text[512] = "a,label\n";
    struct csv csv;
    struct err err;

    (void)state;
    for (int i = 0; i < 40; i++)
        strcat(text, i % 2 == 0 ? "x,0\n" : "1\n");
    assert_int_equal(parse(text, &by_name, &csv, &err), ERR_DATA);
    assert_int_equal(csv.errors.n, 40);
    assert_string_equal(err.msg, "f: row 1 column a: not a number: x; row 2: 1 "
                                 "field, expected 2; row 3 column a: not a "
                                 "number: x; 40 in all");
}

/* ---- numbers ------------------------------------------------------------- */

/* Values that a way over double would round twice, or that end in another
 * decimal point: "," in the German locale, where the machine has it. */
static void
test_csv_numbers_exact(void **state)
{
    static const char text[] = "a,label\n0.1,0\n1.00000005960464480,0\n"
                               "1.000000059604644775390626,0\n"
                               "-3.4028235e+38,0\n1.4e-45,0\n1E3,0\n.5,0\n"
                               "5.,0\n-0,0\n16777217,0\n7e-46,0\n+7,0\n";
    static const float want[] = {0.1f,
                                 0x1.000002p0f,
                                 0x1.000002p0f,
                                 -0x1.fffffep127f,
                                 0x1p-149f,
                                 1000,
                                 0.5f,
                                 5,
                                 -0.0f,
                                 16777216,
                                 0,
                                 7};
    static const char *const locales[] = {"C", "de_DE.UTF-8", "de_DE.utf8",
                                          "fr_FR.UTF-8"};

    (void)state;
    for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]); i++) {
        struct csv csv;
        struct err err;

        setlocale(LC_ALL, locales[i]);
        assert_int_equal(parse(text, &by_name, &csv, &err), 0);
        check_values(&csv, 12, 1, want);
        csv_fini(&csv);
    }
    setlocale(LC_ALL, "C");
}

/* A class id that float32 does not hold. */
static void
test_csv_class_ids_exact(void **state)
{
    static const char text[] = "a,label\n1,16777217\n2,2147483647\n";
    struct csv_options options = by_name;
    struct csv csv;
    struct err err;

    (void)state;
    assert_int_equal(parse(text, &options, &csv, &err), 0);
    assert_int_equal(csv.target.desc.dtype, DTYPE_F64);
    assert_int_equal(csv.target.desc.rank, 1);
    assert_true(array_get_double(&csv.target, 0) == 16777217.0);
    assert_true(array_get_double(&csv.target, 1) == 2147483647.0);
    csv_fini(&csv);
    options.target_is_class = false;
    assert_int_equal(parse(text, &options, &csv, &err), 0);
    assert_int_equal(csv.target.desc.dtype, DTYPE_F32);
    csv_fini(&csv);
}

/* ---- columns ------------------------------------------------------------- */

static void
test_csv_columns(void **state)
{
    static const char *two[] = {"c", "a"};
    static const float input[] = {2, 5}, target[] = {3, 1, 6, 4};
    const struct csv_options options = {.target_columns = two,
                                        .n_target_columns = 2};
    struct csv csv;
    struct err err;

    (void)state;
    assert_int_equal(parse("a,b,c\n1,2,3\n4,5,6\n", &options, &csv, &err), 0);
    check_values(&csv, 2, 1, input);
    assert_int_equal(csv.target.desc.rank, 2);
    assert_int_equal(csv.target.desc.dim[1], 2);
    assert_memory_equal(csv.target.data, target, sizeof(target));
    csv_fini(&csv);
}

static void
test_csv_columns_by_number(void **state)
{
    static const char *last[] = {"2"};
    static const float want[] = {1, 2, 4, 5};
    static const char *const files[] = {
        "1,2,0\n4,5,1\n",        /* no header */
        "a,b,c\n1,2,0\n4,5,1\n", /* a header of other names */
        "2,b,c\n0,1,2\n1,4,5\n", /* the name goes before the number ... */
    };
    const struct csv_options options = {
        .target_columns = last, .n_target_columns = 1, .target_is_class = true};
    struct csv csv;
    struct err err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(parse(files[i], &options, &csv, &err), 0);
        check_values(&csv, 2, 2, want);
        assert_true(array_get_double(&csv.target, 1) == 1);
        csv_fini(&csv);
    }
    /* ... but one number in it makes it a row. */
    check_refused(files[2], &options,
                  "f: row 1 column 1: not a number: b; row 1 column 2: not a "
                  "number: c");
    check_refused("1,2\n", &options,
                  "f: there is no column \"2\"; it has 2, from \"0\" to \"1\"");
}

/* Column names that are numbers, as pandas writes: a target by name says that
 * they are a header. */
static void
test_csv_numeric_header(void **state)
{
    static const float want[] = {5, 6};
    struct csv csv;
    struct err err;

    (void)state;
    assert_int_equal(parse("0,1,label\n5,6,1\n", &by_name, &csv, &err), 0);
    check_values(&csv, 1, 2, want);
    csv_fini(&csv);
}

static void
test_csv_columns_refused(void **state)
{
    static const char *twice[] = {"a", "a"}, *all[] = {"a", "b"};
    const struct csv_options double_target = {.target_columns = twice,
                                              .n_target_columns = 2};
    const struct csv_options no_input = {.target_columns = all,
                                         .n_target_columns = 2};

    (void)state;
    check_refused("a,b\n1,2\n", &by_name,
                  "f: there is no column \"label\"; it has 2, from \"a\" to "
                  "\"b\"");
    check_refused("label,b,label\n1,2,3\n", &by_name,
                  "f: 2 columns are called \"label\"");
    check_refused("a,b\n1,2\n", &double_target, "f: target column \"a\" twice");
    check_refused("a,b\n1,2\n", &no_input, "f: no column is left as input");
    check_refused("a,label\n", &by_name, "f: no rows");
    check_refused("", &by_name, "f: no rows");
    check_refused("\r\n\n", &by_name, "f: no rows");
}

/* ---- syntax -------------------------------------------------------------- */

static void
test_csv_syntax(void **state)
{
    static const char *const files[] = {
        "a,label\n1,2\n3,4\n",
        "a,label\r\n1,2\r\n3,4\r\n",
        "a,label\n1,2\n3,4",
        "a,label\n1,2\n3,4\r",
        "\xef\xbb\xbf"
        "a,label\n1,2\n3,4\n\n\r\n\n",
        "\"a\",\"label\"\n\"1\",2\n3,\"4\"\n",
        " a\t, \"label\" \n 1 ,2\t\n\t3,  \"4\"",
    };
    static const float want[] = {1, 3};
    struct csv csv;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        assert_int_equal(parse(files[i], &by_name, &csv, &err), 0);
        check_values(&csv, 2, 1, want);
        assert_true(array_get_double(&csv.target, 1) == 4);
        csv_fini(&csv);
    }
}

static void
test_csv_quotes(void **state)
{
    static const char *name[] = {"a \"b\",\nc"};
    static const float want[] = {1};
    struct csv_options options = by_name;
    struct csv csv;
    struct err err;

    (void)state;
    options.target_columns = name;
    assert_int_equal(
        parse("x,\"a \"\"b\"\",\nc\"\n1,2\n", &options, &csv, &err), 0);
    check_values(&csv, 1, 1, want);
    csv_fini(&csv);
    check_refused("a,label\n1,\"2\n3,4\n", &by_name,
                  "f: line 2: a quote is not closed");
    check_refused("a,label\n1,2\n\"3\"x,4\n", &by_name,
                  "f: line 3: text after a closing quote");
}

/* An empty line between rows is a row that misses its fields. */
static void
test_csv_empty_line(void **state)
{
    (void)state;
    check_refused("a,label\n1,2\n\n3,4\n", &by_name,
                  "f: row 2 column a: missing; row 2: 1 field, expected 2");
}

static void
test_csv_long_fields(void **state)
{
    char *text = malloc(10000);
    static const float want[] = {1};
    struct csv csv;
    struct err err;
    size_t n;

    (void)state;
    /* 4000 zeros behind the point are digits like others. */
    n = (size_t)sprintf(text, "a,label\n1.");
    memset(text + n, '0', 4000);
    strcpy(text + n + 4000, ",2\n");
    assert_int_equal(parse(text, &by_name, &csv, &err), 0);
    check_values(&csv, 1, 1, want);
    csv_fini(&csv);
    memset(text + n, '0', 8000);
    strcpy(text + n + 8000, ",2\n");
    check_refused(text, &by_name,
                  "f: row 1 column a: not a number: "
                  "1.000000000000000000000000000000");
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv_case_c54),
        cmocka_unit_test(test_csv_case_c54_valid_rows),
        cmocka_unit_test(test_csv_half_boundary),
        cmocka_unit_test(test_csv_bad_values),
        cmocka_unit_test(test_csv_many_faults),
        cmocka_unit_test(test_csv_numbers_exact),
        cmocka_unit_test(test_csv_class_ids_exact),
        cmocka_unit_test(test_csv_columns),
        cmocka_unit_test(test_csv_columns_by_number),
        cmocka_unit_test(test_csv_numeric_header),
        cmocka_unit_test(test_csv_columns_refused),
        cmocka_unit_test(test_csv_syntax),
        cmocka_unit_test(test_csv_quotes),
        cmocka_unit_test(test_csv_empty_line),
        cmocka_unit_test(test_csv_long_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
