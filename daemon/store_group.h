/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_group: metric rows of consecutive iterations joined to one.
 *
 * Pure. Extremes are kept, skips and values that are not finite are counted,
 * so that no spike and no skip is lost however far a curve is thinned. Rows
 * that are joined may stand for groups themselves. Means are over what is
 * finite; where nothing is, the last value stays, so that NaN and inf can be
 * told apart.
 */
#ifndef DAEMON_STORE_GROUP_H
#define DAEMON_STORE_GROUP_H

#include "proto/view.h"

struct store_group {
    struct view_metric row; /* n 0: empty */
    double loss_sum, norm_sum;
};

void store_group_init(struct store_group *g);
/* Rows of one iteration get their own value as both extremes. */
void store_group_add(struct store_group *g, const struct view_metric *row);
/* false: nothing was added. Empty afterwards. */
bool store_group_take(struct store_group *g, struct view_metric *out);

/* The fields of a row of one iteration that only groups need. */
void store_group_single(struct view_metric *row);

#endif
