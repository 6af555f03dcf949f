/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_changes: how a job came to be another experiment than the one that was
 * submitted: the list of its changes, as JSON text.
 *
 *     [{"attempt": 2, "iteration": 500, "uid": 1000, "cause": "by a person",
 *       "difference": "amp.dtype: \"float16\" -> \"bfloat16\"",
 *       "change": "{\"amp\": {\"dtype\": \"bfloat16\"}}"}, ...]
 *
 * One entry for each rollback that changed the policy, and one for the latest
 * in any case. It is kept in the job's row, told to every attempt and travels
 * with the weights. Pure.
 */
#ifndef PROTO_SPEC_CHANGES_H
#define PROTO_SPEC_CHANGES_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_CHANGES_MAX_BYTES (256 * 1024) /* of a list */

struct spec_changes_entry {
    int64_t attempt;        /* first that it holds for */
    int64_t iteration;      /* gone back to */
    int64_t uid;            /* who asked; -1: a guard */
    const char *cause;      /* a sentence's part */
    const char *difference; /* "": the policy stayed as it was */
    const char *change;     /* spec fragment; "{}": nothing */
    void *memory;           /* owned, of an entry that was read: the strings */
};

/* The list ("" or "[]": empty) with one more entry, malloc'd. ERR_STATE: the
 * list would be too long. */
int spec_changes_add(const char *list, const struct spec_changes_entry *entry,
                     char **out, struct err *err);

/* The effective spec: the text with all changes merged in order, malloc'd. */
int spec_changes_apply(const char *text, size_t len, const char *list,
                       char **out, struct err *err);

/* The latest entry; false and an empty one: there is none. fini in any case. */
bool spec_changes_last(const char *list, struct spec_changes_entry *out);
void spec_changes_fini(struct spec_changes_entry *entry);

/* What goes with the weights: a JSON list of attempt, iteration, cause and
 * difference of each change of the policy; "" when there was none. malloc'd;
 * NULL: no memory. */
char *spec_changes_tell(const char *list);

/* Did any entry change the policy? */
bool spec_changes_any(const char *list);

#endif
