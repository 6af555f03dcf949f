/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>
#include <stdlib.h>

/* Every product x w of a convolution belongs to one y: all three ops are the
 * same walk, which adds the third of the trio. */
struct walk {
    const struct tensor_desc *x, *w, *y;
    const double *xv, *wv, *yv; /* the one that is summed is NULL */
    double *out, *mag;
};

static void
add_term(const struct walk *k, int64_t x, int64_t w, int64_t y)
{
    const int64_t to = k->yv == NULL ? y : k->xv == NULL ? x : w;
    const double a = k->yv == NULL ? k->xv[x] : k->yv[y];
    const double b = k->wv != NULL ? k->wv[w] : k->xv[x];

    k->out[to] += a * b;
    k->mag[to] += fabs(a * b);
}

/* All terms of output pixel (n, o, p, q). */
static void
walk_pixel(const struct walk *k, const union op_params *params, int64_t n,
           int64_t o, int64_t p, int64_t q)
{
    const int64_t cg = k->w->dim[1];
    const int64_t og = k->w->dim[0] / params->conv.groups;
    const int64_t y = golden_at(k->y, n, o, p, q);

    for (int64_t c = 0; c < cg; c++)
        for (int64_t i = 0; i < k->w->dim[2]; i++)
            for (int64_t j = 0; j < k->w->dim[3]; j++) {
                const int64_t h = p * params->conv.stride[0] -
                                  params->conv.padding[0] +
                                  i * params->conv.dilation[0];
                const int64_t w = q * params->conv.stride[1] -
                                  params->conv.padding[1] +
                                  j * params->conv.dilation[1];

                if (h < 0 || h >= k->x->dim[2] || w < 0 || w >= k->x->dim[3])
                    continue;
                add_term(k, golden_at(k->x, n, o / og * cg + c, h, w),
                         golden_at(k->w, o, c, i, j), y);
            }
}

void
golden_conv(const struct golden *g)
{
    const struct kernel_sig *sig = g->sig;
    const int64_t n_out = tensor_n_elems(&sig->out[0]);
    struct walk k = {.out = g->out[0], .mag = g->mag[0]};

    for (int64_t i = 0; i < n_out; i++)
        k.out[i] = 0;
    if (sig->op == OP_CONV2D) {
        k.x = &sig->in[0], k.xv = g->in[0];
        k.w = &sig->in[1], k.wv = g->in[1];
        k.y = &sig->out[0];
    } else if (sig->op == OP_CONV2D_DX) {
        k.y = &sig->in[0], k.yv = g->in[0];
        k.w = &sig->in[1], k.wv = g->in[1];
        k.x = &sig->out[0];
    } else {
        k.y = &sig->in[0], k.yv = g->in[0];
        k.x = &sig->in[1], k.xv = g->in[1];
        k.w = &sig->out[0];
    }
    for (int64_t n = 0; n < k.y->dim[0]; n++)
        for (int64_t o = 0; o < k.y->dim[1]; o++)
            for (int64_t p = 0; p < k.y->dim[2]; p++)
                for (int64_t q = 0; q < k.y->dim[3]; q++) {
                    const int64_t at = golden_at(k.y, n, o, p, q);

                    walk_pixel(&k, &sig->params, n, o, p, q);
                    if (sig->op == OP_CONV2D && g->in[2] != NULL) {
                        k.out[at] += g->in[2][o];
                        k.mag[at] += fabs(g->in[2][o]);
                    }
                }
}
