/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/spec_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define DATA                                                                   \
    "'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},"        \
    " 'batch_size': 8},"
#define VALIDATED                                                              \
    "'data': {'train': {'format': 'idx', 'input': 'x', 'target': 'y'},"        \
    " 'validation': {'format': 'npy', 'input': '/a/x', 'target': 'v/y'},"      \
    " 'batch_size': 8, 'normalize': {'mean': [0.5, 0.25], 'std': 2},"          \
    " 'shuffle': false, 'drop_last': true},"

const char *const spec_sample_minimal =
    "{" DATA " 'model': [{'linear': {'out_features': 10}}],"
    " 'loss': 'mse', 'optimizer': 'adam'}";

const char *const spec_samples[] = {
    /* Everything by default: no layer that has settings is left out. */
    "{" DATA "'model': ["
    " {'linear': {'out_features': 3}},"
    " {'conv2d': {'out_channels': 4, 'kernel_size': 3}},"
    " 'batch_norm1d', 'batch_norm2d', 'layer_norm', 'relu', 'gelu', 'tanh',"
    " 'sigmoid', 'silu', {'max_pool2d': {'kernel_size': 2}},"
    " {'avg_pool2d': {'kernel_size': [3, 2]}},"
    " {'adaptive_avg_pool2d': {'output_size': 1}}, 'dropout', 'flatten',"
    " {'residual': ['relu']}],"
    " 'loss': 'cross_entropy', 'optimizer': {'sgd': {'lr': 0.1}}}",

    "{" DATA "'model': ['relu'], 'loss': 'l1', 'optimizer': 'adam',"
    " 'schedule': 'cosine', 'amp': {'dtype': 'float16'}}",

    "{" DATA "'model': ['relu'], 'loss': 'bce_with_logits',"
    " 'optimizer': 'adamw', 'schedule': {'step': {'step_size': 30}},"
    " 'amp': {'dtype': 'bfloat16'}}",

    "{" DATA "'model': ['relu'], 'loss': 'mse', 'optimizer': 'adamw',"
    " 'schedule': 'linear'}",

    /* Nothing by default. */
    "{'name': 'Gr\xc3\xb6\xc3\x9f"
    "e \\u20ac \\\"\\\\/', 'seed': 9223372036854775807,"
    " 'device': 'cpu', 'threads': 3, 'initial_weights': 'w.safetensors',"
    " " VALIDATED "'model': ["
    " {'name': 'stem', 'conv2d': {'out_channels': 8, 'kernel_size': [3, 5],"
    "  'stride': [1, 2], 'padding': [1, 0], 'dilation': 2, 'groups': 4,"
    "  'bias': false}},"
    " {'batch_norm2d': {'eps': 1e-3, 'momentum': 0.01, 'affine': false}},"
    " {'gelu': {'approximate': 'tanh'}},"
    " {'name': 'block', 'residual': ["
    "   {'name': 'inner', 'residual': ["
    "     {'layer_norm': {'normalized_shape': [4, 8], 'eps': 1e-6,"
    "      'elementwise_affine': false}}, 'silu']},"
    "   {'name': 'last', 'linear': {'out_features': 8, 'bias': false}}]},"
    " {'max_pool2d': {'kernel_size': [4, 2], 'stride': 1,"
    "  'padding': [2, 1]}},"
    " {'avg_pool2d': {'kernel_size': 4, 'stride': [3, 2], 'padding': 2,"
    "  'count_include_pad': false}},"
    " {'dropout': {'p': 1}}, {'adaptive_avg_pool2d': {'output_size': [1, 7]}},"
    " {'layer_norm': {'normalized_shape': 7}},"
    " 'flatten', {'name': 'head', 'linear': {'out_features': 10}}],"
    " 'loss': {'cross_entropy': {'label_smoothing': 0.1,"
    "  'ignore_index': -100}},"
    " 'optimizer': {'sgd': {'lr': 0.1, 'momentum': 0.9, 'weight_decay': 5e-4,"
    "  'nesterov': true, 'groups': ["
    "  {'match': ['*.bias', 'stem.*'], 'weight_decay': 0},"
    "  {'match': ['head.weight'], 'lr': 0.01, 'nesterov': false,"
    "   'dampening': 0.5}]}},"
    " 'schedule': {'cosine': {'warmup_updates': 100, 'total_updates': 5000,"
    "  'min_lr': 1e-6}},"
    " 'amp': {'dtype': 'bfloat16', 'scaler': {'enabled': true,"
    "  'init_scale': 1024, 'growth_factor': 1.5, 'backoff_factor': 0.25,"
    "  'growth_interval': 10, 'min_scale': 0, 'max_scale': 0},"
    "  'fp32_regions': ['block.inner', 'head'],"
    "  'wgrad_rounding': 'pytorch'},"
    " 'train': {'epochs': 5, 'max_iterations': 100, 'accumulate': 4,"
    "  'clip_grad_norm': 1.0},"
    " 'evaluate': {'every_updates': 50, 'metrics': ['accuracy', 'loss']},"
    " 'checkpoint': {'every_updates': 20, 'keep': 5, 'best': 'accuracy'}}",

    "{" VALIDATED "'model': ['relu', {'linear': {'out_features': 2}}],"
    " 'loss': {'mse': {}},"
    " 'optimizer': {'adamw': {'lr': 1, 'betas': [0, 0.5], 'eps': 0,"
    "  'groups': [{'match': ['1.*'], 'betas': [0.25, 0.75], 'eps': 1}]}},"
    " 'schedule': {'constant': {'warmup_updates': 7}},"
    " 'amp': {'dtype': 'float16', 'scaler': false},"
    " 'evaluate': {'metrics': []},"
    " 'checkpoint': {'best': null}}",
};
const int spec_samples_n =
    (int)(sizeof(spec_samples) / sizeof(spec_samples[0]));

char *
spec_sample_text(const char *sample)
{
    char *text = strdup(sample);

    assert_non_null(text);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    return text;
}

struct spec *
spec_sample_parse(const char *text)
{
    struct spec_faults faults;
    struct spec *spec;

    if (spec_parse(text, strlen(text), &spec, &faults) != 0)
        fail_msg("%d:%d: %s: %s in %s", faults.list[0].line, faults.list[0].col,
                 faults.list[0].path, faults.list[0].message, text);
    assert_int_equal(faults.n, 0);
    return spec;
}
