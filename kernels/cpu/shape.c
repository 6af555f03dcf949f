/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/shape.h"

#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"

#define TILE 16

struct move {
    const char *src;
    char *dst;
    int64_t rows, cols; /* of one image of src; dst has them swapped */
    size_t elem_bytes;
};

/* dst[c][r] = src[r][c] for a tile at (r0, c0). */
#define TRANSPOSE_TILE(name, type)                                             \
    CPU_CLONES static void name(const type *src, type *dst, int64_t rows,      \
                                int64_t cols, int64_t r0, int64_t c0)          \
    {                                                                          \
        const int64_t nr = rows - r0 < TILE ? rows - r0 : TILE;                \
        const int64_t nc = cols - c0 < TILE ? cols - c0 : TILE;                \
                                                                               \
        for (int64_t c = c0; c < c0 + nc; c++)                                 \
            for (int64_t r = r0; r < r0 + nr; r++)                             \
                dst[c * rows + r] = src[r * cols + c];                         \
    }

TRANSPOSE_TILE(transpose_u16, uint16_t)
TRANSPOSE_TILE(transpose_u32, uint32_t)

static void
move_image(const void *ctx, int64_t image)
{
    const struct move *m = ctx;
    const int64_t at = image * m->rows * m->cols;

    for (int64_t r = 0; r < m->rows; r += TILE)
        for (int64_t c = 0; c < m->cols; c += TILE) {
            if (m->elem_bytes == 2)
                transpose_u16((const uint16_t *)(const void *)m->src + at,
                              (uint16_t *)(void *)m->dst + at, m->rows, m->cols,
                              r, c);
            else
                transpose_u32((const uint32_t *)(const void *)m->src + at,
                              (uint32_t *)(void *)m->dst + at, m->rows, m->cols,
                              r, c);
        }
}

static bool
supports(const struct kernel_sig *sig)
{
    const struct tensor_desc *in = &sig->in[0], *out = &sig->out[0];
    const size_t size = dtype_size_bytes(in->dtype);

    return in->dtype == out->dtype && (size == 2 || size == 4) &&
           (in->layout == TENSOR_ROW || out->layout == TENSOR_ROW) &&
           tensor_n_elems(in) == tensor_n_elems(out);
}

static void
run(const struct kernel_call *call)
{
    const struct tensor_desc *in = &call->sig->in[0], *out = &call->sig->out[0];
    const struct tensor_desc *image = in->layout == TENSOR_NHWC ? in : out;
    const int64_t n = tensor_n_elems(in);
    struct move m = {.src = call->in[0],
                     .dst = call->out[0],
                     .elem_bytes = dtype_size_bytes(in->dtype)};

    if (n == 0)
        return;
    if (image->layout == TENSOR_ROW || image->dim[1] == 1 ||
        image->dim[2] * image->dim[3] == 1) {
        memcpy(m.dst, m.src, tensor_n_bytes(in));
        return;
    }
    /* Flatten: (H W, C) to (C, H W); unflatten: the way back. */
    m.rows = image == in ? image->dim[2] * image->dim[3] : image->dim[1];
    m.cols = image == in ? image->dim[1] : image->dim[2] * image->dim[3];
    parallel_run(image->dim[0], n, call->sig->threads, move_image, &m);
}

const struct kernel shape_flatten = {.supports = supports, .run = run};
