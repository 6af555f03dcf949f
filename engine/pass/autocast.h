/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autocast: casts where the op list wants them; numerics, section 3.
 *
 * A pure pass over the forward graph: for each node the class of its op
 * (ops.def) decides the dtype of its floating inputs, and a cast node is put
 * before it where the dtype differs, once per value and dtype. Inside a region
 * (a layer path of the spec, or its children) autocast is off and half inputs
 * are cast to float32. dtype F32 returns a copy.
 */
#ifndef ENGINE_PASS_AUTOCAST_H
#define ENGINE_PASS_AUTOCAST_H

#include "engine/graph/graph.h"

/* Of the op list; stored with every checkpoint. A change of a class in
 * ops.def must change the number (a test holds the hash of the list). */
#define AUTOCAST_LIST_VERSION 2

struct autocast_policy {
    enum dtype dtype; /* F16, BF16, or F32: off */
    const char *const *fp32_regions;
    int n_fp32_regions;
};

int autocast_apply(const struct graph *in, const struct autocast_policy *policy,
                   struct graph **out, struct err *err);

/* xxh3-64 of the names and classes of ops.def's spec-visible ops. */
uint64_t autocast_list_hash(void);

#endif
