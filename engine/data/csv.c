/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/csv.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/data/csv_field.h"
#include "engine/data/file.h"

#define SHOWN_FAULTS  3
#define HALF_OVERFLOW 65520.0f /* from here on float16 rounds to infinity */

struct values {
    uint8_t *v; /* owned */
    size_t n_bytes, room;
};

struct table {
    const struct csv_options *options;
    const char *name;
    struct csv_field_source from;
    int64_t n_columns;
    char **column; /* owned: names, or numbers from 0 */
    int *target;   /* owned: place among the targets, -1: an input */
    bool has_header;
    locale_t locale; /* "C" */
    struct values input, target_values;
    double *row_target; /* owned: n_target_columns of them */
    int64_t n_rows;
    struct csv *out; /* borrowed: for faults */
};

/* ---- faults --------------------------------------------------------------*/

static void
add_fault(struct csv_faults *faults, int64_t row, const char *column,
          const char *why)
{
    if (faults->n < CSV_MAX_FAULTS) {
        struct csv_fault *f = &faults->first[faults->n];

        f->row = row;
        snprintf(f->column, sizeof(f->column), "%s", column);
        snprintf(f->why, sizeof(f->why), "%s", why);
    }
    faults->n++;
}

void
csv_format_faults(const struct csv_faults *faults, char *text, size_t size)
{
    size_t at = 0;

    assert(size > 0);
    text[0] = '\0';
    for (int64_t i = 0; i < faults->n && i < SHOWN_FAULTS && at < size; i++) {
        const struct csv_fault *f = &faults->first[i];

        at += (size_t)snprintf(text + at, size - at,
                               "%srow %" PRId64 "%s%s: %s", i > 0 ? "; " : "",
                               f->row, f->column[0] != '\0' ? " column " : "",
                               f->column, f->why);
    }
    if (faults->n > SHOWN_FAULTS && at < size)
        snprintf(text + at, size - at, "; %" PRId64 " in all", faults->n);
}

/* ---- numbers -------------------------------------------------------------*/

static const char *
skip_digits(const char *s, int *n)
{
    for (*n = 0; *s >= '0' && *s <= '9'; s++)
        ++*n;
    return s;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before the exponent:
 * what strtod() takes, but no hexadecimal, no words, no spaces. */
static bool
is_number(const char *s)
{
    int whole, part = 0, exponent = 1;

    s += *s == '+' || *s == '-';
    s = skip_digits(s, &whole);
    if (*s == '.')
        s = skip_digits(s + 1, &part);
    if (whole + part == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        s = skip_digits(s, &exponent);
    }
    return exponent > 0 && *s == '\0';
}

/* Whether the field stands for a value at all: a number, or NaN. */
static bool
is_numeric(const struct csv_field *f)
{
    const char *s = f->text + (f->text[0] == '+' || f->text[0] == '-');

    return !f->is_cut && (is_number(f->text) || strcasecmp(s, "nan") == 0);
}

static void
explain(const struct csv_field *f, char *why, size_t size)
{
    const char *s = f->text + (f->text[0] == '+' || f->text[0] == '-');

    if (f->len == 0) {
        snprintf(why, size, "missing");
    } else if (strcasecmp(s, "nan") == 0) {
        snprintf(why, size, "NaN");
    } else {
        snprintf(why, size, "not a number: %.32s", f->text);
        for (char *c = why; *c != '\0'; c++)
            if (iscntrl((unsigned char)*c))
                *c = '?';
    }
}

/* The value, correctly rounded to float32 (or float64: wide). */
static bool
read_number(const struct table *t, const struct csv_field *f, bool wide,
            double *out, char *why, size_t size)
{
    if (f->is_cut || strlen(f->text) != f->len || !is_number(f->text)) {
        explain(f, why, size);
        return false;
    }
    *out = wide ? strtod_l(f->text, NULL, t->locale)
                : (double)strtof_l(f->text, NULL, t->locale);
    if (!isinf(*out))
        return true;
    snprintf(why, size, "out of float%d range", wide ? 64 : 32);
    return false;
}

/* ---- rows ----------------------------------------------------------------*/

static int
append(struct values *to, const void *from, size_t n, const char *name,
       struct err *err)
{
    if (to->n_bytes + n > to->room) {
        const size_t room = to->room < 4096 ? 4096 : to->room * 2;
        uint8_t *v = realloc(to->v, room);

        if (v == NULL)
            return err_set(err, ERR_NOMEM, "%s: no memory for %zu bytes", name,
                           room);
        to->v = v;
        to->room = room;
    }
    memcpy(to->v + to->n_bytes, from, n);
    to->n_bytes += n;
    return 0;
}

static int
take_value(struct table *t, int64_t column, const struct csv_field *f,
           struct err *err)
{
    const bool is_input = t->target[column] < 0;
    double v = 0;
    char why[64];
    float x;

    if (!read_number(t, f, !is_input && t->options->target_is_class, &v, why,
                     sizeof(why))) {
        add_fault(&t->out->errors, t->n_rows, t->column[column], why);
    } else if (is_input && t->options->to_half &&
               fabs(v) >= (double)HALF_OVERFLOW) {
        snprintf(why, sizeof(why), "%.32s is inf in half", f->text);
        add_fault(&t->out->warnings, t->n_rows, t->column[column], why);
    }
    if (!is_input) {
        t->row_target[t->target[column]] = v;
        return 0;
    }
    x = (float)v;
    return append(&t->input, &x, sizeof(x), t->name, err);
}

static int
put_targets(struct table *t, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < t->options->n_target_columns && rc == 0; i++) {
        const double v = t->row_target[i];
        const float narrow = (float)v;

        rc = t->options->target_is_class
                 ? append(&t->target_values, &v, sizeof(v), t->name, err)
                 : append(&t->target_values, &narrow, sizeof(narrow), t->name,
                          err);
    }
    return rc;
}

static int
read_row(struct table *t, struct csv_field *f, struct err *err)
{
    int64_t n = 0;
    char why[64];
    int rc;

    t->n_rows++;
    do {
        rc = csv_field_next(&t->from, f, err);
        if (rc == 0 && n < t->n_columns)
            rc = take_value(t, n, f, err);
        if (rc < 0)
            return rc;
        n++;
    } while (!f->ends_row);
    if (n != t->n_columns) {
        snprintf(why, sizeof(why), "%" PRId64 " field%s, expected %" PRId64, n,
                 n == 1 ? "" : "s", t->n_columns);
        add_fault(&t->out->errors, t->n_rows, "", why);
    }
    return put_targets(t, err);
}

/* ---- columns -------------------------------------------------------------*/

static bool
is_column_number(const char *s)
{
    int n;

    return *skip_digits(s, &n) == '\0' && n > 0 && n < 10;
}

/* Counts the first row's fields; is it a header? */
static int
look_at_first_row(struct table *t, struct csv_field *f, struct err *err)
{
    struct csv_field_source again = t->from;
    bool any_number = false;
    int rc;

    do {
        rc = csv_field_next(&again, f, err);
        if (rc < 0)
            return rc;
        any_number |= is_numeric(f);
        t->n_columns++;
    } while (!f->ends_row);
    t->has_header = !any_number;
    for (int i = 0; i < t->options->n_target_columns; i++)
        t->has_header |= !is_column_number(t->options->target_columns[i]);
    return 0;
}

static int
name_columns(struct table *t, struct csv_field *f, struct err *err)
{
    t->column = calloc((size_t)t->n_columns, sizeof(*t->column));
    t->target = calloc((size_t)t->n_columns, sizeof(*t->target));
    t->row_target = calloc((size_t)t->options->n_target_columns + 1,
                           sizeof(*t->row_target));
    if (t->column == NULL || t->target == NULL || t->row_target == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", t->name);
    for (int64_t i = 0; i < t->n_columns; i++) {
        char number[24];
        int rc = t->has_header ? csv_field_next(&t->from, f, err) : 0;

        if (rc < 0)
            return rc;
        snprintf(number, sizeof(number), "%" PRId64, i);
        t->column[i] = strdup(t->has_header ? f->text : number);
        t->target[i] = -1;
        if (t->column[i] == NULL)
            return err_set(err, ERR_NOMEM, "%s: no memory", t->name);
    }
    return 0;
}

/* A name goes before a number. */
static int
find_column(const struct table *t, const char *want, int64_t *at,
            struct err *err)
{
    int64_t n = 0;

    *at = t->n_columns;
    for (int64_t i = 0; i < t->n_columns; i++)
        if (strcmp(t->column[i], want) == 0) {
            *at = i;
            n++;
        }
    if (n == 1)
        return 0;
    if (n > 1)
        return err_set(err, ERR_DATA,
                       "%s: %" PRId64 " columns are called \"%s\"", t->name, n,
                       want);
    if (is_column_number(want))
        *at = strtol(want, NULL, 10);
    if (*at < t->n_columns)
        return 0;
    return err_set(err, ERR_DATA,
                   "%s: there is no column \"%s\"; it has %" PRId64
                   ", from \"%s\" to \"%s\"",
                   t->name, want, t->n_columns, t->column[0],
                   t->column[t->n_columns - 1]);
}

static int
find_targets(struct table *t, struct err *err)
{
    for (int i = 0; i < t->options->n_target_columns; i++) {
        const char *want = t->options->target_columns[i];
        int64_t at = 0;
        int rc = find_column(t, want, &at, err);

        if (rc < 0)
            return rc;
        if (t->target[at] >= 0)
            return err_set(err, ERR_DATA, "%s: target column \"%s\" twice",
                           t->name, want);
        t->target[at] = i;
    }
    if (t->options->n_target_columns == t->n_columns)
        return err_set(err, ERR_DATA, "%s: no column is left as input",
                       t->name);
    return 0;
}

/* ---- the whole -----------------------------------------------------------*/

static void
put_array(struct array *out, struct values *from, enum dtype dtype, int rank,
          const int64_t *dim)
{
    const struct tensor_desc desc = tensor_make(dtype, rank, dim);

    array_init_take(out, &desc, from->v, 0, false);
    *from = (struct values){0};
}

static int
finish(struct table *t, struct err *err)
{
    const int64_t n_targets = t->options->n_target_columns;
    char text[400];

    if (t->out->errors.n > 0) {
        csv_format_faults(&t->out->errors, text, sizeof(text));
        return err_set(err, ERR_DATA, "%s: %s", t->name, text);
    }
    if (t->n_rows == 0)
        return err_set(err, ERR_DATA, "%s: no rows", t->name);
    put_array(&t->out->input, &t->input, DTYPE_F32, 2,
              (int64_t[]){t->n_rows, t->n_columns - n_targets});
    put_array(&t->out->target, &t->target_values,
              t->options->target_is_class ? DTYPE_F64 : DTYPE_F32,
              n_targets == 1 ? 1 : 2, (int64_t[]){t->n_rows, n_targets});
    return 0;
}

static int
read_table(struct table *t, struct csv_field *f, struct err *err)
{
    int rc;

    if (t->options->n_target_columns < 1)
        return err_set(err, ERR_SPEC, "%s: target_columns names no column",
                       t->name);
    if (csv_field_at_end(&t->from))
        return err_set(err, ERR_DATA, "%s: no rows", t->name);
    rc = look_at_first_row(t, f, err);
    if (rc == 0)
        rc = name_columns(t, f, err);
    if (rc == 0)
        rc = find_targets(t, err);
    while (rc == 0 && !csv_field_at_end(&t->from))
        rc = read_row(t, f, err);
    return rc == 0 ? finish(t, err) : rc;
}

static void
table_fini(struct table *t)
{
    for (int64_t i = 0; t->column != NULL && i < t->n_columns; i++)
        free(t->column[i]);
    free(t->column);
    free(t->target);
    free(t->row_target);
    free(t->input.v);
    free(t->target_values.v);
    if (t->locale != (locale_t)0)
        freelocale(t->locale);
}

/* file is consumed. */
static int
take_file(struct file *file, const char *name,
          const struct csv_options *options, struct csv *out, struct err *err)
{
    struct table t = {
        .options = options,
        .name = name,
        .locale = newlocale(LC_ALL_MASK, "C", (locale_t)0),
        .out = out,
    };
    struct csv_field *f = malloc(sizeof(*f));
    int rc;

    csv_field_start(&t.from, file->bytes, file->len, name);
    rc = f == NULL || t.locale == (locale_t)0
             ? err_set(err, ERR_NOMEM, "%s: no memory", name)
             : read_table(&t, f, err);
    free(f);
    table_fini(&t);
    file_fini(file);
    if (rc < 0)
        csv_fini(out);
    return rc;
}

static int
size_of(const uint8_t *head, size_t n_head, size_t total, const char *name,
        size_t *n_bytes, struct err *err)
{
    (void)head;
    (void)n_head;
    (void)total;
    (void)name;
    (void)err;
    *n_bytes = FILE_ALL;
    return 0;
}

int
csv_open(const char *path, const struct csv_options *options, struct csv *out,
         struct err *err)
{
    struct file file;
    int rc = file_load(path, size_of, &file, err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, path, options, out, err);
}

int
csv_parse(const void *bytes, size_t len, const char *name,
          const struct csv_options *options, struct csv *out, struct err *err)
{
    struct file file;
    int rc = file_load_bytes(bytes, len, name, size_of, &file, err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, name, options, out, err);
}

/* What was found out stays. */
void
csv_fini(struct csv *csv)
{
    array_fini(&csv->input);
    array_fini(&csv->target);
}
