/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel: the one table that every backend fills, and its contract.
 *
 * A slot of the table is a struct kernel: prepared once for a signature (all
 * that is known before data exists), then run any number of times. Called by
 * engine/run on the thread that owns the step; a kernel may use OpenMP inside.
 *
 * Contract of every slot
 *   pointers   64-byte aligned, dense, each at least tensor_n_bytes() long.
 *              Absent optional inputs: desc DTYPE_NONE, pointer NULL.
 *   aliasing   none, but output 0 may be the very input ops.def calls inplace.
 *   zero size  any dimension may be 0: nothing is read, sums are 0.
 *   writes     every element of every output is overwritten; GRAD_ACCUMULATE
 *              and STATS_TRACK update their first inputs in place instead.
 *   dtypes     float inputs and outputs f32, f16 or bf16 as the signature
 *              says; sums in f32 or wider, one rounding at the end; class
 *              targets and ids i32, other targets f32; cond and mask bool.
 *   classes    of scores lie last in memory: the last dim of ROW scores, dim 1
 *              of channels-last ones; all else are rows, one target each.
 *   values     NaN and inf go through as IEEE 754 says; no flush to zero.
 *   order      the same bits for the same signature and thread count.
 *   failure    run cannot fail. prepare returns ERR_NOMEM or ERR_UNSUPPORTED.
 *   memory     run allocates nothing; it may use `workspace` (64-byte aligned,
 *              of the announced size, contents undefined).
 * NULL in a slot means "not here"; see backend.h for who steps in.
 */
#ifndef KERNELS_KERNEL_H
#define KERNELS_KERNEL_H

#include "kernels/op.h"
#include "proto/err.h"

struct kernel_sig {
    enum op op;
    union op_params params;
    int n_in, n_out;
    struct tensor_desc in[OP_MAX_IN];
    struct tensor_desc out[OP_MAX_OUT];
    int threads; /* >= 1: OpenMP threads to use */
};

/* The numbers that random kernels are keyed by; see kernels/philox.h. */
struct kernel_step {
    uint64_t seed;
    uint64_t iteration;   /* 1-based */
    uint32_t micro_batch; /* 0-based in the window */
};

struct kernel_call {
    const struct kernel_sig *sig;
    void *state; /* from prepare, or NULL */
    const void *in[OP_MAX_IN];
    void *out[OP_MAX_OUT];
    void *workspace;
    const struct kernel_step *step;
};

struct kernel {
    /* NULL: every signature that ops.def allows. */
    bool (*supports)(const struct kernel_sig *sig);
    /* NULL: no state. */
    int (*prepare)(const struct kernel_sig *sig, void **state, struct err *err);
    /* NULL: no workspace. */
    size_t (*workspace_bytes)(const struct kernel_sig *sig, void *state);
    void (*run)(const struct kernel_call *call);
    void (*release)(void *state); /* NULL with prepare NULL */
};

/* ---- kernels over the flat blocks of parameters ---------------------------
 * n elements of float32, 64-byte aligned. Work is cut into chunks of
 * KERNEL_CHUNK elements whatever the thread count, and chunk results are
 * joined in order, so sums do not depend on threads. */
#define KERNEL_CHUNK 16384

struct kernel_unscale {
    bool found_inf;     /* a non-finite element before or after */
    double sum_squares; /* of the unscaled gradients */
};

struct kernel_sgd {
    float lr, momentum, dampening, weight_decay;
    bool nesterov;
    bool first; /* momentum buffer starts as the gradient (PyTorch) */
};
/* In double: 1 - beta2 is small, and from a rounded 0.999f it would be wrong by
 * 1e-5 of itself. Each number of the formula is rounded once. */
struct kernel_adam {
    double lr, beta1, beta2, eps, weight_decay;
    bool decoupled; /* AdamW */
    int64_t t;      /* this update's number, 1-based */
};

struct kernel_adagrad {
    double lr, lr_decay, weight_decay, eps;
    int64_t t; /* this update's number, 1-based */
};
struct kernel_rmsprop {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered;
};
struct kernel_lion { /* Chen et al., "Symbolic discovery of optimization
                        algorithms", 2023, algorithm 2 */
    double lr, beta1, beta2, weight_decay; /* decay is decoupled */
};

struct kernel_flat {
    /* g *= inverse (untouched when inverse is exactly 1); whole range. */
    void (*unscale)(float *g, int64_t n, float inverse, int threads,
                    struct kernel_unscale *result);
    /* Gradients enter as g x clip, rounded to float32 once; clip 1 leaves them
     * as they are. PyTorch's formulas (torch.optim), in float32. */
    void (*sgd)(float *w, const float *g, float *momentum, int64_t n,
                float clip, const struct kernel_sgd *p, int threads);
    void (*adam)(float *w, const float *g, float *m, float *v, int64_t n,
                 float clip, const struct kernel_adam *p, int threads);
    void (*adagrad)(float *w, const float *g, float *sum, int64_t n, float clip,
                    const struct kernel_adagrad *p, int threads);
    /* momentum: NULL when p->momentum is 0; mean: NULL unless centered. */
    void (*rmsprop)(float *w, const float *g, float *square, float *momentum,
                    float *mean, int64_t n, float clip,
                    const struct kernel_rmsprop *p, int threads);
    void (*lion)(float *w, const float *g, float *m, int64_t n, float clip,
                 const struct kernel_lion *p, int threads);
    /* ema += (1 - decay) x (w - ema). */
    void (*ema)(float *ema, const float *w, int64_t n, double decay,
                int threads);
    /* Position of the first non-finite element, or -1. Any float dtype. */
    int64_t (*find_nonfinite)(const void *x, enum dtype dtype, int64_t n,
                              int threads);
};

struct kernel_table {
    const char *name; /* "cpu", "dnnl" */
    const struct kernel *op[OP_COUNT];
    struct kernel_flat flat; /* members may be NULL like slots */
    /* Names what else decides about bits, such as a library's version and the
     * instructions that it takes. NULL: our code alone, the same anywhere. */
    void (*describe)(char *text, size_t size);
};

#endif
