/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec: runs a program over memory: a walk over prepared calls.
 *
 * Owned by the engine, used by the step's thread. Binding resolves every
 * reference to a pointer once; a run only walks the table, allocates nothing
 * and cannot fail. The prologue runs when the weights' version differs from
 * the one it last ran for, or another program used the block meanwhile.
 */
#ifndef ENGINE_RUN_EXEC_H
#define ENGINE_RUN_EXEC_H

#include "engine/pass/program.h"
#include "engine/run/state.h"

struct exec;

/* Program, state and block (program_block_bytes(), 64-byte aligned) are
 * borrowed and must outlive it. Buffers bind to buffers_pending in training
 * programs and to buffers in evaluation. */
int exec_create(const struct program *program, struct state *state, void *block,
                bool training, struct exec **out, struct err *err);
void exec_destroy(struct exec **exec);

/* Points an input somewhere; borrowed until changed. */
void exec_set_input(struct exec *exec, enum graph_input which, const void *p);

/* Someone else wrote to the block: the prologue must run again. */
void exec_invalidate(struct exec *exec);

/* One micro-batch. */
void exec_run(struct exec *exec, const struct kernel_step *step);

/* The same, calling probe after every instruction, the prologue always
 * included; a probe that returns false ends the run. */
typedef bool exec_probe_fn(void *ctx, const struct exec *exec, int instr);
void exec_run_probed(struct exec *exec, const struct kernel_step *step,
                     exec_probe_fn *probe, void *ctx);

const struct program *exec_program(const struct exec *exec);
/* Memory of a value right now; NULL where it has none. */
const void *exec_value(const struct exec *exec, int value);

#endif
