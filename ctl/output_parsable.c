/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/format.h"

/*
 * One line a record, every field of its view in the table's order. Lists are
 * blank-separated, truths 0 or 1, times microseconds since the epoch.
 *
 * parsable: no heading; "|" between fields; a backslash, a bar and control
 *           characters in a field are \\, \x7c, \n, \x1b and so on
 * csv:      a heading; RFC 4180 quotes where needed; control characters as
 *           above, so that a record is always one line
 */

typedef void put_text_fn(FILE *f, const char *s);

static void
put_bar_text(FILE *f, const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '\\')
            fputs("\\\\", f);
        else if (c == '\n')
            fputs("\\n", f);
        else if (c == '|' || c < 0x20 || c == 0x7f)
            fprintf(f, "\\x%02x", c);
        else
            putc(c, f);
    }
}

static void
put_csv_text(FILE *f, const char *s)
{
    bool quote = strpbrk(s, "\",") != NULL;

    fputs(quote ? "\"" : "", f);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"')
            fputs("\"\"", f);
        else if (c == '\n')
            fputs("\\n", f);
        else if (c < 0x20 || c == 0x7f)
            fprintf(f, "\\x%02x", c);
        else
            putc(c, f);
    }
    fputs(quote ? "\"" : "", f);
}

static void
put_f64(FILE *f, double v)
{
    char text[FORMAT_MAX];

    format_exact(v, text, sizeof(text));
    fputs(text, f);
}

static void
put_field(FILE *f, const struct view_field *field, const void *view,
          put_text_fn *put_text)
{
    const char *at = (const char *)view + field->offset;

    switch (field->type) {
    case VIEW_I64: fprintf(f, "%" PRId64, *(const int64_t *)at); break;
    case VIEW_F64: put_f64(f, *(const double *)at); break;
    case VIEW_BOOL: putc(*(const bool *)at ? '1' : '0', f); break;
    case VIEW_STR: put_text(f, *(const char *const *)at); break;
    case VIEW_I64S: {
        const struct view_i64s *list = (const struct view_i64s *)at;
        for (int i = 0; i < list->n; i++)
            fprintf(f, "%s%" PRId64, i > 0 ? " " : "", list->v[i]);
        break;
    }
    case VIEW_STRS: {
        const struct view_strs *list = (const struct view_strs *)at;
        for (int i = 0; i < list->n; i++) {
            fputs(i > 0 ? " " : "", f);
            put_text(f, list->v[i]);
        }
        break;
    }
    }
}

static void
put_record(FILE *f, enum view_id id, const void *view, char separator,
           put_text_fn *put_text)
{
    const struct view_desc *desc = &view_table[id];

    for (int i = 0; i < desc->n_fields; i++) {
        if (i > 0)
            putc(separator, f);
        put_field(f, &desc->fields[i], view, put_text);
    }
    putc('\n', f);
}

static int
nothing(struct output *output, struct err *err)
{
    (void)output;
    (void)err;
    return 0;
}

static int
put_bar_item(struct output *output, enum view_id view, const void *record,
             struct err *err)
{
    (void)err;
    put_record(output->f, view, record, '|', put_bar_text);
    return 0;
}

static int
put_bar_row(struct output *output, const void *view, struct err *err)
{
    return put_bar_item(output, output->layout->view, view, err);
}

const struct output_ops output_parsable = {
    .name = "parsable",
    .begin = nothing,
    .row = put_bar_row,
    .end = nothing,
    .item = put_bar_item,
};

static void
put_heading(FILE *f, enum view_id view)
{
    const struct view_desc *desc = &view_table[view];

    for (int i = 0; i < desc->n_fields; i++)
        fprintf(f, "%s%s", i > 0 ? "," : "", desc->fields[i].name);
    putc('\n', f);
}

static int
begin_csv(struct output *output, struct err *err)
{
    (void)err;
    put_heading(output->f, output->layout->view);
    return 0;
}

static int
put_csv_row(struct output *output, const void *view, struct err *err)
{
    (void)err;
    put_record(output->f, output->layout->view, view, ',', put_csv_text);
    return 0;
}

static int
put_csv_item(struct output *output, enum view_id view, const void *record,
             struct err *err)
{
    (void)err;
    put_heading(output->f, view);
    put_record(output->f, view, record, ',', put_csv_text);
    return 0;
}

const struct output_ops output_csv = {
    .name = "csv",
    .begin = begin_csv,
    .row = put_csv_row,
    .end = nothing,
    .item = put_csv_item,
};
