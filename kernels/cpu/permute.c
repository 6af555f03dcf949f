/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/permute.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/parallel.h"

#define ITEM_ELEMS 16384 /* about so many elements make an item */
#define LINE_BYTES 64

/* What every item shares. Runs: the last dim is copied as it lies. Blocks:
 * dims j (stride 1 in src) and the last one change places. The other dims are
 * `outer`. */
struct plan {
    struct permute p;
    int64_t dst_stride[TENSOR_MAX_RANK];
    int outer[TENSOR_MAX_RANK];
    int n_outer;
    int64_t run;       /* runs: elements that lie side by side */
    int j;             /* blocks: the dim of src's stride 1 */
    int64_t width;     /* blocks: of dim j in one strip */
    int64_t n_strips;  /* blocks: of one outer index */
    int64_t n_units;   /* runs, or strips of all outer indices */
    int64_t unit_item; /* units in an item */
};

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Without dims of size 1, and dims that follow each other in src too made
 * one. */
static struct permute
simplify(const struct permute *p)
{
    struct permute s = *p;

    s.rank = 0;
    for (int i = 0; i < p->rank; i++) {
        const int last = s.rank - 1;

        if (p->dim[i] == 1)
            continue;
        if (s.rank > 0 && s.stride[last] == p->stride[i] * p->dim[i]) {
            s.dim[last] *= p->dim[i];
            s.stride[last] = p->stride[i];
            continue;
        }
        s.dim[s.rank] = p->dim[i];
        s.stride[s.rank++] = p->stride[i];
    }
    return s;
}

/* Where outer index number i begins. */
static void
outer_at(const struct plan *k, int64_t i, int64_t *src, int64_t *dst)
{
    *src = *dst = 0;
    for (int d = k->n_outer - 1; d >= 0; d--) {
        const int axis = k->outer[d];
        const int64_t index = i % k->p.dim[axis];

        i /= k->p.dim[axis];
        *src += index * k->p.stride[axis];
        *dst += index * k->dst_stride[axis];
    }
}

static const char *
src_at(const struct plan *k, int64_t at)
{
    return (const char *)k->p.src + (size_t)at * k->p.elem_bytes;
}

static char *
dst_at(const struct plan *k, int64_t at)
{
    return (char *)k->p.dst + (size_t)at * k->p.elem_bytes;
}

/* ---- runs ---------------------------------------------------------------- */

static void
copy_runs(const void *ctx, int64_t item)
{
    const struct plan *k = ctx;
    const int64_t begin = item * k->unit_item;
    const int64_t end = smaller(begin + k->unit_item, k->n_units);

    for (int64_t i = begin; i < end; i++) {
        int64_t src, dst;

        outer_at(k, i, &src, &dst);
        memcpy(dst_at(k, dst), src_at(k, src),
               (size_t)k->run * k->p.elem_bytes);
    }
}

static void
copy_piece(const void *ctx, int64_t item)
{
    const struct plan *k = ctx;
    const int64_t begin = item * ITEM_ELEMS;

    memcpy(dst_at(k, begin), src_at(k, begin),
           (size_t)smaller(ITEM_ELEMS, k->run - begin) * k->p.elem_bytes);
}

/* ---- blocks: dst[j][i] = src[i][j] ---------------------------------------- */

#define PLAIN_BLOCK(name, type)                                                \
    static void name(const void *from, int64_t src_stride, void *to,           \
                     int64_t dst_stride, int64_t n_i, int64_t n_j)             \
    {                                                                          \
        const type *src = from;                                                \
        type *dst = to;                                                        \
                                                                               \
        for (int64_t j = 0; j < n_j; j++)                                      \
            for (int64_t i = 0; i < n_i; i++)                                  \
                dst[j * dst_stride + i] = src[i * src_stride + j];             \
    }

PLAIN_BLOCK(plain_u8, uint8_t)
PLAIN_BLOCK(plain_u16, uint16_t)
PLAIN_BLOCK(plain_u32, uint32_t)

/* Whole squares, in registers: log2(n) rounds, in each of which vectors half
 * the square apart are interleaved. */
typedef uint16_t vec_u16 __attribute__((vector_size(16), may_alias));
typedef uint32_t vec_u32 __attribute__((vector_size(16), may_alias));

#define LOW_U16(a, b)  __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_U16(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW_U32(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH_U32(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

/* memcpy: rows need not be aligned. */
#define UNROLL _Pragma("GCC unroll 8")
#define SQUARE(name, type, vec, n, rounds, LOW, HIGH)                          \
    CPU_CLONES static void name(const void *from, int64_t src_stride,          \
                                void *to, int64_t dst_stride, int64_t n_i,     \
                                int64_t n_j)                                   \
    {                                                                          \
        for (int64_t j = 0; j < n_j; j += n)                                   \
            for (int64_t i = 0; i < n_i; i += n) {                             \
                const type *src = (const type *)from + i * src_stride + j;     \
                type *dst = (type *)to + j * dst_stride + i;                   \
                vec a[n], b[n];                                                \
                                                                               \
                UNROLL for (int r = 0; r < n; r++)                             \
                    memcpy(&a[r], src + r * src_stride, sizeof(vec));          \
                UNROLL for (int round = 0; round < rounds; round++)            \
                {                                                              \
                    UNROLL for (int r = 0; r < n / 2; r++)                     \
                    {                                                          \
                        b[2 * r] = LOW(a[r], a[r + n / 2]);                    \
                        b[2 * r + 1] = HIGH(a[r], a[r + n / 2]);               \
                    }                                                          \
                    UNROLL for (int r = 0; r < n; r++) a[r] = b[r];            \
                }                                                              \
                UNROLL for (int r = 0; r < n; r++)                             \
                    memcpy(dst + r * dst_stride, &a[r], sizeof(vec));          \
            }                                                                  \
    }

SQUARE(square_u16, uint16_t, vec_u16, 8, 3, LOW_U16, HIGH_U16)
SQUARE(square_u32, uint32_t, vec_u32, 4, 2, LOW_U32, HIGH_U32)

typedef void block_fn(const void *from, int64_t src_stride, void *to,
                      int64_t dst_stride, int64_t n_i, int64_t n_j);

static block_fn *
block_of(size_t elem_bytes, bool whole)
{
    switch (elem_bytes) {
    case 1: return plain_u8;
    case 2: return whole ? square_u16 : plain_u16;
    default: assert(elem_bytes == 4); return whole ? square_u32 : plain_u32;
    }
}

/* All of the last dim for `width` indices of dim j. */
static void
move_strip(const struct plan *k, int64_t outer, int64_t strip)
{
    const int last = k->p.rank - 1;
    const int64_t src_stride = k->p.stride[last];
    const int64_t dst_stride = k->dst_stride[k->j];
    const int64_t square = 16 / (int64_t)k->p.elem_bytes;
    const int64_t j = strip * k->width;
    const int64_t n_j = smaller(k->width, k->p.dim[k->j] - j);
    int64_t src, dst;

    outer_at(k, outer, &src, &dst);
    src += j;
    dst += j * dst_stride;
    for (int64_t i = 0; i < k->p.dim[last]; i += k->width) {
        const int64_t n_i = smaller(k->width, k->p.dim[last] - i);
        const bool whole = n_i % square == 0 && n_j % square == 0;

        block_of(k->p.elem_bytes, whole)(src_at(k, src + i * src_stride),
                                         src_stride, dst_at(k, dst + i),
                                         dst_stride, n_i, n_j);
    }
}

static void
move_strips(const void *ctx, int64_t item)
{
    const struct plan *k = ctx;
    const int64_t begin = item * k->unit_item;
    const int64_t end = smaller(begin + k->unit_item, k->n_units);

    for (int64_t i = begin; i < end; i++)
        move_strip(k, i / k->n_strips, i % k->n_strips);
}

/* ---- the plan ------------------------------------------------------------ */

static void
add_outer(struct plan *k, int axis)
{
    k->outer[k->n_outer++] = axis;
    k->n_units *= k->p.dim[axis];
}

static void
set_items(struct plan *k, int64_t unit_elems)
{
    k->unit_item = unit_elems < ITEM_ELEMS ? ITEM_ELEMS / unit_elems : 1;
}

static void
plan_blocks(struct plan *k)
{
    const int last = k->p.rank - 1;

    k->j = -1;
    for (int i = 0; i < last; i++)
        if (k->p.stride[i] == 1)
            k->j = i;
    assert(k->j >= 0); /* src is dense */
    for (int i = 0; i < last; i++)
        if (i != k->j)
            add_outer(k, i);
    k->width = LINE_BYTES / (int64_t)k->p.elem_bytes;
    k->n_strips = (k->p.dim[k->j] + k->width - 1) / k->width;
    k->n_units *= k->n_strips;
    set_items(k, smaller(k->width, k->p.dim[k->j]) * k->p.dim[last]);
}

void
permute_run(const struct permute *p, int threads)
{
    struct plan k = {.p = simplify(p), .n_units = 1};
    int64_t n = 1;

    for (int i = 0; i < p->rank; i++)
        n *= p->dim[i];
    if (n == 0)
        return;
    for (int i = k.p.rank - 1; i >= 0; i--)
        k.dst_stride[i] =
            i == k.p.rank - 1 ? 1 : k.dst_stride[i + 1] * k.p.dim[i + 1];
    if (k.p.rank <= 1) {
        assert(k.p.rank == 0 || k.p.stride[0] == 1);
        k.run = n;
        parallel_run((n + ITEM_ELEMS - 1) / ITEM_ELEMS, n, threads, copy_piece,
                     &k);
        return;
    }
    if (k.p.stride[k.p.rank - 1] == 1) {
        k.run = k.p.dim[k.p.rank - 1];
        for (int i = 0; i < k.p.rank - 1; i++)
            add_outer(&k, i);
        set_items(&k, k.run);
    } else {
        plan_blocks(&k);
    }
    parallel_run((k.n_units + k.unit_item - 1) / k.unit_item, n, threads,
                 k.p.stride[k.p.rank - 1] == 1 ? copy_runs : move_strips, &k);
}
