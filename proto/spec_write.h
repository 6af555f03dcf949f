/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_write: JSON objects of a spec as text.
 *
 * Private to proto/: what the printers of a spec write with. The text is
 * borrowed and keeps the failure of an allocation to itself.
 */
#ifndef PROTO_SPEC_WRITE_H
#define PROTO_SPEC_WRITE_H

#include "proto/spec_keys.h"
#include "proto/text.h"

/* A writer of one object: either a member to a line at some depth, or all in
 * one line (depth < 0). */
struct spec_writer {
    struct text *t;
    int depth;
    int n; /* members written */
};

struct spec_writer spec_write_begin(struct text *t, int depth);
void spec_write_member(struct spec_writer *o, const char *key);
void spec_write_end(struct spec_writer *o);

/* Lists, in one line. */
void spec_write_reals(struct text *t, const double *v, int n);
void spec_write_ints(struct text *t, const int64_t *v, int n);
void spec_write_strings(struct text *t, const char *const *v, int n);

/* All keys of an object but the custom ones, in the order of the table. */
void spec_write_keys(struct spec_writer *o, enum spec_object object,
                     const void *base);

#endif
