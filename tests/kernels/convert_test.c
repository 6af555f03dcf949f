/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernels/cpu/convert.h"
#include "tests/kernels/check.h"

static uint32_t
bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

static float
float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, sizeof(f));
    return f;
}

/* Case C01. */
static void
test_convert_edges(void **state)
{
    static const struct {
        float value;
        uint16_t bits;
    } edges[] = {
        {65504.0f, 0x7bff},
        {65519.996f, 0x7bff},
        {65520.0f, 0x7c00},
        {76032.0f, 0x7c00},
        {-1e9f, 0xfc00},
        {6.103515625e-05f, 0x0400},
        {3.0517578125e-05f, 0x0200},
        {5.960464477539063e-08f, 0x0001},
        {2.9802322387695312e-08f, 0x0000},
        {2.980235080940474e-08f, 0x0001},
        {1.00048828125f, 0x3c00},
        {1.00146484375f, 0x3c02},
        {-0.0f, 0x8000},
        {1e-08f, 0x0000},
    };
    const uint32_t nans[] = {0x7f800001, 0x7fffffff, 0xff800001};

    (void)state;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++)
        assert_int_equal(convert_f16_of_f32(edges[i].value), edges[i].bits);
    for (size_t i = 0; i < sizeof(nans) / sizeof(nans[0]); i++) {
        const uint16_t h = convert_f16_of_f32(float_of(nans[i]));
        const uint16_t b = convert_bf16_of_f32(float_of(nans[i]));

        assert_int_equal(h & 0x7c00, 0x7c00);
        assert_int_not_equal(h & 0x3ff, 0);
        assert_int_equal(b & 0x7f80, 0x7f80);
        assert_int_not_equal(b & 0x7f, 0);
        assert_int_equal(h >> 15, nans[i] >> 31);
        assert_int_equal(b >> 15, nans[i] >> 31);
    }
}

/* Every half means what its bits say, and survives the round trip. */
static void
test_convert_all_halves(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t h = (uint16_t)i;
        const float f = convert_f32_of_f16(h), b = convert_f32_of_bf16(h);
        const double want_f = check_get(&h, DTYPE_F16, 0);
        const double want_b = check_get(&h, DTYPE_BF16, 0);

        if (isnan(want_f))
            assert_true(isnan(f));
        else
            assert_true((double)f == want_f &&
                        (signbit(f) != 0) == (i >= 0x8000));
        if (isnan(want_b))
            assert_true(isnan(b));
        else
            assert_true((double)b == want_b);
        /* NaN becomes quiet, all else is the identity. */
        assert_int_equal(convert_f16_of_f32(f),
                         isnan(want_f) ? (h | 0x200) : h);
        assert_int_equal(convert_bf16_of_f32(b),
                         isnan(want_b) ? (h | 0x40) : h);
    }
}

/* The nearest half of f by search among neighbours, ties to the even one. */
static void
expect_nearest(enum dtype t, float f, uint16_t got)
{
    const double v = check_get(&got, t, 0);
    const uint16_t infinity = t == DTYPE_F16 ? 0x7c00 : 0x7f80;
    const uint16_t magnitude = got & 0x7fff;
    double below, above, self = fabs(v), want = fabs((double)f);
    uint16_t h;

    assert_int_equal(got >> 15, bits_of(f) >> 31);
    if (magnitude == infinity) {
        h = (uint16_t)(infinity - 1);
        below = check_get(&h, t, 0);
        /* Half a place above the largest number, and the tie. */
        assert_true(want >= below + check_ulp(t, below) / 2);
        return;
    }
    h = (uint16_t)(magnitude > 0 ? magnitude - 1 : 0);
    below = check_get(&h, t, 0);
    h = (uint16_t)(magnitude + 1);
    above = h == infinity ? self + check_ulp(t, self) : check_get(&h, t, 0);
    if (magnitude > 0)
        assert_true(want - below > self - want ||
                    (want - below == self - want && magnitude % 2 == 0));
    assert_true(above - want > want - self ||
                (above - want == want - self && magnitude % 2 == 0));
}

static const uint32_t tails[] = {
    0x000000, 0x000001, 0x000fff, 0x001000, 0x001001, 0x001fff,
    0x002000, 0x002fff, 0x003000, 0x003001, 0x007fff, 0x008000,
    0x008001, 0x017fff, 0x018000, 0x018001, 0x3fffff, 0x400000,
    0x7fefff, 0x7ff000, 0x7ff001, 0x7f7fff, 0x7f8000, 0x7fffff};
#define N_TAILS (int)(sizeof(tails) / sizeof(tails[0]))

/* All exponents of float32 with the mantissas around every rounding edge. */
static void
test_convert_all_exponents(void **state)
{
    (void)state;
    for (uint32_t exponent = 0; exponent < 255; exponent++)
        for (int i = 0; i < N_TAILS; i++)
            for (uint32_t sign = 0; sign < 2; sign++) {
                const float f =
                    float_of(sign << 31 | exponent << 23 | tails[i]);

                expect_nearest(DTYPE_F16, f, convert_f16_of_f32(f));
                expect_nearest(DTYPE_BF16, f, convert_bf16_of_f32(f));
            }
}

#define N_RANDOM 4099 /* not a multiple of any vector */

/* Block paths give the bits of the scalar definition, NaN payloads too. */
static void
test_convert_paths_agree(void **state)
{
    static float floats[N_RANDOM], back[N_RANDOM];
    static uint16_t halves[N_RANDOM];
    struct check_rng rng = {7};
    int usable = 0;

    (void)state;
    for (const struct convert_path *p = convert_path_at(0); p != NULL;
         p = convert_path_at(++usable)) {
        if (!p->usable())
            continue;
        for (int round = 0; round < 64; round++) {
            for (int i = 0; i < N_RANDOM; i++)
                floats[i] = float_of((uint32_t)(check_random(&rng) >> 24));
            p->f16_of_f32(halves, floats, N_RANDOM);
            for (int i = 0; i < N_RANDOM; i++)
                assert_int_equal(halves[i], convert_f16_of_f32(floats[i]));
            p->bf16_of_f32(halves, floats, N_RANDOM);
            for (int i = 0; i < N_RANDOM; i++)
                assert_int_equal(halves[i], convert_bf16_of_f32(floats[i]));
        }
        for (uint32_t base = 0; base < 65536; base += N_RANDOM) {
            for (uint32_t i = 0; i < N_RANDOM; i++)
                halves[i] = (uint16_t)(base + i);
            p->f32_of_f16(back, halves, N_RANDOM);
            for (int i = 0; i < N_RANDOM; i++)
                assert_int_equal(bits_of(back[i]),
                                 bits_of(convert_f32_of_f16(halves[i])));
            p->f32_of_bf16(back, halves, N_RANDOM);
            for (int i = 0; i < N_RANDOM; i++)
                assert_int_equal(bits_of(back[i]),
                                 bits_of(convert_f32_of_bf16(halves[i])));
        }
    }
    assert_true(usable >= 1);
}

/* The same for the loops behind convert_to_f32() and convert_from_f32(). */
static void
test_convert_blocks_agree(void **state)
{
    static float floats[N_RANDOM], back[N_RANDOM];
    static uint16_t halves[N_RANDOM];
    struct check_rng rng = {11};

    (void)state;
    for (int round = 0; round < 64; round++) {
        for (int i = 0; i < N_RANDOM; i++)
            floats[i] = float_of((uint32_t)(check_random(&rng) >> 24));
        convert_from_f32(halves, DTYPE_BF16, floats, N_RANDOM);
        convert_to_f32(back, halves, DTYPE_BF16, N_RANDOM);
        for (int i = 0; i < N_RANDOM; i++) {
            assert_int_equal(halves[i], convert_bf16_of_f32(floats[i]));
            assert_int_equal(bits_of(back[i]),
                             bits_of(convert_f32_of_bf16(halves[i])));
        }
        convert_from_f32(halves, DTYPE_F16, floats, N_RANDOM);
        for (int i = 0; i < N_RANDOM; i++)
            assert_int_equal(halves[i], convert_f16_of_f32(floats[i]));
    }
}

/* Case C30 b: small gradients vanish in half, and do not when scaled. */
static void
test_convert_scaled_gradients(void **state)
{
    static const float grads[] = {1e-3f, 1e-6f, 3e-8f, 2e-8f, 1e-8f};
    static const float plain[] = {0.0010004043579101562f,
                                  1.0132789611816406e-06f,
                                  5.960464477539063e-08f, 0, 0};
    static const float scaled[] = {
        0.0010004043579101562f, 1.000240445137024e-06f, 3.000604920089245e-08f,
        1.9994331523776054e-08f, 9.997165761888027e-09f};

    (void)state;
    for (int i = 0; i < 5; i++) {
        const uint16_t h = convert_f16_of_f32(grads[i]);
        const uint16_t s = convert_f16_of_f32(grads[i] * 65536.0f);

        assert_true(convert_f32_of_f16(h) == plain[i]);
        assert_true(convert_f32_of_f16(s) / 65536.0f == scaled[i]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convert_edges),
        cmocka_unit_test(test_convert_all_halves),
        cmocka_unit_test(test_convert_all_exponents),
        cmocka_unit_test(test_convert_paths_agree),
        cmocka_unit_test(test_convert_blocks_agree),
        cmocka_unit_test(test_convert_scaled_gradients),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
