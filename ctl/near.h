/* SPDX-License-Identifier: Apache-2.0 */
/*
 * near: which known word a mistyped one was meant to be.
 *
 * Offered all candidates, keeps the one with the fewest edits. A value without
 * memory of its own; the words are borrowed. Used for verbs and options.
 */
#ifndef CTL_NEAR_H
#define CTL_NEAR_H

struct near {
    const char *word, *best; /* borrowed from the caller */
    int distance;
};

struct near near_start(const char *word);
void near_offer(struct near *near, const char *candidate);
/* NULL when nothing offered is close enough to be worth saying. */
const char *near_best(const struct near *near);

#endif
