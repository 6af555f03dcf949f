/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output: records on standard output, in the form that was asked for.
 *
 * One struct output_ops per form: text (aligned columns for a person), json,
 * jsonl (streams), parsable, csv. Verbs hand over view structs and do not care;
 * only for text do they say, by a layout, which columns a person wants. Write
 * errors are kept by the FILE and reported once, by main.c.
 */
#ifndef CTL_OUTPUT_H
#define CTL_OUTPUT_H

#include "proto/err.h"
#include "proto/view.h"

#include <stdbool.h>
#include <stdio.h>

struct output;

#define OUTPUT_CELL_MAX 600

/* A column for a person; put writes the cell, raw: control characters are
 * escaped afterwards. A column whose cells are all empty is left out. */
struct output_column {
    const char *head;
    bool right; /* numbers */
    void (*put)(const struct output *output, const void *view, char *cell,
                size_t n);
};
struct output_layout {
    enum view_id view;
    const struct output_column *columns;
    int n_columns;
};

struct output_ops {
    const char *name;
    int (*begin)(struct output *output, struct err *err);
    int (*row)(struct output *output, const void *view, struct err *err);
    int (*end)(struct output *output, struct err *err);
    /* One record that is not part of a list; NULL: the verb has its own
     * words. */
    int (*item)(struct output *output, enum view_id view, const void *record,
                struct err *err);
};

struct output {
    const struct output_ops *ops;
    FILE *f;
    bool utc, utf8, color;
    const struct output_layout *layout; /* of the list being written */
    int64_t n_rows;
    void *priv; /* owned by the ops between begin and end */
};

extern const struct output_ops output_text, output_json, output_jsonl,
    output_parsable, output_csv;

static inline bool
output_is_text(const struct output *output)
{
    return output->ops == &output_text;
}

/* A list: begin, rows, end. n_rows counts them. */
int output_begin(struct output *output, const struct output_layout *layout,
                 struct err *err);
int output_row(struct output *output, const void *view, struct err *err);
int output_end(struct output *output, struct err *err);
/* Gives up a list that was begun. */
void output_abandon(struct output *output);

#endif
