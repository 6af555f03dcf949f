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

/* A place that one instruction uses alone. */
struct program_extra {
    int instr;
    int out; /* scratch for this output, which nobody wants; -1: workspace */
};

struct program {
    struct graph *graph;           /* owned */
    const struct backend *backend; /* static */
    int threads;
    bool keep_all;
    int n_instrs, n_prologue;
    struct program_instr *instr; /* owned */
    /* Places in the block: n_slots that hold values, then the extras. */
    int n_blocks, n_slots;
    struct memplan_block *block; /* owned */
    struct program_extra *extra; /* owned, of block n_slots + i */
    int *slot; /* owned; of each value, -1: not in the block */
    size_t block_bytes;
};

#endif
