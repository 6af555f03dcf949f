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

    /* Every kind of layer, all that can be by default. */
    "{" DATA "'model': ["
    " {'name': 'ids', 'embedding': {'num_embeddings': 9, 'embedding_dim': 4}},"
    " {'positional_embedding': {'num_embeddings': 16}},"
    " {'multihead_attention': {'num_heads': 2}},"
    " {'scaled_dot_product_attention': {'num_heads': 2}},"
    " {'conv1d': {'out_channels': 4, 'kernel_size': 3}},"
    " {'conv_transpose2d': {'out_channels': 4, 'kernel_size': 2}},"
    " {'group_norm': {'num_groups': 2}}, 'rms_norm', 'prelu', 'softplus',"
    " 'exp', 'log', {'pow': {'exponent': 2}}, 'reciprocal', 'rsqrt',"
    " {'name': 'same', 'identity': {}}, {'sequential': ['relu']},"
    " {'residual': {'body': ['relu'], 'shortcut': ['tanh']}},"
    " {'input': ['ids', 'same'], 'matmul': {}},"
    " {'input': ['ids', 'same'], 'bmm': {}},"
    " {'input': ['ids', 'same'], 'cosine_similarity': {}},"
    " {'input': ['ids', 'same'], 'add': {}},"
    " {'input': ['ids', 'same'], 'sub': {}},"
    " {'input': ['ids', 'same'], 'mul': {}},"
    " {'input': ['ids', 'same'], 'div': {}},"
    " {'input': ['ids', 'same'], 'eq': {}},"
    " {'input': ['ids', 'same'], 'ne': {}},"
    " {'input': ['ids', 'same'], 'lt': {}},"
    " {'input': ['ids', 'same'], 'le': {}},"
    " {'input': ['ids', 'same'], 'gt': {}},"
    " {'input': ['ids', 'same'], 'ge': {}},"
    " {'input': ['30', 'ids', 'same'], 'where': {}},"
    " {'input': ['ids', 'same'], 'cat': {'dim': 1}},"
    " {'input': ['ids', 'same'], 'stack': {'dim': 1}},"
    " 'softmax', 'log_softmax', 'sum', 'mean', 'norm', 'logsumexp',"
    " {'prod': {'dim': 1}}, {'cumsum': {'dim': 1}},"
    " {'upsample': {'scale_factor': 2}}, 'flatten',"
    " {'unflatten': {'dim': 1, 'unflattened_size': [2, -1]}},"
    " {'reshape': {'shape': -1}}, {'transpose': {'dim0': 1, 'dim1': 2}},"
    " {'narrow': {'dim': 1, 'start': 0, 'length': 1}}],"
    " 'loss': 'mse', 'optimizer': 'adam'}",

    /* The same, nothing by default. */
    "{" DATA "'model': ["
    " {'name': 'ids', 'embedding': {'num_embeddings': 9, 'embedding_dim': 4,"
    "  'padding_idx': -1}, 'weight_init': {'normal': {'std': 0.02}}},"
    " {'input': 'input', 'positional_embedding': {'num_embeddings': 16},"
    "  'weight_init': {'uniform': {'bound': 0.5}}},"
    " {'name': 'attn', 'input': ['ids', 'ids', '1', 'input'],"
    "  'multihead_attention': {'num_heads': 2, 'dropout': 0.25,"
    "  'bias': true, 'is_causal': true}, 'bias_init': 'ones'},"
    " {'input': ['attn', '1'], 'scaled_dot_product_attention':"
    "  {'num_heads': 2, 'dropout_p': 0.5, 'is_causal': true, 'scale': 0.25}},"
    " {'conv1d': {'out_channels': 4, 'kernel_size': 3, 'stride': 2,"
    "  'padding': 1, 'dilation': 3, 'groups': 2, 'bias': false},"
    "  'weight_init': 'zeros'},"
    " {'conv_transpose2d': {'out_channels': 4, 'kernel_size': [2, 3],"
    "  'stride': 2, 'padding': [1, 0], 'output_padding': [1, 0],"
    "  'dilation': 2, 'groups': 2, 'bias': true}, 'weight_init': 'ones',"
    "  'bias_init': {'uniform': {'bound': 0.125}}},"
    " {'group_norm': {'num_groups': 2, 'eps': 1e-3, 'affine': false}},"
    " {'rms_norm': {'normalized_shape': [4, 4], 'eps': 1e-3,"
    "  'elementwise_affine': false}},"
    " {'layer_norm': {'bias': false}, 'weight_init': 'zeros'},"
    " {'prelu': {'num_parameters': 4, 'init': 0.5}},"
    " {'softplus': {'beta': 2, 'threshold': 10}},"
    " {'name': 'outer', 'sequential': [{'name': 'in', 'linear':"
    "   {'out_features': 4}}, {'residual': {'body': [{'name': 'b',"
    "   'linear': {'out_features': 4}, 'weight_from': 'in'}],"
    "   'shortcut': [{'name': 's', 'input': ['in', 'ids'], 'add': {}}]}},"
    "   {'name': 'out', 'input': ['1.shortcut.s', '1.b'], 'mul': {}}]},"
    " {'name': 'in', 'input': 'outer.1.shortcut.s', 'relu': {}},"
    " {'input': ['outer.in', 'in'], 'matmul': {'transpose_a': true,"
    "  'transpose_b': true}},"
    " {'input': ['in', 'in'], 'cosine_similarity': {'dim': -1, 'eps': 1e-6}},"
    " {'add': {'value': 1}}, {'sub': {'value': -1}}, {'mul': {'value': 0}},"
    " {'div': {'value': 3}}, {'eq': {'value': 0.5}}, {'ne': {'value': 0.5}},"
    " {'lt': {'value': 0.5}}, {'le': {'value': 0.5}}, {'gt': {'value': 1}},"
    " {'ge': {'value': 1}}, {'input': ['24', 'in'], 'where': {'value': 1}},"
    " {'input': ['in', 'in', 'in'], 'cat': {'dim': -1}},"
    " {'input': ['in', 'in', 'in'], 'stack': {'dim': -2}},"
    " {'softmax': {'dim': 2}}, {'log_softmax': {'dim': 3}},"
    " {'sum': {'dim': 1, 'keepdim': true}}, {'mean': {'dim': [-1, -2]}},"
    " {'norm': {'p': 1, 'dim': [2, 3], 'keepdim': true}},"
    " {'logsumexp': {'dim': -1, 'keepdim': true}},"
    " {'prod': {'dim': -1, 'keepdim': true}}, {'cumsum': {'dim': -1}},"
    " {'upsample': {'size': [7, 9], 'mode': 'bilinear',"
    "  'align_corners': true}}, {'upsample': {'scale_factor': [2, 1.5]}},"
    " {'flatten': {'start_dim': 2, 'end_dim': 3}},"
    " {'unflatten': {'dim': -1, 'unflattened_size': [2, 2, 2, 2, 2, 2]}},"
    " {'reshape': {'shape': [2, -1, 3]}},"
    " {'transpose': {'dim0': -1, 'dim1': -2}},"
    " {'narrow': {'dim': -1, 'start': 5, 'length': 2}}],"
    " 'loss': 'mse', 'optimizer': 'adam'}",

    "{" DATA "'model': {'gpt': {'vocab_size': 256, 'block_size': 8,"
    " 'n_layer': 2, 'n_head': 2, 'n_embd': 8}},"
    " 'loss': 'mse', 'optimizer': 'adam'}",

    "{" DATA "'model': ['relu', {'name': 'net', 'sequential': ["
    " {'name': 'gpt', 'gpt': {'vocab_size': 256, 'block_size': 8,"
    " 'n_layer': 3, 'n_head': 2, 'n_embd': 8, 'dropout': 0.1, 'bias': false,"
    " 'tie_weights': false}}, {'resnet': {'depth': 14, 'num_classes': 10,"
    " 'width': 4}}, {'mlp': {'hidden': [3, 4], 'out_features': 5,"
    " 'activation': 'silu', 'dropout': 0.5, 'batch_norm': true}},"
    " {'mlp': {'hidden': 7, 'num_classes': 5}}]}],"
    " 'loss': 'mse', 'optimizer': 'adam'}",

    /* Guards of every kind. */
    "{" VALIDATED "'model': [{'name': 'a', 'linear': {'out_features': 2}},"
    "  {'name': 'b', 'linear': {'out_features': 2}}],"
    " 'loss': 'nll', 'optimizer': 'adam', 'amp': {'dtype': 'float16'},"
    " 'checkpoint': {'best': 'loss'}, 'guard': {'mode': 'auto',"
    "  'max_rollbacks': 0, 'rules': ["
    "  {'when': {'consecutive_skips': 3, 'after_updates': 9}, 'do': 'pause'},"
    "  {'when': {'skip_share': 0.5, 'iterations': 9}, 'do': 'continue'},"
    "  {'when': {'loss_above': 8}, 'do': 'rollback', 'to': 'best',"
    "   'with': {'fp32_region': ['a', 'b']}},"
    "  {'when': {'loss_below': 0}, 'do': 'fail'},"
    "  {'when': {'loss_spike': 20, 'iterations': 50}, 'do': 'rollback',"
    "   'with': {'skip_batches': true}},"
    "  {'when': {'metric': 'accuracy', 'below': 0.5, 'above': 0.75},"
    "   'do': 'rollback', 'with': {'fp32_region': 'b'}},"
    "  {'when': {'non_finite': 'loss'}, 'do': 'rollback',"
    "   'with': {'lower_scale': 0.5}},"
    "  {'when': {'verdict': 'divergence', 'count': 2}, 'do': 'rollback',"
    "   'with': {'dtype': 'float32'}}]},"
    " 'diagnose': {'max_replays': 0, 'replay_share': 0.5, 'keep': 0,"
    "  'keep_bytes': 0}}",

    /* Every format, loss and optimizer: by default, then not. */
    "{'data': {'train': {'format': 'safetensors', 'input': 'd'},"
    " 'batch_size': 1}, 'model': [{'linear': {'out_features': 2}}],"
    " 'loss': 'smooth_l1', 'optimizer': 'adagrad'}",

    "{'initial_weights': {'path': 'w', 'partial': true},"
    " 'data': {'train': {'format': 'safetensors', 'input': 'd', 'target': 't',"
    "  'input_name': 'x', 'target_name': 'y', 'mask': 'm'}, 'batch_size': 1,"
    "  'augment': {'random_crop': {'padding': 4},"
    "   'horizontal_flip': {'p': 0.25}}},"
    " 'model': [{'name': 'a', 'linear': {'out_features': 2}},"
    "  {'name': 'b', 'linear': {'out_features': 2}},"
    "  {'name': 'c', 'linear': {'out_features': 2}},"
    "  {'name': 'd', 'sequential': ['relu']},"
    "  {'name': 'e', 'residual': ['relu', {'sequential': ['relu']}]}],"
    " 'loss': {'nll': {'ignore_index': 3}}, 'optimizer': ["
    "  {'match': ['a.*'], 'adagrad': {'lr': 1, 'lr_decay': 0.5,"
    "   'weight_decay': 0.25, 'initial_accumulator_value': 0.125, 'eps': 1,"
    "   'groups': [{'match': ['a.bias'], 'lr_decay': 0.25,"
    "   'initial_accumulator_value': 0, 'eps': 0}]}},"
    "  {'match': ['b.*'], 'rmsprop': {'lr': 1, 'alpha': 0.5, 'eps': 1,"
    "   'weight_decay': 0.25, 'momentum': 0.125, 'centered': true,"
    "   'groups': [{'match': ['b.bias'], 'alpha': 0.25, 'centered': false}]}},"
    "  {'match': ['c.w*', 'c.weight', '*.bias'], 'lion': {'lr': 1,"
    "   'betas': [0.5, 0.25], 'weight_decay': 2, 'groups': ["
    "   {'match': ['c.bias'], 'betas': [0, 0]}]}}],"
    " 'schedule': {'step': {'step_size': 3, 'count': 'iterations'}},"
    " 'amp': {'dtype': 'float16', 'scaler': {'dynamic': false}},"
    " 'train': {'ema': {'decay': 0.75, 'evaluate': false},"
    "  'recompute': ['d', 'e.*']},"
    " 'evaluate': {'metrics': ['top_k', 'confusion', 'perplexity'],"
    "  'top_k': 2}}",

    "{'data': {'train': {'format': 'csv', 'input': 'd',"
    "  'target_columns': ['y', 3]}, 'batch_size': 1,"
    "  'validation': {'format': 'npy', 'input': 'x', 'target': 'y'}},"
    " 'model': [{'linear': {'out_features': 2}}], 'loss': 'kl_div',"
    " 'optimizer': [{'rmsprop': {}}], 'schedule': {'constant':"
    " {'count': 'iterations'}}, 'train': {'ema': {'decay': 0.5}}}",

    "{'data': {'train': {'format': 'tokens', 'input': 'd'},"
    "  'validation': {'format': 'text', 'input': 'd'}, 'batch_size': 1,"
    "  'sequence_length': 9}, 'model': [{'name': 'e', 'embedding':"
    " {'num_embeddings': 2, 'embedding_dim': 2}}, {'linear':"
    " {'out_features': 2}}], 'loss': {'huber': {'delta': 2}},"
    " 'optimizer': [{'match': ['e.*'], 'lion': {}}, 'adam'],"
    " 'schedule': {'linear': {'count': 'iterations'}}}",

    "{'data': {'train': {'format': 'tokens', 'input': 'd',"
    "  'token_dtype': 'uint32', 'part': [0, 0.5]},"
    "  'validation': {'format': 'text', 'input': 'd', 'part': [0.5, 1]},"
    "  'batch_size': 1, 'sequence_length': 9},"
    " 'model': [{'linear': {'out_features': 2}}],"
    " 'loss': {'kl_div': {'log_target': true, 'reduction': 'batchmean'}},"
    " 'optimizer': 'lion'}",

    "{" VALIDATED "'model': [{'linear': {'out_features': 2}}],"
    " 'loss': {'smooth_l1': {'beta': 0}}, 'optimizer': 'rmsprop'}",

    "{" VALIDATED "'model': [{'linear': {'out_features': 2}}],"
    " 'loss': 'nll', 'optimizer': 'adam',"
    " 'evaluate': {'metrics': ['perplexity', 'top_k']},"
    " 'checkpoint': {'best': 'perplexity'}}",

    "{" DATA "'model': [{'linear': {'out_features': 2}}],"
    " 'loss': 'huber', 'optimizer': 'adam'}",
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
