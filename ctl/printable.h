/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printable: a stranger's bytes made harmless for a terminal, as they come.
 *
 * Lets UTF-8 text, newlines and tabs through; each byte that is neither, and
 * each control character, becomes '?'. Keeps at most the start of one
 * character between calls. Pure.
 */
#ifndef CTL_PRINTABLE_H
#define CTL_PRINTABLE_H

#include <stddef.h>

struct printable {
    unsigned char part[4]; /* the start of a character */
    size_t n, want;
};

/* Filters n bytes into out, which has room for n + 4; the bytes written. */
size_t printable_filter(struct printable *p, const char *bytes, size_t n,
                        char *out);
/* What is left over at the end, room for 4. */
size_t printable_finish(struct printable *p, char *out);

#endif
