/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canonical: JSON files of ours, of which no byte is without meaning.
 *
 * The same value gives the same text: two-space indent, keys in the order in
 * which they were set, a newline at the end. What was read must be exactly
 * what printing it again gives, or it is damaged. No I/O, no state.
 */
#ifndef ENGINE_BASE_CANONICAL_H
#define ENGINE_BASE_CANONICAL_H

#include <jansson.h>
#include <stddef.h>

#include "proto/err.h"

/* malloc'd; the value is consumed. NULL: no memory, or a string in it that is
 * no UTF-8, or value was NULL. */
char *canonical_print_take(json_t *value);

/* text (of `file`, for the sentence) against what printing gave, which is
 * consumed; NULL is no memory. ERR_CKPT when they differ. */
int canonical_check_take(const char *text, size_t len, char *again,
                         const char *file, struct err *err);

#endif
