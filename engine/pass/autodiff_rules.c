/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/autodiff_rules.h"

#include <stddef.h>

#define DY                                                                     \
    {                                                                          \
        AUTODIFF_DY, 0                                                         \
    }
#define X(i)                                                                   \
    {                                                                          \
        AUTODIFF_IN, i                                                         \
    }
#define Y(i)                                                                   \
    {                                                                          \
        AUTODIFF_OUT, i                                                        \
    }

/* Rows of one op stand together. Gradients towards weights come before those
 * towards activations: what they read can be freed earlier. */
static const struct autodiff_row rows[] = {
    {OP_SCALE_LOSS, OP_COUNT, 1, {X(1)}, 1, {0}},
    {OP_CAST, OP_CAST, 1, {DY}, 1, {0}},

    {OP_LINEAR, OP_LINEAR_DW, 2, {DY, X(0)}, 1, {1}},
    {OP_LINEAR, OP_BIAS_GRAD, 1, {DY}, 1, {2}},
    {OP_LINEAR, OP_LINEAR_DX, 2, {DY, X(1)}, 1, {0}},
    {OP_CONV2D, OP_CONV2D_DW, 2, {DY, X(0)}, 1, {1}},
    {OP_CONV2D, OP_BIAS_GRAD, 1, {DY}, 1, {2}},
    {OP_CONV2D, OP_CONV2D_DX, 2, {DY, X(1)}, 1, {0}},

    {OP_BATCH_NORM,
     OP_BATCH_NORM_BWD,
     5,
     {DY, X(0), X(1), Y(1), Y(2)},
     3,
     {0, 1, 2}},
    {OP_LAYER_NORM,
     OP_LAYER_NORM_BWD,
     5,
     {DY, X(0), X(1), Y(1), Y(2)},
     3,
     {0, 1, 2}},

    {OP_RELU, OP_RELU_BWD, 2, {DY, Y(0)}, 1, {0}},
    {OP_GELU, OP_GELU_BWD, 2, {DY, X(0)}, 1, {0}},
    {OP_TANH, OP_TANH_BWD, 2, {DY, Y(0)}, 1, {0}},
    {OP_SIGMOID, OP_SIGMOID_BWD, 2, {DY, Y(0)}, 1, {0}},
    {OP_SILU, OP_SILU_BWD, 2, {DY, X(0)}, 1, {0}},
    {OP_ADD, OP_COUNT, 1, {DY}, 1, {0}},
    {OP_ADD, OP_COUNT, 1, {DY}, 1, {1}},
    {OP_DROPOUT, OP_DROPOUT_BWD, 1, {DY}, 1, {0}},

    {OP_MAX_POOL2D, OP_MAX_POOL2D_BWD, 2, {DY, Y(1)}, 1, {0}},
    {OP_AVG_POOL2D, OP_AVG_POOL2D_BWD, 1, {DY}, 1, {0}},
    {OP_ADAPTIVE_AVG_POOL2D, OP_ADAPTIVE_AVG_POOL2D_BWD, 1, {DY}, 1, {0}},
    {OP_FLATTEN, OP_UNFLATTEN, 1, {DY}, 1, {0}},

    {OP_CROSS_ENTROPY, OP_CROSS_ENTROPY_BWD, 4, {DY, X(0), X(1), X(2)}, 1, {0}},
    {OP_MSE, OP_MSE_BWD, 4, {DY, X(0), X(1), X(2)}, 1, {0}},
    {OP_L1, OP_L1_BWD, 4, {DY, X(0), X(1), X(2)}, 1, {0}},
    {OP_BCE_WITH_LOGITS,
     OP_BCE_WITH_LOGITS_BWD,
     4,
     {DY, X(0), X(1), X(2)},
     1,
     {0}},
};

#define N_ROWS (int)(sizeof(rows) / sizeof(rows[0]))

const struct autodiff_row *
autodiff_rules_find(enum op op, int *n)
{
    const struct autodiff_row *first = NULL;

    *n = 0;
    for (int i = 0; i < N_ROWS; i++) {
        if (rows[i].forward != op)
            continue;
        if (first == NULL)
            first = &rows[i];
        (*n)++;
    }
    return first;
}
