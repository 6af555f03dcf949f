/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_private: what program.c makes and program_print.c shows.
 *
 * Private to engine/pass/program*.c.
 */
#ifndef ENGINE_PASS_PROGRAM_PRIVATE_H
#define ENGINE_PASS_PROGRAM_PRIVATE_H

#include "engine/pass/memplan.h"
#include "engine/pass/program.h"

struct program {
    struct graph *graph;           /* owned */
    const struct backend *backend; /* static */
    int threads;
    bool keep_all;
    int n_instrs, n_prologue;
    struct program_instr *instr; /* owned */
    /* Places in the block. The first n_slots hold values; the others are
     * workspaces, one for each instruction that wants one, in order. */
    int n_blocks, n_slots;
    struct memplan_block *block; /* owned */
    int *slot; /* owned; of each value, -1: not in the block */
    size_t block_bytes;
};

#endif
