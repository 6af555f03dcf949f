/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_suggest: the known word that a person probably meant.
 *
 * Private to proto/. Compares without case and underscores by edit distance,
 * knows a few names that other programs use, and prefers silence to a wild
 * guess. Pure.
 */
#ifndef PROTO_SPEC_SUGGEST_H
#define PROTO_SPEC_SUGGEST_H

/* One of the n known words, or NULL. */
const char *spec_suggest(const char *asked, const char *const *known, int n);

#endif
