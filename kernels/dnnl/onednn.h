/* SPDX-License-Identifier: Apache-2.0 */
/*
 * onednn: one oneDNN primitive, created once and run many times.
 *
 * The only door to the library for the files beside this one. Owns engine,
 * stream and memory objects of a primitive; the data stays the caller's and
 * so does the scratchpad. A primitive is bound to the thread count it was
 * created for; both calls set OpenMP's for their own length and put it back.
 * Run from one thread at a time. pdesc.c knows 2.x and 3.x apart.
 */
#ifndef KERNELS_DNNL_ONEDNN_H
#define KERNELS_DNNL_ONEDNN_H

#include "kernels/dnnl/pdesc.h"
#include "proto/err.h"

struct onednn;

/* ERR_UNSUPPORTED when the library has nothing for the problem that is both
 * right and faster than ours; ERR_NOMEM. Asking costs no code generation. */
int onednn_check(const struct pdesc_problem *problem, int threads,
                 struct err *err);
int onednn_create(const struct pdesc_problem *problem, int threads,
                  struct onednn **prim, struct err *err);
/* Between tensor i of prim as problem has it (plain) and as prim wants it, in
 * the direction that the op needs; *reorder is NULL when the two are the same.
 * The thread count may differ from prim's. */
int onednn_create_reorder(const struct onednn *prim,
                          const struct pdesc_problem *problem, int i,
                          int threads, struct onednn **reorder,
                          struct err *err);
void onednn_destroy(struct onednn **prim);

/* Bytes of tensor i as the primitive wants it, and of the scratchpad. */
size_t onednn_tensor_bytes(const struct onednn *prim, int i);
/* a and b want tensor i of the same shape in the same format. */
bool onednn_same_tensor(const struct onednn *a, const struct onednn *b, int i);
size_t onednn_scratch_bytes(const struct onednn *prim);
/* "brgconv:avx512_core" */
const char *onednn_name(const struct onednn *prim);

/* Data of the tensors in the problem's order; of a reorder: from, to. We
 * allocate nothing here, but the library does: six small blocks an execution
 * in 2.6, freed before it returns. */
void onednn_run(struct onednn *prim, void *const data[PDESC_MAX],
                void *scratch);

/* "oneDNN 2.6.3, avx2": version, instructions, and whether bfloat16's own are
 * taken. Different texts may give different bits. */
void onednn_describe(char *text, size_t size);

/* The processor multiplies bfloat16 faster than float32. */
bool onednn_bf16_pays(void);
/* It has instructions for it at all. */
bool onednn_has_bf16(void);

#endif
