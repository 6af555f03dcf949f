/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/relu.h"

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"

#define CHUNK 16384

/* out where u is above zero or NaN, which of negative sign is above -inf as an
 * unsigned number, else 0. */
#define WHERE_ABOVE(u, inf, out)                                               \
    ((int16_t)(u) > 0 ? (out) : (u) > (uint16_t)(0x8000 | (inf)) ? (out) : 0)

CPU_CLONES static void
forward(const uint16_t *x, uint16_t *y, int64_t n, uint16_t inf)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = WHERE_ABOVE(x[i], inf, x[i]);
}

CPU_CLONES static void
backward(const uint16_t *dy, const uint16_t *y, uint16_t *dx, int64_t n,
         uint16_t inf)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const uint16_t d = dy[i];

        dx[i] = WHERE_ABOVE(y[i], inf, d);
    }
}

static void
chunk(const void *ctx, int64_t item)
{
    const struct kernel_call *call = ctx;
    const struct tensor_desc *t = &call->sig->out[0];
    const int64_t n = tensor_n_elems(t), at = item * CHUNK;
    const int64_t len = n - at < CHUNK ? n - at : (int64_t)CHUNK;
    const uint16_t inf = t->dtype == DTYPE_F16 ? 0x7c00 : 0x7f80;
    uint16_t *out = (uint16_t *)call->out[0] + at;

    if (call->sig->op == OP_RELU)
        forward((const uint16_t *)call->in[0] + at, out, len, inf);
    else
        backward((const uint16_t *)call->in[0] + at,
                 (const uint16_t *)call->in[1] + at, out, len, inf);
}

static bool
supports(const struct kernel_sig *sig)
{
    for (int i = 0; i < sig->n_in; i++)
        if (sig->in[i].dtype != sig->out[0].dtype ||
            sig->in[i].layout != sig->out[0].layout ||
            !tensor_same_shape(&sig->in[i], &sig->out[0]))
            return false;
    return dtype_is_half(sig->out[0].dtype);
}

static void
run(const struct kernel_call *call)
{
    const int64_t n = tensor_n_elems(&call->sig->out[0]);

    parallel_run((n + CHUNK - 1) / CHUNK, n, call->sig->threads, chunk, call);
}

const struct kernel relu_forward = {.supports = supports, .run = run};
const struct kernel relu_backward = {.supports = supports, .run = run};
