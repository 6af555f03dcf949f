/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/format.h"

#define GAP 2 /* blanks between columns */

struct table {
    char **cell; /* owned; row after row, NULL for an empty cell */
    size_t n_cells, room;
    int *width; /* owned; one a column, 0 = nothing in it */
    int n_columns;
};

static int
begin_table(struct output *output, struct err *err)
{
    struct table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    output->priv = t;
    t->n_columns = output->layout->n_columns;
    t->width = calloc((size_t)t->n_columns, sizeof(*t->width));
    if (t->width == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    return 0;
}

void
output_text_forget(struct output *output)
{
    struct table *t = output->priv;

    for (size_t i = 0; i < t->n_cells; i++)
        free(t->cell[i]);
    free(t->cell);
    free(t->width);
    free(t);
    output->priv = NULL;
}

static int
add_cell(struct table *t, char *text_take, struct err *err)
{
    if (t->n_cells == t->room) {
        size_t room = t->room > 0 ? t->room * 2 : 64;
        char **grown = reallocarray(t->cell, room, sizeof(*grown));
        if (grown == NULL) {
            free(text_take);
            return err_set(err, ERR_NOMEM, "out of memory");
        }
        t->cell = grown;
        t->room = room;
    }
    t->cell[t->n_cells++] = text_take;
    return 0;
}

static int
add_row(struct output *output, const void *view, struct err *err)
{
    struct table *t = output->priv;
    char raw[OUTPUT_CELL_MAX];

    for (int c = 0; c < t->n_columns; c++) {
        char *safe = NULL;
        raw[0] = '\0';
        output->layout->columns[c].put(output, view, raw, sizeof(raw));
        if (raw[0] != '\0') {
            safe = format_safe(raw, output->utf8);
            if (safe == NULL)
                return err_set(err, ERR_NOMEM, "out of memory");
            int width = format_width(safe, output->utf8);
            if (width > t->width[c])
                t->width[c] = width;
        }
        int rc = add_cell(t, safe, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void
put_blanks(FILE *f, int n)
{
    for (; n > 0; n--)
        putc(' ', f);
}

/* Prints a line; blanks are owed, not written, so that none end a line. */
static void
put_line(const struct output *output, const struct table *t, char *const *cell,
         const char *const *heads)
{
    int owed = 0;

    for (int c = 0; c < t->n_columns; c++) {
        const char *text = cell != NULL ? cell[c] : heads[c];
        if (t->width[c] == 0)
            continue;
        if (text == NULL)
            text = "";
        int pad = t->width[c] - format_width(text, output->utf8);
        if (output->layout->columns[c].right && text[0] != '\0') {
            put_blanks(output->f, owed + pad);
            owed = 0;
        } else if (text[0] != '\0') {
            put_blanks(output->f, owed);
            owed = 0;
        }
        fputs(text, output->f);
        if (!output->layout->columns[c].right || text[0] == '\0')
            owed += pad;
        owed += GAP;
    }
    putc('\n', output->f);
}

static int
end_table(struct output *output, struct err *err)
{
    struct table *t = output->priv;
    const char **heads = calloc((size_t)t->n_columns, sizeof(*heads));

    if (heads == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (int c = 0; c < t->n_columns; c++) {
        heads[c] = output->layout->columns[c].head;
        if (t->width[c] > 0 && (int)strlen(heads[c]) > t->width[c])
            t->width[c] = (int)strlen(heads[c]);
    }
    if (t->n_cells > 0) {
        fputs(output->color ? "\033[1m" : "", output->f);
        put_line(output, t, NULL, heads);
        fputs(output->color ? "\033[0m" : "", output->f);
    }
    for (size_t i = 0; i < t->n_cells; i += (size_t)t->n_columns)
        put_line(output, t, t->cell + i, NULL);
    free(heads);
    return 0;
}

const struct output_ops output_text = {
    .name = "text",
    .begin = begin_table,
    .row = add_row,
    .end = end_table,
    .item = NULL,
};
