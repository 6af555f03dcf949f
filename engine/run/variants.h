/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variants: the programs of one job, one for each mode and batch size.
 *
 * The last batch of an epoch may be smaller, and evaluation runs another
 * graph: each is compiled on its own, and all share one activation block, as
 * only one runs at a time. Owns programs, bindings and the block; the state is
 * borrowed. Used by the thread that owns the step; after variants_bind()
 * nothing is allocated.
 */
#ifndef ENGINE_RUN_VARIANTS_H
#define ENGINE_RUN_VARIANTS_H

#include "engine/graph/build.h"
#include "engine/run/exec.h"

struct variants_options {
    const struct spec *spec;       /* borrowed, outlives the variants */
    const struct build_data *data; /* borrowed during calls */
    const struct backend *backend;
    int threads;
};

/* Spec to program, through every pass. keep_all: see program.h. */
int variants_compile(const struct variants_options *options,
                     enum build_mode mode, int64_t batch_size, bool keep_all,
                     struct program **out, struct err *err);

struct variants;

struct variants *variants_create(void); /* NULL: no memory */
void variants_destroy(struct variants **variants);

/* Compiles one more, unless it is there. */
int variants_add(struct variants *v, const struct variants_options *options,
                 enum build_mode mode, int64_t batch_size, struct err *err);

/* Makes the block and binds every program to it and to the state. */
int variants_bind(struct variants *v, struct state *state, struct err *err);

/* The program of that mode and size, ready to run: its prologue runs again
 * when another one used the block meanwhile. It must have been added. */
struct exec *variants_use(struct variants *v, enum build_mode mode,
                          int64_t batch_size);

/* Bytes of the block: the largest program's. */
size_t variants_block_bytes(const struct variants *v);
int variants_n(const struct variants *v);
const struct program *variants_program_at(const struct variants *v, int i);

#endif
