/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounding to half at every boundary there is: for each pair of neighbouring
 * halves their middle, the float32 next to it on both sides and next to both
 * halves; both signs; both half types; and every kind of NaN. What each must
 * become follows from the pair alone, without converting anything. Every way
 * by which a float32 becomes a half must give these bits: the scalar function,
 * each block path, the loops in front of them, the cast kernel of every
 * backend, and the rounding at the end of other kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "tests/kernels/check.h"

/* Five floats around each of at most 2^15 boundaries, both signs; NaNs. */
#define MAX_EDGES ((1 << 15) * 5 * 2 + 4096)

struct edges {
    enum dtype dtype;
    int64_t n, n_finite;              /* NaNs are the last ones */
    struct check_buf from, want, got; /* f32; halves */
};

static float
float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

static uint32_t
bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static void
add_edge(struct edges *e, uint32_t from, uint32_t want)
{
    for (uint32_t sign = 0; sign < 2; sign++) {
        assert_true(e->n < MAX_EDGES);
        ((uint32_t *)e->from.data)[e->n] = from | sign << 31;
        ((uint16_t *)e->want.data)[e->n++] = (uint16_t)(want | sign << 15);
    }
}

/* Between half h and the next; above the largest stands what would be next. */
static void
add_boundary(struct edges *e, uint16_t h)
{
    const uint16_t next = (uint16_t)(h + 1);
    const double low = check_get(&h, e->dtype, 0);
    const double middle = low + check_ulp(e->dtype, low) / 2;
    const uint32_t at = bits_of((float)middle);
    const uint16_t even = h % 2 == 0 ? h : next;

    assert_true((double)float_of(at) == middle);
    add_edge(e, bits_of((float)low), h);
    add_edge(e, bits_of((float)low) + 1, h);
    add_edge(e, at - 1, h);
    add_edge(e, at, even);
    add_edge(e, at + 1, next);
}

/* NaN becomes quiet, keeps its sign and the upper bits of its payload. */
static void
add_nans(struct edges *e)
{
    const int cut = e->dtype == DTYPE_F16 ? 13 : 16;
    const uint32_t top = e->dtype == DTYPE_F16 ? 0x7e00 : 0x7fc0;

    for (uint32_t i = 0; i < 23; i++)
        for (uint32_t j = 0; j <= i; j++) {
            const uint32_t payload = 1u << i | 1u << j;

            add_edge(e, 0x7f800000 | payload, top | payload >> cut);
        }
    add_edge(e, 0x7fffffff, top | 0x7fffff >> cut);
}

static void
edges_open(struct edges *e, enum dtype dtype)
{
    const uint16_t infinity = dtype == DTYPE_F16 ? 0x7c00 : 0x7f80;

    memset(e, 0, sizeof(*e));
    e->dtype = dtype;
    check_buf_make(&e->from, MAX_EDGES * sizeof(float));
    check_buf_make(&e->want, MAX_EDGES * sizeof(uint16_t));
    check_buf_make(&e->got, MAX_EDGES * sizeof(uint16_t));
    for (uint16_t h = 0; h < infinity; h++)
        add_boundary(e, h);
    add_edge(e, 0x7f7fffff, infinity); /* the largest float32 */
    add_edge(e, 0x7f800000, infinity);
    e->n_finite = e->n;
    add_nans(e);
}

static void
edges_close(struct edges *e)
{
    check_buf_free(&e->from);
    check_buf_free(&e->want);
    check_buf_free(&e->got);
}

static void
expect_edges(const struct edges *e, int64_t n, const char *path)
{
    for (int64_t i = 0; i < n; i++) {
        const uint16_t want = ((const uint16_t *)e->want.data)[i];
        const uint16_t got = ((const uint16_t *)e->got.data)[i];

        if (got != want)
            fail_msg("%s to %s: %08x becomes %04x, not %04x", path,
                     dtype_short_name(e->dtype),
                     ((const uint32_t *)e->from.data)[i], got, want);
    }
    memset(e->got.data, 0x5a, e->got.bytes);
}

static const enum dtype halves[] = {DTYPE_F16, DTYPE_BF16};

/* ---- converting ---------------------------------------------------------- */

static void
test_edges_scalar(void **state)
{
    struct edges e;

    (void)state;
    for (int t = 0; t < 2; t++) {
        edges_open(&e, halves[t]);
        assert_true(e.n_finite > 5 * 2 * 31000);
        for (int64_t i = 0; i < e.n; i++) {
            const float f = ((const float *)e.from.data)[i];
            const uint16_t h = halves[t] == DTYPE_F16 ? convert_f16_of_f32(f)
                                                      : convert_bf16_of_f32(f);

            ((uint16_t *)e.got.data)[i] = h;
        }
        expect_edges(&e, e.n, "scalar");
        edges_close(&e);
    }
}

/* In pieces of every length up to two vectors and more, so that the ends of
 * blocks, which are done one by one, meet every boundary somewhere. */
static void
convert_in_pieces(const struct edges *e,
                  void (*f)(uint16_t *dst, const float *src, int64_t n))
{
    int64_t length = 1;

    for (int64_t at = 0; at < e->n; at += length) {
        length = at % 67 + 1 < e->n - at ? at % 67 + 1 : e->n - at;
        f((uint16_t *)e->got.data + at, (const float *)e->from.data + at,
          length);
    }
}

static void
test_edges_block_paths(void **state)
{
    struct edges e;
    int n_used = 0;

    (void)state;
    for (int t = 0; t < 2; t++) {
        edges_open(&e, halves[t]);
        for (int p = 0; convert_path_at(p) != NULL; p++) {
            const struct convert_path *path = convert_path_at(p);

            if (!path->usable())
                continue;
            convert_in_pieces(&e, halves[t] == DTYPE_F16 ? path->f16_of_f32
                                                         : path->bf16_of_f32);
            expect_edges(&e, e.n, path->name);
            n_used++;
        }
        convert_from_f32(e.got.data, halves[t], e.from.data, e.n);
        expect_edges(&e, e.n, "convert_from_f32");
        for (int64_t i = 0; i < e.n; i++)
            convert_put(e.got.data, halves[t], i,
                        ((const float *)e.from.data)[i]);
        expect_edges(&e, e.n, "convert_put");
        edges_close(&e);
    }
    assert_true(n_used >= 2);
}

/* ---- kernels ------------------------------------------------------------- */

/* Runs sig on a backend, one thread or three. */
static void
run_kernel(const struct backend *backend, struct kernel_sig *sig,
           const void *const *in, void *out, int threads)
{
    static const struct kernel_step step = {.seed = 1, .iteration = 1};
    struct kernel_call call = {.sig = sig, .step = &step};
    struct check_buf workspace;
    const struct kernel *k;
    struct err err;

    sig->n_in = op_info(sig->op)->n_in;
    sig->n_out = op_info(sig->op)->n_out;
    sig->threads = threads;
    k = backend_find_kernel(backend, sig, NULL, &err);
    assert_non_null(k);
    if (k->prepare != NULL)
        assert_int_equal(k->prepare(sig, &call.state, &err), 0);
    check_buf_make(&workspace, k->workspace_bytes != NULL
                                   ? k->workspace_bytes(sig, call.state)
                                   : 0);
    for (int i = 0; i < sig->n_in; i++)
        call.in[i] = in[i];
    call.out[0] = out;
    call.workspace = workspace.data;
    k->run(&call);
    if (k->release != NULL)
        k->release(call.state);
    assert_true(check_buf_intact(&workspace));
    check_buf_free(&workspace);
}

static void
test_edges_cast_kernels(void **state)
{
    struct edges e;

    (void)state;
    for (int t = 0; t < 2; t++) {
        edges_open(&e, halves[t]);
        for (int b = 0; backend_at(b) != NULL; b++)
            for (int threads = 1; threads <= 3; threads += 2) {
                struct kernel_sig sig = {.op = OP_CAST};

                sig.in[0] = tensor_make(DTYPE_F32, 1, &e.n);
                sig.out[0] = tensor_make(halves[t], 1, &e.n);
                run_kernel(backend_at(b), &sig,
                           (const void *const[]){e.from.data}, e.got.data,
                           threads);
                expect_edges(&e, e.n, backend_at(b)->name);
            }
        assert_true(check_buf_intact(&e.got));
        edges_close(&e);
    }
}

/* A product of two halves is exact in float32 (22 bits at most) and rounded
 * once: y[i] = x[i] w with every half as x, and factors that make ties, values
 * on both sides of them, subnormal results, and results beyond the largest. */
static void
expect_product(const struct backend *backend, enum dtype t, float factor,
               enum op op)
{
    const int64_t n = 65536;
    struct kernel_sig sig = {.op = op};
    struct check_buf x, w, y;

    check_buf_make(&x, (size_t)n * 2);
    check_buf_make(&w, 2);
    check_buf_make(&y, (size_t)n * 2);
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)x.data)[i] = (uint16_t)i;
    convert_put(w.data, t, 0, factor);
    assert_true(convert_get(w.data, t, 0) == factor);
    sig.in[0] = sig.out[0] = tensor_make(t, 2, (int64_t[]){n, 1});
    sig.in[1] = tensor_make(t, op == OP_LINEAR ? 2 : 1, (int64_t[]){1, 1});
    run_kernel(backend, &sig, (const void *const[]){x.data, w.data, NULL},
               y.data, 1);
    for (int64_t i = 0; i < n; i++) {
        const float f = convert_get(x.data, t, i) * factor;
        const uint16_t got = ((const uint16_t *)y.data)[i];
        uint16_t want;

        convert_put(&want, t, 0, f);
        /* A sum that starts at +0 may lose the sign of a zero. */
        if (isnan(f) ? isnan(convert_get(y.data, t, i))
                     : got == want || (want == 0x8000 && got == 0))
            continue;
        fail_msg("%s on %s: %s %04x x %g is %04x, not %04x", op_info(op)->name,
                 backend->name, dtype_short_name(t), (unsigned)i,
                 (double)factor, got, want);
    }
    check_buf_free(&x);
    check_buf_free(&w);
    check_buf_free(&y);
}

static void
test_edges_products(void **state)
{
    static const float factors[] = {1,     1.5f, 1.25f,  1.0078125f,    0.5f,
                                    0.75f, 3,    0x1p-9, 1.5f * 0x1p-8, 96};
    static const enum op ops[] = {OP_LINEAR, OP_MUL};

    (void)state;
    for (int b = 0; backend_at(b) != NULL; b++)
        for (int t = 0; t < 2; t++)
            for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++)
                for (int k = 0; k < 2; k++)
                    expect_product(backend_at(b), halves[t], factors[i],
                                   ops[k]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges_scalar),
        cmocka_unit_test(test_edges_block_paths),
        cmocka_unit_test(test_edges_cast_kernels),
        cmocka_unit_test(test_edges_products),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
