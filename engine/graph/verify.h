/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify: is this graph one that the rest of the engine may believe?
 *
 * Pure. Checks what every pass and the program rely on: inputs come before
 * their readers, shapes and dtypes are those of the op's rule, in-place
 * outputs are the inputs they update, every value has one maker, names are
 * unique, roles have their dtypes. A fault is a fault of the program, so the
 * sentence (ERR_INTERNAL) is for us. Called by graph_freeze() and by tests.
 */
#ifndef ENGINE_GRAPH_VERIFY_H
#define ENGINE_GRAPH_VERIFY_H

#include "engine/graph/graph.h"

int verify_graph(const struct graph *g, struct err *err);

#endif
