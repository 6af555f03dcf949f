/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/cases.h"

void
cases_upsample(const struct cases_maker *m)
{
    static const int64_t shapes[][6] = {
        /* images, channels, height, width, to height, width */
        {0, 3, 4, 4, 8, 8},    {1, 1, 1, 1, 1, 1},      {2, 3, 1, 1, 5, 4},
        {2, 3, 4, 5, 8, 10},   {2, 5, 7, 3, 7, 11},     {1, 2, 9, 8, 4, 3},
        {3, 1, 5, 6, 1, 1},    {2, 33, 6, 6, 17, 13},   {1, 2, 10, 10, 3, 29},
        {2, 1100, 2, 3, 3, 2}, {2, 16, 40, 30, 64, 60}, {1, 1, 3, 3, 3, 3},
    };

    for (int i = 0; i < (int)(sizeof(shapes) / sizeof(shapes[0])); i++)
        for (int mode = 0; mode < 3; mode++) {
            const int64_t *s = shapes[i];
            const struct tensor_desc x =
                tensor_make_nhwc(m->t, s[0], s[1], s[2], s[3]);
            const struct tensor_desc y =
                tensor_make_nhwc(m->t, s[0], s[1], s[4], s[5]);
            struct kcase c = cases_start(m);

            c.sig.params.upsample.mode =
                mode == 0 ? OP_UPSAMPLE_NEAREST : OP_UPSAMPLE_BILINEAR;
            c.sig.params.upsample.align_corners = mode == 2;
            c.sig.in[0] = m->op == OP_UPSAMPLE ? x : y;
            c.sig.out[0] = m->op == OP_UPSAMPLE ? y : x;
            m->fn(m->ctx, &c);
            c.fill[0] = CHECK_SUMMED;
            m->fn(m->ctx, &c);
        }
}
