/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour: stretches of the data that a run passes over.
 *
 * A sorted list of data positions that a rollback excluded. A run whose
 * position reaches one goes on behind it; iterations are counted as ever, so
 * that the run ends later in the data. Immutable, safe to share between
 * threads. Used by prefetch, which must look ahead, and by the loop.
 */
#ifndef ENGINE_DATA_DETOUR_H
#define ENGINE_DATA_DETOUR_H

#include "proto/err.h"

#include <stdint.h>

struct detour;

/* n numbers: pairs of a data position, 0 or more, and how many windows to pass
 * over, 1 or more; in any order, they may overlap. ERR_PROTO otherwise. */
int detour_create(const int64_t *pairs, int n, struct detour **out,
                  struct err *err);
void detour_destroy(struct detour **detour);

/* The first position from `position` on that is not passed over; detour NULL:
 * position. */
int64_t detour_next(const struct detour *detour, int64_t position);

#endif
