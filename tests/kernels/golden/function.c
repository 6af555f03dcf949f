/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/golden/golden.h"

#include <math.h>

static double
softplus(double x, double beta, double threshold)
{
    const double bx = beta * x;

    if (bx > threshold)
        return x;
    return (fmax(bx, 0) + log1p(exp(-fabs(bx)))) / beta;
}

static double
softplus_bwd(double dy, double x, double beta, double threshold)
{
    const double bx = beta * x, e = exp(-fabs(bx));

    if (bx > threshold)
        return dy;
    return dy * ((bx < 0 ? e : 1) / (1 + e));
}

static double
pow_bwd(double dy, double x, double exponent)
{
    return exponent == 0 ? 0 : dy * (exponent * pow(x, exponent - 1));
}

/* a, b: inputs 0 and 1. */
static double
element(const struct kernel_sig *sig, double a, double b)
{
    const double beta = sig->params.softplus.beta;
    const double threshold = sig->params.softplus.threshold;

    switch ((int)sig->op) {
    case OP_EXP: return exp(a);
    case OP_EXP_BWD: return a * b;
    case OP_LOG: return log(a);
    case OP_LOG_BWD: return a / b;
    case OP_POW: return pow(a, sig->params.pow.exponent);
    case OP_POW_BWD: return pow_bwd(a, b, sig->params.pow.exponent);
    case OP_RECIPROCAL: return 1 / a;
    case OP_RECIPROCAL_BWD: return -a * (b * b);
    case OP_RSQRT: return 1 / sqrt(a);
    case OP_RSQRT_BWD: return -0.5 * a * (b * b * b);
    case OP_SOFTPLUS: return softplus(a, beta, threshold);
    default: /* OP_SOFTPLUS_BWD */ return softplus_bwd(a, b, beta, threshold);
    }
}

void
golden_function(const struct golden *g)
{
    const int64_t n = tensor_n_elems(&g->sig->out[0]);

    for (int64_t i = 0; i < n; i++)
        g->out[0][i] =
            element(g->sig, g->in[0][i], g->sig->n_in > 1 ? g->in[1][i] : 0);
}
