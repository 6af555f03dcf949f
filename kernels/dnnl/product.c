/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/product.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dnnl/onednn.h"

#define ALIGN         64
#define CONVERT_CHUNK 16384
#define NOWHERE       SIZE_MAX

/* One tensor on its way between the caller's memory and the primitive. */
struct leg {
    enum dtype ours, theirs; /* NONE: absent */
    int64_t n;
    struct onednn *reorder; /* owned; NULL: formats are the same */
    size_t converted_at;    /* in the workspace; NOWHERE: not converted */
    size_t reordered_at;
};

struct product {
    int threads;
    struct onednn *prim; /* owned */
    struct leg leg[PDESC_MAX];
    size_t scratch_at, bytes;
};

/* Tensor i of the problem in the signature; NULL: absent. */
static const struct tensor_desc *
tensor_of(const struct kernel_sig *sig, int i)
{
    if (i == PDESC_OUT)
        return &sig->out[0];
    if (i >= sig->n_in || sig->in[i].dtype == DTYPE_NONE)
        return NULL;
    return &sig->in[i];
}

static bool
dtypes_known(const struct kernel_sig *sig)
{
    for (int i = 0; i < PDESC_MAX; i++) {
        const struct tensor_desc *t = tensor_of(sig, i);

        if (t == NULL)
            continue;
        if (t->dtype != DTYPE_F32 && !dtype_is_half(t->dtype))
            return false;
        if (tensor_n_elems(t) == 0)
            return false;
    }
    return true;
}

static bool
is_native(const struct kernel_sig *sig, enum product_native native)
{
    if (sig->in[0].dtype != DTYPE_BF16 || sig->in[1].dtype != DTYPE_BF16)
        return false;
    return native == PRODUCT_NATIVE_ALWAYS ? onednn_has_bf16()
                                           : onednn_bf16_pays();
}

/* A weight gradient is float32 on the way even when it ends in half, because
 * oneDNN sums its parts (threads, images) in the output's dtype. */
static bool
keeps_bf16(const struct kernel_sig *sig, int i)
{
    const struct tensor_desc *t = tensor_of(sig, i);

    if (t->dtype != DTYPE_BF16)
        return false;
    return i != PDESC_OUT ||
           (sig->op != OP_LINEAR_DW && sig->op != OP_CONV2D_DW);
}

static bool
describe_all(const struct kernel_sig *sig, product_describe_fn *describe,
             enum product_native native, struct pdesc_problem *problem)
{
    const bool bf16 = is_native(sig, native);

    if (!dtypes_known(sig) || !describe(sig, problem))
        return false;
    for (int i = 0; i < PDESC_MAX; i++) {
        if (tensor_of(sig, i) == NULL)
            problem->tensor[i].dtype = DTYPE_NONE;
        else
            problem->tensor[i].dtype =
                bf16 && keeps_bf16(sig, i) ? DTYPE_BF16 : DTYPE_F32;
    }
    return true;
}

bool
product_supports(const struct kernel_sig *sig, product_describe_fn *describe,
                 enum product_native native)
{
    struct pdesc_problem problem = {0};
    struct err err;

    return describe_all(sig, describe, native, &problem) &&
           onednn_check(&problem, sig->threads, &err) == 0;
}

/* ---- the plan ------------------------------------------------------------- */

static size_t
take(struct product *p, size_t bytes)
{
    const size_t at = p->bytes;

    p->bytes += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

static int
plan_leg(struct product *p, const struct kernel_sig *sig,
         const struct pdesc_problem *problem, int i, struct err *err)
{
    struct leg *leg = &p->leg[i];
    const struct tensor_desc *t = tensor_of(sig, i);
    int rc;

    leg->converted_at = leg->reordered_at = NOWHERE;
    if (t == NULL)
        return 0;
    leg->ours = t->dtype;
    leg->theirs = problem->tensor[i].dtype;
    leg->n = tensor_n_elems(t);
    if (leg->ours != leg->theirs)
        leg->converted_at =
            take(p, (size_t)leg->n * dtype_size_bytes(leg->theirs));
    if (!problem->tensor[i].any)
        return 0;
    rc = onednn_create_reorder(p->prim, problem, i, i != PDESC_OUT,
                               &leg->reorder, err);
    if (rc == 0 && leg->reorder != NULL)
        leg->reordered_at = take(p, onednn_tensor_bytes(p->prim, i));
    return rc;
}

/* The scratchpad is shared: stages run one after the other. */
static void
plan_scratch(struct product *p)
{
    size_t most = onednn_scratch_bytes(p->prim);

    for (int i = 0; i < PDESC_MAX; i++) {
        const struct onednn *r = p->leg[i].reorder;

        if (r != NULL && onednn_scratch_bytes(r) > most)
            most = onednn_scratch_bytes(r);
    }
    p->scratch_at = take(p, most);
}

int
product_prepare(const struct kernel_sig *sig, product_describe_fn *describe,
                enum product_native native, void **state, struct err *err)
{
    struct pdesc_problem problem = {0};
    struct product *p = NULL;
    int rc = 0;

    *state = NULL;
    if (!describe_all(sig, describe, native, &problem))
        return err_set(err, ERR_UNSUPPORTED, "oneDNN: cannot take this %s",
                       op_info(sig->op)->name);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(err, ERR_NOMEM, "oneDNN: state of %s",
                       op_info(sig->op)->name);
    p->threads = sig->threads;
    rc = onednn_create(&problem, sig->threads, &p->prim, err);
    for (int i = 0; i < PDESC_MAX && rc == 0; i++)
        rc = plan_leg(p, sig, &problem, i, err);
    if (rc != 0) {
        product_release(p);
        return rc;
    }
    plan_scratch(p);
    *state = p;
    return 0;
}

void
product_release(void *state)
{
    struct product *p = state;

    if (p == NULL)
        return;
    for (int i = 0; i < PDESC_MAX; i++)
        onednn_destroy(&p->leg[i].reorder);
    onednn_destroy(&p->prim);
    free(p);
}

size_t
product_workspace_bytes(const struct kernel_sig *sig, void *state)
{
    const struct product *p = state;

    (void)sig;
    return p->bytes;
}

/* ---- the run -------------------------------------------------------------- */

struct conversion {
    const void *src;
    void *dst;
    enum dtype from, to;
    int64_t n;
};

static void
convert_chunk(const void *ctx, int64_t item)
{
    const struct conversion *c = ctx;
    const int64_t at = item * CONVERT_CHUNK;
    const int64_t n =
        c->n - at < CONVERT_CHUNK ? c->n - at : (int64_t)CONVERT_CHUNK;
    const char *src =
        (const char *)c->src + (size_t)at * dtype_size_bytes(c->from);
    char *dst = (char *)c->dst + (size_t)at * dtype_size_bytes(c->to);

    if (c->to == DTYPE_F32)
        convert_to_f32((float *)(void *)dst, src, c->from, n);
    else
        convert_from_f32(dst, c->to, (const float *)(const void *)src, n);
}

static void
convert_all(const struct conversion *c, int threads)
{
    assert(c->from == DTYPE_F32 || c->to == DTYPE_F32);
    parallel_run((c->n + CONVERT_CHUNK - 1) / CONVERT_CHUNK, c->n, threads,
                 convert_chunk, c);
}

/* onednn_run() takes tensors that it only reads without const. */
static void *
unconst(const void *p)
{
    union {
        const void *in;
        void *out;
    } u = {.in = p};

    return u.out;
}

/* Where the primitive reads tensor i, made ready. */
static void *
bring(const struct product *p, int i, const void *from, char *workspace)
{
    const struct leg *leg = &p->leg[i];
    void *at = unconst(from);

    if (leg->converted_at != NOWHERE) {
        const struct conversion c = {at, workspace + leg->converted_at,
                                     leg->ours, leg->theirs, leg->n};

        convert_all(&c, p->threads);
        at = c.dst;
    }
    if (leg->reorder != NULL) {
        void *data[PDESC_MAX] = {at, workspace + leg->reordered_at};

        onednn_run(leg->reorder, data, workspace + p->scratch_at);
        at = data[1];
    }
    return at;
}

/* Where the primitive writes its output. */
static void *
landing(const struct product *p, void *to, char *workspace)
{
    const struct leg *leg = &p->leg[PDESC_OUT];

    if (leg->reorder != NULL)
        return workspace + leg->reordered_at;
    if (leg->converted_at != NOWHERE)
        return workspace + leg->converted_at;
    return to;
}

/* From there to the caller. */
static void
carry(const struct product *p, void *from, void *to, char *workspace)
{
    const struct leg *leg = &p->leg[PDESC_OUT];
    const bool converts = leg->converted_at != NOWHERE;

    if (leg->reorder != NULL) {
        void *data[PDESC_MAX] = {from,
                                 converts ? workspace + leg->converted_at : to};

        onednn_run(leg->reorder, data, workspace + p->scratch_at);
        from = data[1];
    }
    if (converts) {
        const struct conversion c = {from, to, leg->theirs, leg->ours, leg->n};

        convert_all(&c, p->threads);
    }
}

void
product_run(const struct kernel_call *call)
{
    const struct product *p = call->state;
    char *workspace = call->workspace;
    void *data[PDESC_MAX] = {NULL};

    for (int i = 0; i < PDESC_OUT; i++)
        if (p->leg[i].ours != DTYPE_NONE)
            data[i] = bring(p, i, call->in[i], workspace);
    data[PDESC_OUT] = landing(p, call->out[0], workspace);
    onednn_run(p->prim, data, workspace + p->scratch_at);
    carry(p, data[PDESC_OUT], call->out[0], workspace);
}
