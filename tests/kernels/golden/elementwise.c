/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

#include "kernels/philox.h"

/* A float32 factor below 2^-126 is rounded to 2^-150: what multiplies it enters
 * the magnitude by this, so that 2^-24 of it is 2^-149. */
#define TINY 0x1p-125

#define ROOT_2_OVER_PI 0.79788456080286535588

struct value {
    double v, mag;
};

static struct value
plain(double v)
{
    return (struct value){v, 0};
}

/* (a + b) x factor. */
static struct value
sum_of(double a, double b, double factor)
{
    return (struct value){(a + b) * factor,
                          (fabs(a) + fabs(b) + TINY) * fabs(factor)};
}

/* x s, where s may underflow. */
static struct value
product_of(double x, double s)
{
    return (struct value){x * s, fabs(x * s) + TINY * fabs(x)};
}

static double
sigmoid(double x)
{
    const double e = exp(-fabs(x));

    return (x < 0 ? e : 1) / (1 + e);
}

static double
phi_upper(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static double
gelu_u(double x)
{
    return ROOT_2_OVER_PI * (x + 0.044715 * x * x * x);
}

static struct value
gelu(double x, bool tanh_form)
{
    return product_of(x, tanh_form ? sigmoid(2 * gelu_u(x)) : phi_upper(x));
}

static struct value
gelu_bwd(double dy, double x, bool tanh_form)
{
    double s, du;

    if (!tanh_form)
        return sum_of(phi_upper(x),
                      x * (exp(-0.5 * x * x) / sqrt(2 * acos(-1.0))), dy);
    s = sigmoid(2 * gelu_u(x));
    du = 2 * ROOT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
    return sum_of(s, s * sigmoid(-2 * gelu_u(x)) * (x * du), dy);
}

static struct value
silu_bwd(double dy, double x)
{
    const double s = sigmoid(x);

    return sum_of(s, s * (x * sigmoid(-x)), dy);
}

static double
dropout(const struct golden *g, double x, int64_t i)
{
    const double p = g->sig->params.dropout.p;
    uint32_t word[4];

    philox_words(g->step->seed, g->sig->params.dropout.stream,
                 g->step->iteration, g->step->micro_batch, (uint32_t)(i / 4),
                 word);
    return (double)philox_uniform(word[i % 4]) >= p ? x / (1 - p) : 0;
}

/* a, b: inputs 0 and 1 of element i. */
static struct value
element(const struct golden *g, double a, double b, int64_t i)
{
    const bool is_gelu = g->sig->op == OP_GELU || g->sig->op == OP_GELU_BWD;
    const bool tanh_form = is_gelu && g->sig->params.gelu.tanh;
    double v;

    switch ((int)g->sig->op) {
    case OP_CAST: return plain(a);
    case OP_SCALE_LOSS: return plain(a * b);
    case OP_GRAD_ACCUMULATE:
        return plain(g->step->micro_batch == 0 ? b : a + b);
    case OP_RELU: return plain(a > 0 || isnan(a) ? a : 0);
    case OP_RELU_BWD: return plain(b > 0 || isnan(b) ? a : 0);
    case OP_GELU: return gelu(a, tanh_form);
    case OP_GELU_BWD: return gelu_bwd(a, b, tanh_form);
    case OP_TANH: return plain(tanh(a));
    case OP_TANH_BWD: return plain(a * ((1 - b) * (1 + b)));
    case OP_SIGMOID: return plain(sigmoid(a));
    case OP_SIGMOID_BWD: return product_of(a, b * (1 - b));
    case OP_SILU: return product_of(a, sigmoid(a));
    case OP_SILU_BWD: return silu_bwd(a, b);
    default: /* OP_DROPOUT, OP_DROPOUT_BWD */
        v = dropout(g, a, i);
        return (struct value){v, fabs(v)};
    }
}

void
golden_elementwise(const struct golden *g)
{
    const int64_t n = tensor_n_elems(&g->sig->out[0]);

    for (int64_t i = 0; i < n; i++) {
        const double b = g->sig->n_in > 1 ? g->in[1][i] : 0;
        const struct value r = element(g, g->in[0][i], b, i);

        g->out[0][i] = r.v;
        g->mag[0][i] = r.mag;
    }
}
