/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv: reader of tables of numbers as text (RFC 4180), gzip or not.
 *
 * Fields part at commas, rows at LF or CRLF; quotes may hold both, a quote in
 * them is doubled. The first row is a header when it holds no number, or when a
 * target column is asked for by name. All other rows hold numbers as C writes
 * them with a decimal point, read exactly whatever the process's locale is.
 * Bad values are collected, not stumbled over one by one: row 1 is the first
 * one after the header. Holds no state.
 */
#ifndef ENGINE_DATA_CSV_H
#define ENGINE_DATA_CSV_H

#include "engine/data/array.h"

#define CSV_MAX_FAULTS 16

struct csv_fault {
    int64_t row;     /* from 1 */
    char column[64]; /* name, or number from 0; "" for the row as a whole */
    char why[64];    /* "NaN", "not a number: ?", ... */
};

struct csv_faults {
    struct csv_fault first[CSV_MAX_FAULTS];
    int64_t n; /* of all of them */
};

struct csv_options {
    /* Names, or numbers from 0; the other columns are the inputs. */
    const char **target_columns;
    int n_target_columns;
    bool target_is_class; /* target as float64: it holds any class id */
    bool to_half;         /* warn of inputs that are infinite in float16 */
};

struct csv {
    struct array input;  /* f32 [N, K] */
    struct array target; /* f32 or f64 [N], or [N, columns] */
    struct csv_faults errors, warnings;
};

/* ERR_DATA, ERR_IO or ERR_NOMEM; sentences start with path or name. After bad
 * values errors tells them, and there is nothing to free. */
int csv_open(const char *path, const struct csv_options *options,
             struct csv *out, struct err *err);
int csv_parse(const void *bytes, size_t len, const char *name,
              const struct csv_options *options, struct csv *out,
              struct err *err);
void csv_fini(struct csv *csv);

/* "row 2 column f2: NaN; row 3 ...; 4 in all": the first few. */
void csv_format_faults(const struct csv_faults *faults, char *text,
                       size_t size);

#endif
