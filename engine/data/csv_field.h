/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv_field: one field after the other of CSV text.
 *
 * Private to csv.c. Knows commas, line ends, quotes and a byte order mark;
 * spaces and tabs around a field are not part of it, unless quoted. Allocates
 * nothing. A source may be copied to read the same fields again.
 */
#ifndef ENGINE_DATA_CSV_FIELD_H
#define ENGINE_DATA_CSV_FIELD_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CSV_FIELD_MAX 4096

struct csv_field_source {
    const uint8_t *at, *end; /* borrowed */
    const char *name;        /* for sentences */
    int64_t line;            /* of the file, from 1 */
};

struct csv_field {
    char text[CSV_FIELD_MAX]; /* len bytes and a NUL; may hold NULs */
    size_t len;
    bool is_cut; /* longer than text */
    bool ends_row;
};

void csv_field_start(struct csv_field_source *s, const uint8_t *bytes,
                     size_t len, const char *name);
/* Line ends at the end of the file begin no row. */
bool csv_field_at_end(const struct csv_field_source *s);
/* ERR_DATA when quotes are wrong. */
int csv_field_next(struct csv_field_source *s, struct csv_field *f,
                   struct err *err);

#endif
