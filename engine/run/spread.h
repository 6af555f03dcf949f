/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spread: median and spread of the last numbers, whatever a few of them are.
 *
 * The spread is 1.4826 times the median absolute deviation: of normal noise
 * that is the standard deviation, and half of the numbers may be wild without
 * moving it far. Owns a ring and the same numbers sorted; spread_add() moves at
 * most 32 KiB, the two questions are binary searches. Allocates at the start
 * only. Used by guard; knows nothing of losses.
 */
#ifndef ENGINE_RUN_SPREAD_H
#define ENGINE_RUN_SPREAD_H

#include <stdbool.h>

#define SPREAD_MAX 4096

struct spread;

/* Of the last n numbers, 2 to SPREAD_MAX. NULL: no memory. */
struct spread *spread_create(int n);
void spread_destroy(struct spread **spread);

/* Finite; the oldest one goes when there are n. */
void spread_add(struct spread *spread, double value);
bool spread_is_full(const struct spread *spread);

/* Of those that there are; at least one. Of an even number the mean of the two
 * in the middle. */
double spread_median(const struct spread *spread);
double spread_width(const struct spread *spread);

#endif
