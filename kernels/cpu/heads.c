/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/heads.h"

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"

/* The places of q, k, v and mask: behind dy in the gradient. */
static int
first_in(const struct kernel_sig *sig)
{
    return sig->op == OP_ATTENTION_BWD ? 1 : 0;
}

static void
set_mask(struct heads *h, const struct tensor_desc *mask)
{
    h->has_mask = mask->dtype != DTYPE_NONE;
    if (!h->has_mask)
        return;
    if (mask->rank == 3) {
        h->mask_b = mask->dim[1] * h->s;
        h->mask_t = mask->dim[1] == 1 ? 0 : h->s;
    } else if (mask->dim[0] == h->t) {
        h->mask_t = h->s;
    } else {
        h->mask_b = h->s;
    }
}

struct heads
heads_make(const struct kernel_sig *sig)
{
    const int at = first_in(sig);
    const struct tensor_desc *q = &sig->in[at], *k = &sig->in[at + 1];
    struct heads h = {.packed = k->dtype == DTYPE_NONE, .dtype = q->dtype};
    int64_t channels = q->dim[2];

    h.causal = sig->params.attention.causal;
    h.scale = sig->params.attention.scale;
    h.p = sig->params.attention.p;
    h.b = q->dim[0];
    h.t = q->dim[1];
    h.s = h.packed ? h.t : k->dim[1];
    h.h = sig->params.attention.n_heads;
    h.q_step = h.kv_step = channels;
    if (h.packed) {
        channels /= 3;
        h.k_at = channels;
        h.v_at = 2 * channels;
    }
    h.d = h.h > 0 ? channels / h.h : 0;
    set_mask(&h, &sig->in[at + 3]);
    return h;
}

static bool
same_rows(const struct tensor_desc *a, const struct tensor_desc *b)
{
    return a->dtype == b->dtype && a->layout == TENSOR_ROW &&
           tensor_same_shape(a, b);
}

static bool
mask_fits(const struct kernel_sig *sig, const struct heads *h)
{
    const struct tensor_desc *m = &sig->in[first_in(sig) + 3];

    if (m->dtype == DTYPE_NONE)
        return true;
    if (m->dtype != DTYPE_BOOL || m->layout != TENSOR_ROW)
        return false;
    if (m->rank == 3)
        return m->dim[0] == h->b && m->dim[2] == h->s &&
               (m->dim[1] == h->t || m->dim[1] == 1);
    return m->rank == 2 && m->dim[1] == h->s &&
           (m->dim[0] == h->t || m->dim[0] == h->b);
}

bool
heads_supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *in = &sig->in[first_in(sig)];
    const struct tensor_desc *q = &in[0], *k = &in[1], *v = &in[2];
    const int64_t n_heads = sig->params.attention.n_heads;
    struct heads h;

    if (q->rank != 3 || q->layout != TENSOR_ROW || n_heads < 1 ||
        (q->dtype != DTYPE_F32 && !dtype_is_half(q->dtype)))
        return false;
    if (k->dtype == DTYPE_NONE) {
        if (v->dtype != DTYPE_NONE || q->dim[2] % (3 * n_heads) != 0)
            return false;
    } else if (k->rank != 3 || k->dtype != q->dtype || k->dim[0] != q->dim[0] ||
               k->dim[2] != q->dim[2] || !same_rows(k, v) ||
               q->dim[2] % n_heads != 0) {
        return false;
    }
    h = heads_make(sig);
    return mask_fits(sig, &h) && sig->out[0].dtype == q->dtype;
}

struct heads
heads_of_call(const struct kernel_call *call)
{
    const struct kernel_sig *sig = call->sig;
    const int at = first_in(sig);
    struct heads h = heads_make(sig);

    h.q = call->in[at];
    h.k = h.packed ? h.q : call->in[at + 1];
    h.v = h.packed ? h.q : call->in[at + 2];
    h.mask = call->in[at + 3];
    h.key = keyed_make(call->step, sig->params.attention.stream);
    h.drop = keyed_drop_make(h.p);
    return h;
}

int64_t
heads_limit(const struct heads *h, int64_t t)
{
    const int64_t limit = t + 1 + h->s - h->t;

    if (!h->causal)
        return h->s;
    return limit < 0 ? 0 : limit;
}

const uint8_t *
heads_mask_row(const struct heads *h, int64_t b, int64_t t)
{
    return h->mask == NULL ? NULL : h->mask + b * h->mask_b + t * h->mask_t;
}

int64_t
heads_q_at(const struct heads *h, int64_t b, int64_t i, int64_t t)
{
    return (b * h->t + t) * h->q_step + i * h->d;
}

int64_t
heads_kv_at(const struct heads *h, int64_t b, int64_t i, int64_t s)
{
    return (b * h->s + s) * h->kv_step + i * h->d;
}

int64_t
heads_y_at(const struct heads *h, int64_t b, int64_t i, int64_t t)
{
    return ((b * h->t + t) * h->h + i) * h->d;
}

CPU_CLONES static void
drop_words(const uint32_t *word, float *w, int64_t n, uint32_t threshold,
           float scale)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float v = w[j] * scale;

        w[j] = word[j] >> 8 >= threshold ? v : 0.0f;
    }
}

void
heads_drop(const struct heads *h, int64_t b, int64_t i, int64_t t, float *w,
           int64_t n)
{
    const int64_t row = ((b * h->h + i) * h->t + t) * h->s;
    uint32_t word[CONVERT_BLOCK + 32];

    for (int64_t s = 0; s < n; s += CONVERT_BLOCK) {
        const int64_t len = n - s < CONVERT_BLOCK ? n - s : CONVERT_BLOCK;
        const int64_t skip = (row + s) % 4; /* words of a group in front */
        const int64_t groups = (skip + len + 31) / 32 * 8;

        keyed_words(&h->key, (uint32_t)((row + s) / 4), groups, word);
        drop_words(word + skip, w + s, len, h->drop.threshold, h->drop.scale);
    }
}
