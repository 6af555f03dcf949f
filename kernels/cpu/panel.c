/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/panel.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/parallel.h"

/* Tiles of C. */
#define PANEL_ROWS 8
#define PANEL_COLS 32

static int64_t
n_tiles(const struct panel_factor *f)
{
    return (f->n + f->width - 1) / f->width;
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- packing ------------------------------------------------------------- */

/* Lines of the panel are runs of the factor (i_step is 1). */
static void
pack_runs(const struct panel_factor *f, int64_t k, int64_t i0, int64_t n,
          float *to)
{
    for (int64_t j = 0; j < k; j++, to += f->width) {
        convert_to_f32(to,
                       (const char *)f->data + (size_t)(i0 + j * f->k_step) *
                                                   dtype_size_bytes(f->dtype),
                       f->dtype, n);
        for (int64_t i = n; i < f->width; i++)
            to[i] = 0;
    }
}

/* Columns of the panel are runs of the factor (k_step is 1). */
static void
pack_across(const struct panel_factor *f, int64_t k, int64_t i0, int64_t n,
            float *to)
{
    if (n < f->width)
        memset(to, 0, (size_t)(k * f->width) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j += CONVERT_BLOCK) {
            const int64_t len = smaller(CONVERT_BLOCK, k - j);
            float buf[CONVERT_BLOCK];
            const float *run = convert_view(f->data, f->dtype,
                                            (i0 + i) * f->i_step + j, len, buf);

            for (int64_t l = 0; l < len; l++)
                to[(j + l) * f->width + i] = run[l];
        }
}

static void
pack_tile(const struct panel_factor *f, int64_t k, int64_t tile)
{
    const int64_t i0 = tile * f->width, n = smaller(f->width, f->n - i0);
    float *to = f->panel + tile * k * f->width;

    if (f->i_step == 1)
        pack_runs(f, k, i0, n, to);
    else
        pack_across(f, k, i0, n, to);
}

static void
pack_item(const void *ctx, int64_t item)
{
    const struct panel_product *p = ctx;
    const int64_t a_tiles = n_tiles(&p->a);

    if (item < a_tiles)
        pack_tile(&p->a, p->k, item);
    else
        pack_tile(&p->b, p->k, item - a_tiles);
}

/* ---- tiles --------------------------------------------------------------- */

CPU_CLONES static void
multiply_tile(const float *a, const float *b, int64_t k,
              float c[PANEL_ROWS][PANEL_COLS])
{
    memset(c, 0, PANEL_ROWS * sizeof(c[0]));
    for (int64_t j = 0; j < k; j++, a += PANEL_ROWS, b += PANEL_COLS)
        for (int m = 0; m < PANEL_ROWS; m++) {
#pragma omp simd
            for (int n = 0; n < PANEL_COLS; n++)
                c[m][n] += a[m] * b[n];
        }
}

static void
multiply_item(const void *ctx, int64_t a_tile)
{
    const struct panel_product *p = ctx;
    const int64_t m0 = a_tile * PANEL_ROWS,
                  n_rows = smaller(PANEL_ROWS, p->a.n - m0);
    const size_t size = dtype_size_bytes(p->c_dtype);

    for (int64_t b_tile = 0; b_tile < n_tiles(&p->b); b_tile++) {
        const int64_t n0 = b_tile * PANEL_COLS,
                      n_cols = smaller(PANEL_COLS, p->b.n - n0);
        float c[PANEL_ROWS][PANEL_COLS];

        multiply_tile(p->a.panel + a_tile * p->k * PANEL_ROWS,
                      p->b.panel + b_tile * p->k * PANEL_COLS, p->k, c);
        for (int64_t i = 0; i < n_rows; i++) {
            if (p->bias != NULL)
                for (int64_t j = 0; j < n_cols; j++)
                    c[i][j] += convert_get(p->bias, p->bias_dtype, n0 + j);
            convert_from_f32((char *)p->c +
                                 (size_t)((m0 + i) * p->b.n + n0) * size,
                             p->c_dtype, c[i], n_cols);
        }
    }
}

/* ---- the whole ----------------------------------------------------------- */

static int64_t
panel_elems(const struct panel_product *p, const struct panel_factor *f)
{
    return n_tiles(f) * p->k * f->width;
}

static void
set_widths(struct panel_product *p)
{
    assert(p->a.i_step == 1 || p->a.k_step == 1);
    assert(p->b.i_step == 1 || p->b.k_step == 1);
    p->a.width = PANEL_ROWS;
    p->b.width = PANEL_COLS;
}

size_t
panel_workspace_bytes(const struct panel_product *product)
{
    struct panel_product p = *product;

    set_widths(&p);
    return (size_t)(panel_elems(&p, &p.a) + panel_elems(&p, &p.b)) *
           sizeof(float);
}

void
panel_multiply(const struct panel_product *product, float *workspace,
               int threads)
{
    struct panel_product p = *product;
    const int64_t work = p.a.n * p.b.n * (p.k / 8 + 1);

    set_widths(&p);
    p.b.panel = workspace; /* first: lines are cache lines */
    p.a.panel = p.b.panel + panel_elems(&p, &p.b);
    if (p.a.n == 0 || p.b.n == 0)
        return;
    if (p.k > 0)
        parallel_run(n_tiles(&p.a) + n_tiles(&p.b), work, threads, pack_item,
                     &p);
    parallel_run(n_tiles(&p.a), work, threads, multiply_item, &p);
}
