/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/check.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"

#define GUARD      128
#define GUARD_BYTE 0xa5

void
check_buf_make(struct check_buf *b, size_t bytes)
{
    void *base = NULL;

    if (posix_memalign(&base, 64, GUARD + bytes + GUARD) != 0)
        abort();
    memset(base, GUARD_BYTE, GUARD + bytes + GUARD);
    b->base = base;
    b->data = b->base + GUARD;
    b->bytes = bytes;
}

bool
check_buf_intact(const struct check_buf *b)
{
    for (size_t i = 0; i < GUARD; i++)
        if (b->base[i] != GUARD_BYTE ||
            b->base[GUARD + b->bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

void
check_buf_free(struct check_buf *b)
{
    free(b->base);
    memset(b, 0, sizeof(*b));
}

/* ---- random numbers: xorshift64* (Vigna, 2016) --------------------------- */

uint64_t
check_random(struct check_rng *rng)
{
    uint64_t s = rng->state | 1;

    s ^= s >> 12;
    s ^= s << 25;
    s ^= s >> 27;
    rng->state = s;
    return s * 0x2545F4914F6CDD1DULL;
}

double
check_uniform(struct check_rng *rng)
{
    return (double)(check_random(rng) >> 11) * 0x1p-53;
}

/* ---- filling ------------------------------------------------------------- */

static double
normal(struct check_rng *rng)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += check_uniform(rng);
    return sum;
}

static void
put_bits(void *data, enum dtype t, int64_t i, uint32_t bits)
{
    if (t == DTYPE_F32)
        ((uint32_t *)data)[i] = bits;
    else
        ((uint16_t *)data)[i] = (uint16_t)bits;
}

/* Any finite pattern of t. */
static void
put_wide(void *data, enum dtype t, int64_t i, struct check_rng *rng)
{
    do {
        put_bits(data, t, i, (uint32_t)(check_random(rng) >> 16));
    } while (!isfinite(check_get(data, t, i)));
}

static void
put_special(void *data, enum dtype t, int64_t i, struct check_rng *rng,
            bool summed)
{
    static const uint32_t f32[] = {0x7f800000, 0xff800000, 0x7fc00000,
                                   0x00000000, 0x80000000, 0x00000001,
                                   0x807fffff, 0x7f7fffff, 0xff7fffff};
    static const uint32_t f16[] = {0x7c00, 0xfc00, 0x7e00, 0x0000, 0x8000,
                                   0x0001, 0x83ff, 0x7bff, 0xfbff};
    static const uint32_t bf16[] = {0x7f80, 0xff80, 0x7fc0, 0x0000, 0x8000,
                                    0x0001, 0x807f, 0x7f7f, 0xff7f};
    const uint32_t *table = t == DTYPE_F32 ? f32 : t == DTYPE_F16 ? f16 : bf16;
    /* The last two, the largest, overflow a sum in float32, except halves. */
    const uint64_t n = summed && t != DTYPE_F16 ? 7 : 9;

    put_bits(data, t, i, table[check_random(rng) % n]);
}

static void
put_float(void *data, const struct tensor_desc *t, int64_t i,
          enum check_fill fill, struct check_rng *rng)
{
    double v = normal(rng);

    if (fill == CHECK_WIDE) {
        put_wide(data, t->dtype, i, rng);
        return;
    }
    if ((fill == CHECK_SPECIAL || fill == CHECK_SUMMED) &&
        check_random(rng) % 16 == 0) {
        put_special(data, t->dtype, i, rng, fill == CHECK_SUMMED);
        return;
    }
    if (fill == CHECK_UNIT)
        v = 2 * check_uniform(rng) - 1;
    if (fill == CHECK_PROB)
        v = check_uniform(rng);
    if (fill == CHECK_POSITIVE)
        v = 0.25 + check_uniform(rng);
    if (fill == CHECK_BROAD)
        v = (v < 0 ? -1 : 1) * exp2(12 * check_uniform(rng) - 6);
    convert_put(data, t->dtype, i, (float)v);
}

/* A position of the plane inside window (p, q). */
static int32_t
window_position(const struct kernel_sig *sig, int64_t p, int64_t q,
                struct check_rng *rng)
{
    const struct tensor_desc *x = &sig->out[0];
    const int64_t at[2] = {p, q};
    int64_t pos[2];

    for (int i = 0; i < 2; i++) {
        int64_t begin =
            at[i] * sig->params.pool.stride[i] - sig->params.pool.padding[i];
        int64_t end = begin + sig->params.pool.kernel[i];

        begin = begin < 0 ? 0 : begin;
        end = end > x->dim[2 + i] ? x->dim[2 + i] : end;
        pos[i] = begin + (int64_t)(check_random(rng) % (uint64_t)(end - begin));
    }
    return (int32_t)(pos[0] * x->dim[3] + pos[1]);
}

static int32_t
class_of(enum check_fill fill, struct check_rng *rng, int64_t i, int64_t limit)
{
    const uint64_t r = check_random(rng);

    if (fill == CHECK_CLASS_BAD && i % 3 == 0)
        return i % 2 == 0 ? -1 : (int32_t)limit;
    if (r % 5 == 0 && fill != CHECK_ROW)
        return -100;
    return limit > 0 ? (int32_t)(r % (uint64_t)limit) : 0;
}

static void
put_bool(uint8_t *data, const struct tensor_desc *t, int64_t i,
         enum check_fill fill, struct check_rng *rng)
{
    const int64_t row = t->rank > 0 ? i / t->dim[t->rank - 1] : 0;

    data[i] = (uint8_t)(check_random(rng) >> 32 & 1);
    if (fill == CHECK_MASK && row % 3 == 1)
        data[i] = 0;
}

void
check_fill(void *data, const struct tensor_desc *t, enum check_fill fill,
           struct check_rng *rng, const struct kernel_sig *sig, int64_t limit)
{
    const int64_t n = tensor_n_elems(t);

    for (int64_t i = 0; i < n; i++) {
        int64_t index[TENSOR_MAX_RANK];

        if (t->dtype == DTYPE_BOOL) {
            put_bool(data, t, i, fill, rng);
        } else if (t->dtype != DTYPE_I32) {
            put_float(data, t, i, fill, rng);
        } else if (fill == CHECK_WINDOW) {
            tensor_unravel(t, i, index);
            ((int32_t *)data)[i] =
                window_position(sig, index[2], index[3], rng);
        } else {
            ((int32_t *)data)[i] = class_of(fill, rng, i, limit);
        }
    }
}

/* ---- reading and comparing ----------------------------------------------- */

/* exponent and mantissa widths of the formats. */
static double
decode(uint32_t bits, int n_exponent, int n_mantissa)
{
    const int bias = (1 << (n_exponent - 1)) - 1;
    const int exponent = (int)(bits >> n_mantissa) & ((1 << n_exponent) - 1);
    const double mantissa = (double)(bits & ((1u << n_mantissa) - 1));
    const double sign = bits >> (n_exponent + n_mantissa) & 1 ? -1 : 1;

    if (exponent == (1 << n_exponent) - 1)
        return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - n_mantissa);
    return sign * ldexp(1 + ldexp(mantissa, -n_mantissa), exponent - bias);
}

double
check_get(const void *data, enum dtype t, int64_t i)
{
    if (t == DTYPE_F32)
        return (double)((const float *)data)[i];
    if (t == DTYPE_I32)
        return ((const int32_t *)data)[i];
    if (t == DTYPE_BOOL)
        return ((const uint8_t *)data)[i];
    assert(dtype_is_half(t));
    return t == DTYPE_F16 ? decode(((const uint16_t *)data)[i], 5, 10)
                          : decode(((const uint16_t *)data)[i], 8, 7);
}

double *
check_doubles(const void *data, const struct tensor_desc *t)
{
    const int64_t n = tensor_n_elems(t);
    double *v = calloc((size_t)n + 1, sizeof(*v));

    if (v == NULL)
        abort();
    for (int64_t i = 0; i < n && data != NULL; i++)
        v[i] = check_get(data, t->dtype, i);
    return v;
}

struct format {
    int mantissa, min_exponent, max_exponent;
};

static struct format
format_of(enum dtype t)
{
    if (t == DTYPE_F16)
        return (struct format){10, -14, 15};
    if (t == DTYPE_BF16)
        return (struct format){7, -126, 127};
    return (struct format){23, -126, 127};
}

double
check_ulp(enum dtype t, double x)
{
    const struct format f = format_of(t);
    int e = f.min_exponent;

    if (x != 0 && isfinite(x) && ilogb(x) > e)
        e = ilogb(x);
    return ldexp(1, e - f.mantissa);
}

bool
check_close(enum dtype t, double got, double want, double tolerance)
{
    const struct format f = format_of(t);
    /* From half a place above the largest number on, the result is inf. */
    const double limit = ldexp(2 - ldexp(1, -f.mantissa - 1), f.max_exponent);

    if (!dtype_is_float(t))
        return got == want;
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return got == want;
    if (isinf(got))
        return signbit(got) == signbit(want) && fabs(want) + tolerance >= limit;
    return fabs(got - want) <= tolerance;
}
