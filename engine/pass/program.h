/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program: a graph flattened to instructions with prepared kernels.
 *
 * Made once per graph and backend: finds and prepares a kernel for each node,
 * lays temporaries and workspaces out in one block (memplan; an output shares
 * its input's place where ops.def allows and nobody needs the input again),
 * and marks the prologue: instructions that depend on weights alone (their
 * half copies) and need running only after weights changed. Immutable after;
 * run/exec binds it to memory. Owns the kernels' states and, by
 * program_compile_take, the graph.
 */
#ifndef ENGINE_PASS_PROGRAM_H
#define ENGINE_PASS_PROGRAM_H

#include "engine/graph/graph.h"
#include "kernels/backend.h"

enum program_space {
    PROGRAM_NONE,   /* absent */
    PROGRAM_BLOCK,  /* activation block; offset in bytes */
    PROGRAM_PARAM,  /* index of a parameter */
    PROGRAM_BUFFER, /* index of a buffer */
    PROGRAM_GRAD,   /* index of a parameter's gradient */
    PROGRAM_INPUT   /* enum graph_input */
};

struct program_ref {
    enum program_space space;
    int index;
    size_t offset;
};

struct program_instr {
    int node; /* in program_graph() */
    const struct kernel *kernel;
    const char *table; /* whose kernel: "dnnl", "cpu" */
    void *state;
    struct kernel_sig sig;
    struct program_ref in[OP_MAX_IN];
    /* An absent output of a forward node lies in scratch: kernels write all. */
    struct program_ref out[OP_MAX_OUT];
    size_t workspace_offset, workspace_bytes;
    bool prologue;
};

struct program_options {
    const struct backend *backend;
    int threads;
    /* Every temporary keeps its own place: a replay can look at them all. */
    bool keep_all;
};

struct program;

/* Consumes the graph even on failure. Instructions keep graph order but the
 * prologue comes first. ERR_UNSUPPORTED names op and dtypes. */
int program_compile_take(struct graph *graph,
                         const struct program_options *options,
                         struct program **out, struct err *err);
void program_destroy(struct program **program);

const struct graph *program_graph(const struct program *p);
int program_n_instrs(const struct program *p);
const struct program_instr *program_instr_at(const struct program *p, int i);
int program_n_prologue(const struct program *p); /* instrs 0 .. n-1 */
size_t program_block_bytes(const struct program *p);
/* Where value `id` lies (its last place; PROGRAM_NONE if nowhere). */
struct program_ref program_value_ref(const struct program *p, int id);

/* Bytes of a step. The block holds what nodes make: at most `peak`, and no
 * plan could do with less than the lower bound. */
struct program_memory {
    size_t peak, lower_bound;
    size_t copies, workspace; /* in the block: weights in half; the largest */
    size_t params, grads, buffers, inputs;
};

void program_measure_memory(const struct program *p, struct program_memory *m);

/* As text, malloc'd: the instructions with places, and the memory map. */
char *program_print(const struct program *p);
char *program_print_memory(const struct program *p);

#endif
