/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_keys: spec_keys.def as tables.
 *
 * Private to proto/ and to the test of traind-spec(5). Holds for each key its
 * type, range, default, place in its struct and a sentence. Constant data.
 */
#ifndef PROTO_SPEC_KEYS_H
#define PROTO_SPEC_KEYS_H

#include "proto/spec.h"

enum spec_object {
    SPEC_OBJECT_ROOT,
    SPEC_OBJECT_DATA,
    SPEC_OBJECT_SOURCE,
    SPEC_OBJECT_AUGMENT,
    SPEC_OBJECT_RANDOM_CROP,
    SPEC_OBJECT_HORIZONTAL_FLIP,
    SPEC_OBJECT_WEIGHTS,
    SPEC_OBJECT_NORMALIZE,
    SPEC_OBJECT_LAYER,
    SPEC_OBJECT_INIT_NORMAL,
    SPEC_OBJECT_INIT_UNIFORM,
    SPEC_OBJECT_RESIDUAL,
    SPEC_OBJECT_LINEAR,
    SPEC_OBJECT_CONV1D,
    SPEC_OBJECT_CONV2D,
    SPEC_OBJECT_CONV_TRANSPOSE2D,
    SPEC_OBJECT_MATMUL,
    SPEC_OBJECT_EMBEDDING,
    SPEC_OBJECT_POSITIONAL_EMBEDDING,
    SPEC_OBJECT_MULTIHEAD_ATTENTION,
    SPEC_OBJECT_SDPA,
    SPEC_OBJECT_BATCH_NORM,
    SPEC_OBJECT_LAYER_NORM,
    SPEC_OBJECT_GROUP_NORM,
    SPEC_OBJECT_RMS_NORM,
    SPEC_OBJECT_PRELU,
    SPEC_OBJECT_GELU,
    SPEC_OBJECT_SOFTPLUS,
    SPEC_OBJECT_POW,
    SPEC_OBJECT_DROPOUT,
    SPEC_OBJECT_BINARY,
    SPEC_OBJECT_WHERE,
    SPEC_OBJECT_COSINE_SIMILARITY,
    SPEC_OBJECT_SOFTMAX,
    SPEC_OBJECT_REDUCE,
    SPEC_OBJECT_PROD,
    SPEC_OBJECT_CUMSUM,
    SPEC_OBJECT_NORM,
    SPEC_OBJECT_MAX_POOL2D,
    SPEC_OBJECT_AVG_POOL2D,
    SPEC_OBJECT_ADAPTIVE_AVG_POOL2D,
    SPEC_OBJECT_UPSAMPLE,
    SPEC_OBJECT_FLATTEN,
    SPEC_OBJECT_UNFLATTEN,
    SPEC_OBJECT_RESHAPE,
    SPEC_OBJECT_TRANSPOSE,
    SPEC_OBJECT_NARROW,
    SPEC_OBJECT_JOIN, /* cat, stack */
    SPEC_OBJECT_MLP,
    SPEC_OBJECT_RESNET,
    SPEC_OBJECT_GPT,
    SPEC_OBJECT_CROSS_ENTROPY,
    SPEC_OBJECT_NLL,
    SPEC_OBJECT_SMOOTH_L1,
    SPEC_OBJECT_HUBER,
    SPEC_OBJECT_KL_DIV,
    SPEC_OBJECT_OPTIM,
    SPEC_OBJECT_SGD,
    SPEC_OBJECT_ADAM,
    SPEC_OBJECT_ADAMW,
    SPEC_OBJECT_ADAGRAD,
    SPEC_OBJECT_RMSPROP,
    SPEC_OBJECT_LION,
    SPEC_OBJECT_SGD_GROUP,
    SPEC_OBJECT_ADAM_GROUP,
    SPEC_OBJECT_ADAGRAD_GROUP,
    SPEC_OBJECT_RMSPROP_GROUP,
    SPEC_OBJECT_LION_GROUP,
    SPEC_OBJECT_CONSTANT,
    SPEC_OBJECT_STEP,
    SPEC_OBJECT_DECAY,
    SPEC_OBJECT_AMP,
    SPEC_OBJECT_SCALER,
    SPEC_OBJECT_TRAIN,
    SPEC_OBJECT_EMA,
    SPEC_OBJECT_EVALUATE,
    SPEC_OBJECT_CHECKPOINT,
    SPEC_OBJECT_GUARD,
    SPEC_OBJECT_RULE,
    SPEC_OBJECT_WHEN,
    SPEC_OBJECT_WITH,
    SPEC_OBJECT_DIAGNOSE,
    SPEC_OBJECT_EMPTY, /* an object without keys: {"relu": {}} */
    SPEC_OBJECT_COUNT
};

/* What a value is and where it goes. */
enum spec_type {
    SPEC_TYPE_INT,           /* int64_t */
    SPEC_TYPE_INT32,         /* int */
    SPEC_TYPE_SEED,          /* uint64_t */
    SPEC_TYPE_REAL,          /* double */
    SPEC_TYPE_BOOL,          /* bool */
    SPEC_TYPE_PAIR,          /* int64_t[2]; n stands for [n, n] */
    SPEC_TYPE_OPTIONAL_PAIR, /* int64_t[2]; 0, 0 for null */
    SPEC_TYPE_REAL_PAIR,     /* double[2]; 0, 0 for null */
    SPEC_TYPE_BETAS,         /* double[2] */
    SPEC_TYPE_OPTIONAL_REAL, /* double; 0 for null */
    SPEC_TYPE_INTS,          /* int64_t[], beside it an int how many; null: 0 */
    SPEC_TYPE_MAYBE_INT,     /* int64_t, beside it a bool: not null */
    SPEC_TYPE_MAYBE_REAL,    /* double, the same */
    SPEC_TYPE_NAME,          /* const char * */
    SPEC_TYPE_PATH,          /* const char * */
    SPEC_TYPE_OPTIONAL_PATH, /* const char *, NULL for null */
    SPEC_TYPE_DEVICE,        /* const char *, one of spec_devices */
    SPEC_TYPE_FORMAT,        /* the enums of spec.h and dtype.h */
    SPEC_TYPE_GELU,
    SPEC_TYPE_UPSAMPLE,
    SPEC_TYPE_REDUCTION,
    SPEC_TYPE_COUNT,
    SPEC_TYPE_ACTIVATION, /* enum spec_layer_kind */
    SPEC_TYPE_DTYPE,
    SPEC_TYPE_WGRAD,
    SPEC_TYPE_CUSTOM
};

struct spec_range {
    double low, high;
    bool low_open, high_open; /* the bound itself is outside */
    const char *words;        /* "an integer, 1 or more" */
};

struct spec_key {
    enum spec_object object;
    const char *name;
    enum spec_type type;
    size_t offset;
    size_t beside; /* offset of the count or the bool of some types */
    size_t size;   /* of the member */
    struct spec_range range;
    bool required;
    const char *fallback; /* default as JSON text; NULL: required, computed */
    const char *words;    /* the default in words; NULL: required */
    const char *explain;  /* type, range, default, doc in one sentence */
};

struct spec_section {
    enum spec_object object;
    const char *path; /* "data.train"; a layer's kind */
};

extern const struct spec_key spec_keys_table[];
extern const int spec_keys_n;
extern const struct spec_section spec_keys_sections[];
extern const int spec_keys_n_sections;

/* The object whose section has this path: a layer's kind, "loss.huber"; EMPTY
 * where there is no such section. */
enum spec_object spec_keys_find_object(const char *path);

#endif
