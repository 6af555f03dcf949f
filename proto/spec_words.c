/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_words.h"

#include "proto/spec_presets.h"

static const struct spec_word layers[] = {
#define LAYER(id, name, doc) {SPEC_LAYER_##id, name},
#include "proto/layers.def"
#undef LAYER
#define PRESET(id, name, doc) {SPEC_PRESETS_##id, name},
#include "proto/presets.def"
#undef PRESET
};
static const struct spec_word presets[] = {
#define PRESET(id, name, doc) {SPEC_PRESETS_##id, name},
#include "proto/presets.def"
#undef PRESET
};
static const struct spec_word activations[] = {
    {SPEC_LAYER_RELU, "relu"},
    {SPEC_LAYER_GELU, "gelu"},
    {SPEC_LAYER_TANH, "tanh"},
    {SPEC_LAYER_SILU, "silu"},
};
static const struct spec_word losses[] = {
    {SPEC_LOSS_CROSS_ENTROPY, "cross_entropy"},
    {SPEC_LOSS_NLL, "nll"},
    {SPEC_LOSS_MSE, "mse"},
    {SPEC_LOSS_L1, "l1"},
    {SPEC_LOSS_SMOOTH_L1, "smooth_l1"},
    {SPEC_LOSS_HUBER, "huber"},
    {SPEC_LOSS_KL_DIV, "kl_div"},
    {SPEC_LOSS_BCE_WITH_LOGITS, "bce_with_logits"},
};
static const struct spec_word optimizers[] = {
    {SPEC_OPTIMIZER_SGD, "sgd"},         {SPEC_OPTIMIZER_ADAM, "adam"},
    {SPEC_OPTIMIZER_ADAMW, "adamw"},     {SPEC_OPTIMIZER_ADAGRAD, "adagrad"},
    {SPEC_OPTIMIZER_RMSPROP, "rmsprop"}, {SPEC_OPTIMIZER_LION, "lion"},
};
static const struct spec_word schedules[] = {
    {SPEC_SCHEDULE_CONSTANT, "constant"},
    {SPEC_SCHEDULE_STEP, "step"},
    {SPEC_SCHEDULE_COSINE, "cosine"},
    {SPEC_SCHEDULE_LINEAR, "linear"},
};
static const struct spec_word metrics[] = {
    {SPEC_METRIC_LOSS, "loss"},
    {SPEC_METRIC_ACCURACY, "accuracy"},
    {SPEC_METRIC_TOP_K, "top_k"},
    {SPEC_METRIC_PERPLEXITY, "perplexity"},
    {SPEC_METRIC_CONFUSION, "confusion"},
};
static const struct spec_word formats[] = {
    {SPEC_FORMAT_IDX, "idx"},
    {SPEC_FORMAT_NPY, "npy"},
    {SPEC_FORMAT_SAFETENSORS, "safetensors"},
    {SPEC_FORMAT_CSV, "csv"},
    {SPEC_FORMAT_TOKENS, "tokens"},
    {SPEC_FORMAT_TEXT, "text"},
};
static const struct spec_word gelus[] = {
    {SPEC_GELU_NONE, "none"},
    {SPEC_GELU_TANH, "tanh"},
};
static const struct spec_word upsamples[] = {
    {SPEC_UPSAMPLE_NEAREST, "nearest"},
    {SPEC_UPSAMPLE_BILINEAR, "bilinear"},
};
static const struct spec_word reductions[] = {
    {SPEC_REDUCTION_MEAN, "mean"},
    {SPEC_REDUCTION_BATCHMEAN, "batchmean"},
};
static const struct spec_word counts[] = {
    {SPEC_COUNT_UPDATES, "updates"},
    {SPEC_COUNT_ITERATIONS, "iterations"},
};
static const struct spec_word token_dtypes[] = {
    {DTYPE_U16, "uint16"},
    {DTYPE_U32, "uint32"},
};
static const struct spec_word inits[] = {
    {SPEC_INIT_DEFAULT, "default"}, {SPEC_INIT_ZEROS, "zeros"},
    {SPEC_INIT_ONES, "ones"},       {SPEC_INIT_NORMAL, "normal"},
    {SPEC_INIT_UNIFORM, "uniform"},
};
static const struct spec_word dtypes[] = {
    {DTYPE_F32, "float32"},
    {DTYPE_F16, "float16"},
    {DTYPE_BF16, "bfloat16"},
};
static const struct spec_word wgrads[] = {
    {SPEC_WGRAD_FP32, "fp32"},
    {SPEC_WGRAD_PYTORCH, "pytorch"},
};
static const struct spec_word guards[] = {
    {SPEC_GUARDS_DEFAULT, "default"},
    {SPEC_GUARDS_AUTO, "auto"},
    {SPEC_GUARDS_OFF, "off"},
};
static const struct spec_word conditions[] = {
    {SPEC_CONDITION_CONSECUTIVE_SKIPS, "consecutive_skips"},
    {SPEC_CONDITION_SCALE_AT_FLOOR, "scale_at_floor"},
    {SPEC_CONDITION_SKIP_SHARE, "skip_share"},
    {SPEC_CONDITION_UPDATES_BELOW, "updates_below"},
    {SPEC_CONDITION_LOSS_ABOVE, "loss_above"},
    {SPEC_CONDITION_LOSS_BELOW, "loss_below"},
    {SPEC_CONDITION_LOSS_SPIKE, "loss_spike"},
    {SPEC_CONDITION_METRIC, "metric"},
    {SPEC_CONDITION_NON_FINITE, "non_finite"},
    {SPEC_CONDITION_VERDICT, "verdict"},
};
static const struct spec_word changes[] = {
    {SPEC_CHANGE_FP32_REGION, "fp32_region"},
    {SPEC_CHANGE_SKIP_BATCHES, "skip_batches"},
    {SPEC_CHANGE_LOWER_SCALE, "lower_scale"},
    {SPEC_CHANGE_DTYPE, "dtype"},
};
static const struct spec_word parts[] = {
    {EVENT_TRIGGER_WEIGHTS, "weights"},
    {EVENT_TRIGGER_LOSS, "loss"},
    {EVENT_TRIGGER_METRIC, "metric"},
};
static const struct spec_word verdicts[] = {
    {EVENT_VERDICT_SCALE_OVERFLOW, "scale_overflow"},
    {EVENT_VERDICT_FORWARD_OVERFLOW, "forward_overflow"},
    {EVENT_VERDICT_BACKWARD_OVERFLOW, "backward_overflow"},
    {EVENT_VERDICT_BAD_INPUT, "bad_input"},
    {EVENT_VERDICT_DIVERGENCE, "divergence"},
    {EVENT_VERDICT_OPTIMIZER, "optimizer"},
};
static const struct spec_word actions[] = {
    {EVENT_ACTION_CONTINUE, "continue"},
    {EVENT_ACTION_PAUSE, "pause"},
    {EVENT_ACTION_FAIL, "fail"},
    {EVENT_ACTION_ROLLBACK, "rollback"},
};
static const struct spec_word tos[] = {{0, "last"}, {1, "best"}};
static const struct spec_word wider[] = {
    {DTYPE_BF16, "bfloat16"},
    {DTYPE_F32, "float32"},
};
static const struct spec_word devices[] = {{0, "cpu"}};

#define WORD_LIST(list, what)                                                  \
    {                                                                          \
        list, (int)(sizeof(list) / sizeof(*list)), what                        \
    }
const struct spec_words spec_words_layer = WORD_LIST(layers, "layer");
const struct spec_words spec_words_preset = WORD_LIST(presets, "preset");
const struct spec_words spec_words_activation =
    WORD_LIST(activations, "activation");
const struct spec_words spec_words_loss = WORD_LIST(losses, "loss");
const struct spec_words spec_words_optimizer =
    WORD_LIST(optimizers, "optimizer");
const struct spec_words spec_words_schedule = WORD_LIST(schedules, "schedule");
const struct spec_words spec_words_metric = WORD_LIST(metrics, "metric");
const struct spec_words spec_words_format = WORD_LIST(formats, "format");
const struct spec_words spec_words_gelu = WORD_LIST(gelus, "approximation");
const struct spec_words spec_words_upsample = WORD_LIST(upsamples, "mode");
const struct spec_words spec_words_reduction =
    WORD_LIST(reductions, "reduction");
const struct spec_words spec_words_count = WORD_LIST(counts, "count");
const struct spec_words spec_words_token_dtype =
    WORD_LIST(token_dtypes, "token_dtype");
const struct spec_words spec_words_init = WORD_LIST(inits, "start");
const struct spec_words spec_words_dtype = WORD_LIST(dtypes, "dtype");
const struct spec_words spec_words_wgrad = WORD_LIST(wgrads, "rounding");
const struct spec_words spec_words_guards = WORD_LIST(guards, "set of guards");
const struct spec_words spec_words_condition =
    WORD_LIST(conditions, "condition");
const struct spec_words spec_words_change = WORD_LIST(changes, "change");
const struct spec_words spec_words_trigger = WORD_LIST(parts, "part");
const struct spec_words spec_words_verdict = WORD_LIST(verdicts, "verdict");
const struct spec_words spec_words_action = WORD_LIST(actions, "action");
const struct spec_words spec_words_to = WORD_LIST(tos, "checkpoint");
const struct spec_words spec_words_wider = WORD_LIST(wider, "wider dtype");
const struct spec_words spec_words_device = WORD_LIST(devices, "device");

const struct spec_words *
spec_words_of(enum spec_type type)
{
    switch (type) {
    case SPEC_TYPE_DEVICE: return &spec_words_device;
    case SPEC_TYPE_FORMAT: return &spec_words_format;
    case SPEC_TYPE_GELU: return &spec_words_gelu;
    case SPEC_TYPE_DTYPE: return &spec_words_dtype;
    case SPEC_TYPE_WGRAD: return &spec_words_wgrad;
    case SPEC_TYPE_UPSAMPLE: return &spec_words_upsample;
    case SPEC_TYPE_ACTIVATION: return &spec_words_activation;
    case SPEC_TYPE_REDUCTION: return &spec_words_reduction;
    case SPEC_TYPE_COUNT: return &spec_words_count;
    case SPEC_TYPE_INT:
    case SPEC_TYPE_INT32:
    case SPEC_TYPE_SEED:
    case SPEC_TYPE_REAL:
    case SPEC_TYPE_BOOL:
    case SPEC_TYPE_PAIR:
    case SPEC_TYPE_OPTIONAL_PAIR:
    case SPEC_TYPE_REAL_PAIR:
    case SPEC_TYPE_BETAS:
    case SPEC_TYPE_OPTIONAL_REAL:
    case SPEC_TYPE_INTS:
    case SPEC_TYPE_MAYBE_INT:
    case SPEC_TYPE_MAYBE_REAL:
    case SPEC_TYPE_NAME:
    case SPEC_TYPE_PATH:
    case SPEC_TYPE_OPTIONAL_PATH:
    case SPEC_TYPE_CUSTOM: return NULL;
    }
    return NULL;
}

const char *
spec_words_name(const struct spec_words *words, int value)
{
    for (int i = 0; i < words->n; i++)
        if (words->list[i].value == value)
            return words->list[i].name;
    return NULL;
}
