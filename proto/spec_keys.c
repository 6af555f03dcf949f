/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_keys.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "proto/spec_presets.h"

/* ---- ranges -------------------------------------------------------------- */

#define INT_LIMIT   2147483647.0       /* sizes: products stay in 64 bits */
#define STEP_LIMIT  9007199254740992.0 /* counters: exact as a double */
#define SEED_LIMIT  9223372036854775807.0
#define LABEL_LIMIT 9.2e18

#define WORDS_SIZE_0         "an integer, 0 or more"
#define WORDS_SIZE_1         "an integer, 1 or more"
#define WORDS_COUNT_0        "an integer, 0 or more"
#define WORDS_COUNT_1        "an integer, 1 or more"
#define WORDS_SEED           "an integer from 0 to 2^63 - 1"
#define WORDS_THREADS        "an integer from 0 to 1024"
#define WORDS_ANY            "a number"
#define WORDS_NONNEGATIVE    "a number, 0 or more"
#define WORDS_POSITIVE       "a number above 0"
#define WORDS_SHARE          "a number from 0 to 1"
#define WORDS_BELOW_1        "two numbers, each 0 or more and below 1"
#define WORDS_ABOVE_1        "a number above 1"
#define WORDS_INSIDE_0_1     "a number above 0 and below 1"
#define WORDS_BOOL           "true or false"
#define WORDS_TEXT           "a string"
#define WORDS_PATH           "a path"
#define WORDS_PATH_OR_NULL   "a path or null"
#define WORDS_OBJECT_OR_NULL "an object or null"
#define WORDS_DEVICE         "\"cpu\""
#define WORDS_FORMAT                                                           \
    "\"idx\", \"npy\", \"safetensors\", \"csv\", \"tokens\" or \"text\""
#define WORDS_GELU          "\"none\" or \"tanh\""
#define WORDS_DTYPE         "\"float32\", \"float16\" or \"bfloat16\""
#define WORDS_WGRAD         "\"fp32\" or \"pytorch\""
#define WORDS_OBJECT        "an object"
#define WORDS_LAYERS        "a list of layers"
#define WORDS_LOSS          "a loss: its name, or an object with its settings"
#define WORDS_OPTIMIZER     "an optimizer: its name, an object, or a list of such"
#define WORDS_SCHEDULE      "a schedule: its name, or an object of settings"
#define WORDS_ANY_LIST      "a number or a list of numbers"
#define WORDS_POSITIVE_LIST "a number above 0 or a list of such"
#define WORDS_SHAPE                                                            \
    "an integer, or a list of at most 4 integers, each 1 or more"
#define WORDS_SIZES                                                            \
    "a list of at most 6 integers, each 1 or more, or one of them -1"
#define WORDS_DIM              "an integer from -6 to 5"
#define WORDS_DIMS             "an integer from -6 to 5, a list of at most 6 such, or null"
#define WORDS_UPSAMPLE         "\"nearest\" or \"bilinear\""
#define WORDS_SIZE_OR_NULL     "an integer, 1 or more, or null"
#define WORDS_POSITIVE_OR_NULL "a number above 0, or null"
#define WORDS_VALUE            "a number or null"
#define WORDS_INDEX_OR_NULL    "an integer or null"
#define WORDS_INPUT            "the name of an earlier layer, or a list of such"
#define WORDS_INIT                                                             \
    "\"default\", \"zeros\", \"ones\", {\"normal\": ...} or {\"uniform\": "    \
    "...}"
#define WORDS_LAYER_PATH     "the name of an earlier layer"
#define WORDS_LAYERS_OR_NULL "a list of layers, or null"
#define WORDS_WIDTHS         "a list of at most 64 integers, each 1 or more"
#define WORDS_WIDTH          "an integer from 1 to 1048576"
#define WORDS_ACCUMULATE     "an integer from 1 to 65535"
#define WORDS_ACTIVATION     "\"relu\", \"gelu\", \"tanh\" or \"silu\""
#define WORDS_LABEL          "an integer or null"
#define WORDS_COLUMNS        "a list of column names or numbers"
#define WORDS_TOKEN_DTYPE    "\"uint16\", \"uint32\" or null"
#define WORDS_PART           "two numbers from 0 to 1, in order"
#define WORDS_WEIGHTS        "a path, null, or an object"
#define WORDS_REDUCTION      "\"mean\" or \"batchmean\""
#define WORDS_COUNT          "\"updates\" or \"iterations\""
#define WORDS_DECAY          "a number, 0 or more and below 1"
#define WORDS_CONTAINERS     "a list of fnmatch(3) patterns of containers"
#define WORDS_GROUPS         "a list of groups"
#define WORDS_PATTERNS       "a list of fnmatch(3) patterns of parameters"
#define WORDS_SCALER         "true, false or an object"
#define WORDS_REGIONS        "a list of layer paths"
#define WORDS_METRICS        "a list of loss, accuracy, top_k, perplexity, confusion"
#define WORDS_METRIC_OR_NULL                                                   \
    "\"loss\", \"accuracy\", \"top_k\", \"perplexity\" or null"
#define WORDS_GUARD                                                            \
    "\"default\", \"auto\", \"off\", a list of rules, or an object"
#define WORDS_GUARDS     "\"default\", \"auto\" or \"off\""
#define WORDS_RULES      "a list of at most 64 rules"
#define WORDS_ACTION     "\"continue\", \"pause\", \"fail\" or \"rollback\""
#define WORDS_TO         "\"last\" or \"best\""
#define WORDS_METRIC     "\"loss\", \"accuracy\", \"top_k\" or \"perplexity\""
#define WORDS_NON_FINITE "\"weights\", \"loss\" or \"metric\""
#define WORDS_VERDICT                                                          \
    "\"scale_overflow\", \"forward_overflow\", \"backward_overflow\", "        \
    "\"bad_input\", \"divergence\" or \"optimizer\""
#define WORDS_WINDOW "an integer from 2 to 65536"
#define WORDS_REGION "\"diagnosed\", a layer's path, or a list of such"
#define WORDS_TRUE   "true"
#define WORDS_WIDER  "\"bfloat16\" or \"float32\""

// clang-format off
/* Bounds and whether a bound itself is allowed: [low, high], (low, high], ...
 */
#define CLOSED(low, high, words)    {low, high, false, false, words}
#define OPEN_LOW(low, high, words)  {low, high, true, false, words}
#define OPEN_HIGH(low, high, words) {low, high, false, true, words}
#define OPEN(low, high, words)      {low, high, true, true, words}
#define WHOLE(words)                CLOSED(-HUGE_VAL, HUGE_VAL, words)

#define RANGE_SIZE_0 CLOSED(0, INT_LIMIT, WORDS_SIZE_0)
#define RANGE_SIZE_1 CLOSED(1, INT_LIMIT, WORDS_SIZE_1)
#define RANGE_COUNT_0 CLOSED(0, STEP_LIMIT, WORDS_COUNT_0)
#define RANGE_COUNT_1 CLOSED(1, STEP_LIMIT, WORDS_COUNT_1)
#define RANGE_SEED CLOSED(0, SEED_LIMIT, WORDS_SEED)
#define RANGE_THREADS CLOSED(0, 1024, WORDS_THREADS)
#define RANGE_ANY CLOSED(-(double)FLT_MAX, FLT_MAX, WORDS_ANY)
#define RANGE_NONNEGATIVE CLOSED(0, FLT_MAX, WORDS_NONNEGATIVE)
#define RANGE_POSITIVE OPEN_LOW(0, FLT_MAX, WORDS_POSITIVE)
#define RANGE_SHARE CLOSED(0, 1, WORDS_SHARE)
#define RANGE_BELOW_1 OPEN_HIGH(0, 1, WORDS_BELOW_1)
#define RANGE_ABOVE_1 OPEN_LOW(1, FLT_MAX, WORDS_ABOVE_1)
#define RANGE_INSIDE_0_1 OPEN(0, 1, WORDS_INSIDE_0_1)
#define RANGE_BOOL WHOLE(WORDS_BOOL)
#define RANGE_TEXT WHOLE(WORDS_TEXT)
#define RANGE_PATH WHOLE(WORDS_PATH)
#define RANGE_PATH_OR_NULL WHOLE(WORDS_PATH_OR_NULL)
#define RANGE_OBJECT_OR_NULL WHOLE(WORDS_OBJECT_OR_NULL)
#define RANGE_DEVICE WHOLE(WORDS_DEVICE)
#define RANGE_FORMAT WHOLE(WORDS_FORMAT)
#define RANGE_GELU WHOLE(WORDS_GELU)
#define RANGE_DTYPE WHOLE(WORDS_DTYPE)
#define RANGE_WGRAD WHOLE(WORDS_WGRAD)
#define RANGE_OBJECT WHOLE(WORDS_OBJECT)
#define RANGE_LAYERS WHOLE(WORDS_LAYERS)
#define RANGE_LOSS WHOLE(WORDS_LOSS)
#define RANGE_OPTIMIZER WHOLE(WORDS_OPTIMIZER)
#define RANGE_SCHEDULE WHOLE(WORDS_SCHEDULE)
#define RANGE_ANY_LIST CLOSED(-(double)FLT_MAX, FLT_MAX, WORDS_ANY_LIST)
#define RANGE_POSITIVE_LIST OPEN_LOW(0, FLT_MAX, WORDS_POSITIVE_LIST)
#define RANGE_SHAPE CLOSED(1, INT_LIMIT, WORDS_SHAPE)
#define RANGE_SIZES CLOSED(-1, INT_LIMIT, WORDS_SIZES)
#define RANGE_DIM CLOSED(-6, 5, WORDS_DIM)
#define RANGE_DIMS CLOSED(-6, 5, WORDS_DIMS)
#define RANGE_UPSAMPLE WHOLE(WORDS_UPSAMPLE)
#define RANGE_SIZE_OR_NULL CLOSED(1, INT_LIMIT, WORDS_SIZE_OR_NULL)
#define RANGE_POSITIVE_OR_NULL OPEN_LOW(0, FLT_MAX, WORDS_POSITIVE_OR_NULL)
#define RANGE_VALUE CLOSED(-(double)FLT_MAX, FLT_MAX, WORDS_VALUE)
#define RANGE_INDEX_OR_NULL CLOSED(-INT_LIMIT, INT_LIMIT, WORDS_INDEX_OR_NULL)
#define RANGE_INPUT WHOLE(WORDS_INPUT)
#define RANGE_INIT WHOLE(WORDS_INIT)
#define RANGE_LAYER_PATH WHOLE(WORDS_LAYER_PATH)
#define RANGE_LAYERS_OR_NULL WHOLE(WORDS_LAYERS_OR_NULL)
#define RANGE_WIDTHS CLOSED(1, INT_LIMIT, WORDS_WIDTHS)
#define RANGE_WIDTH CLOSED(1, 1048576, WORDS_WIDTH)
/* A micro-batch has 16 bits in the counter of a random number: philox.h. */
#define RANGE_ACCUMULATE CLOSED(1, 65535, WORDS_ACCUMULATE)
#define RANGE_ACTIVATION WHOLE(WORDS_ACTIVATION)
#define RANGE_LABEL CLOSED(-LABEL_LIMIT, LABEL_LIMIT, WORDS_LABEL)
#define RANGE_COLUMNS WHOLE(WORDS_COLUMNS)
#define RANGE_TOKEN_DTYPE WHOLE(WORDS_TOKEN_DTYPE)
#define RANGE_PART WHOLE(WORDS_PART)
#define RANGE_WEIGHTS WHOLE(WORDS_WEIGHTS)
#define RANGE_REDUCTION WHOLE(WORDS_REDUCTION)
#define RANGE_COUNT WHOLE(WORDS_COUNT)
#define RANGE_DECAY OPEN_HIGH(0, 1, WORDS_DECAY)
#define RANGE_CONTAINERS WHOLE(WORDS_CONTAINERS)
#define RANGE_GROUPS WHOLE(WORDS_GROUPS)
#define RANGE_PATTERNS WHOLE(WORDS_PATTERNS)
#define RANGE_SCALER WHOLE(WORDS_SCALER)
#define RANGE_REGIONS WHOLE(WORDS_REGIONS)
#define RANGE_METRICS WHOLE(WORDS_METRICS)
#define RANGE_METRIC_OR_NULL WHOLE(WORDS_METRIC_OR_NULL)
#define RANGE_GUARD WHOLE(WORDS_GUARD)
#define RANGE_GUARDS WHOLE(WORDS_GUARDS)
#define RANGE_RULES WHOLE(WORDS_RULES)
#define RANGE_ACTION WHOLE(WORDS_ACTION)
#define RANGE_TO WHOLE(WORDS_TO)
#define RANGE_METRIC WHOLE(WORDS_METRIC)
#define RANGE_NON_FINITE WHOLE(WORDS_NON_FINITE)
#define RANGE_VERDICT WHOLE(WORDS_VERDICT)
#define RANGE_WINDOW CLOSED(2, SPEC_GUARD_MAX_WINDOW, WORDS_WINDOW)
#define RANGE_REGION WHOLE(WORDS_REGION)
#define RANGE_TRUE WHOLE(WORDS_TRUE)
#define RANGE_WIDER WHOLE(WORDS_WIDER)
// clang-format on

/* ---- keys ---------------------------------------------------------------- */

/* A pair accepts one number too; its words come from its range. */
#define PREFIX_INT           ""
#define PREFIX_INT32         ""
#define PREFIX_SEED          ""
#define PREFIX_REAL          ""
#define PREFIX_BOOL          ""
#define PREFIX_PAIR          "one or [h, w]: "
#define PREFIX_OPTIONAL_PAIR "one or [h, w]: "
#define PREFIX_REAL_PAIR     "one or [h, w]: "
#define PREFIX_BETAS         ""
#define PREFIX_OPTIONAL_REAL ""
#define PREFIX_INTS          ""
#define PREFIX_MAYBE_INT     ""
#define PREFIX_MAYBE_REAL    ""
#define PREFIX_NAME          ""
#define PREFIX_PATH          ""
#define PREFIX_OPTIONAL_PATH ""
#define PREFIX_DEVICE        ""
#define PREFIX_FORMAT        ""
#define PREFIX_GELU          ""
#define PREFIX_UPSAMPLE      ""
#define PREFIX_REDUCTION     ""
#define PREFIX_COUNT         ""
#define PREFIX_ACTIVATION    ""
#define PREFIX_DTYPE         ""
#define PREFIX_WGRAD         ""
#define PREFIX_CUSTOM        ""

#define SIZE_OF(base, member) sizeof(((struct base *)NULL)->member)

const struct spec_key spec_keys_table[] = {
#define SECTION(object, path)
#define ROW(object, base, key, type, member, beside, range, need, fallback,    \
            words, explain)                                                    \
    {SPEC_OBJECT_##object,                                                     \
     key,                                                                      \
     SPEC_TYPE_##type,                                                         \
     offsetof(struct base, member),                                            \
     offsetof(struct base, beside),                                            \
     SIZE_OF(base, member),                                                    \
     RANGE_##range,                                                            \
     need,                                                                     \
     fallback,                                                                 \
     words,                                                                    \
     PREFIX_##type WORDS_##range explain},
#define NEED(object, base, key, type, member, range, doc)                      \
    ROW(object, base, key, type, member, member, range, true, NULL, NULL,      \
        "; required. " doc)
#define KEY(object, base, key, type, member, range, fallback, doc)             \
    ROW(object, base, key, type, member, member, range, false, fallback,       \
        fallback, "; default " fallback ". " doc)
#define CALC(object, base, key, type, member, range, words, doc)               \
    ROW(object, base, key, type, member, member, range, false, NULL, words,    \
        "; default: " words ". " doc)
#define NEED_MANY(object, base, key, type, member, beside, range, doc)         \
    ROW(object, base, key, type, member, beside, range, true, NULL, NULL,      \
        "; required. " doc)
#define MANY(object, base, key, type, member, beside, range, doc)              \
    ROW(object, base, key, type, member, beside, range, false, "null", "null", \
        "; default null. " doc)
#include "proto/spec_keys.def"
#undef SECTION
#undef NEED
#undef KEY
#undef CALC
#undef NEED_MANY
#undef MANY
};
const int spec_keys_n =
    (int)(sizeof(spec_keys_table) / sizeof(spec_keys_table[0]));

const struct spec_section spec_keys_sections[] = {
#define SECTION(object, path) {SPEC_OBJECT_##object, path},
#define NEED(object, base, key, type, member, range, doc)
#define KEY(object, base, key, type, member, range, fallback, doc)
#define CALC(object, base, key, type, member, range, words, doc)
#define NEED_MANY(object, base, key, type, member, beside, range, doc)
#define MANY(object, base, key, type, member, beside, range, doc)
#include "proto/spec_keys.def"
#undef SECTION
#undef NEED
#undef KEY
#undef CALC
#undef NEED_MANY
#undef MANY
};
const int spec_keys_n_sections =
    (int)(sizeof(spec_keys_sections) / sizeof(spec_keys_sections[0]));

enum spec_object
spec_keys_find_object(const char *path)
{
    for (int i = 0; i < spec_keys_n_sections; i++)
        if (strcmp(spec_keys_sections[i].path, path) == 0)
            return spec_keys_sections[i].object;
    return SPEC_OBJECT_EMPTY;
}
