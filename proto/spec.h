/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec: the job spec, from JSON text to a checked struct and back.
 *
 * Owns the meaning of every key of traind-spec(5): its type, range, default
 * and PyTorch name. Pure: text in, struct or list of faults out; opens no file
 * but resolves paths textually. The client calls it on the user's file, the
 * daemon on what the client sent, the worker on what the daemon stored. All
 * faults of a text are found in one pass, each with line, column and path.
 * A struct spec is one allocation tree freed by spec_destroy(); every pointer
 * in it is owned by it. Shapes are not checked here (engine/graph/build does).
 */
#ifndef PROTO_SPEC_H
#define PROTO_SPEC_H

#include "proto/dtype.h"
#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPEC_MAX_BYTES  (1024 * 1024)
#define SPEC_MAX_DEPTH  64
#define SPEC_MAX_LAYERS 4096
#define SPEC_NAME_MAX   128 /* bytes of a job's name, UTF-8, no control chars */

enum spec_layer_kind {
#define LAYER(id, name, doc) SPEC_LAYER_##id,
#include "proto/layers.def"
#undef LAYER
    SPEC_LAYER_COUNT
};

enum spec_format { SPEC_FORMAT_IDX, SPEC_FORMAT_NPY };
enum spec_loss {
    SPEC_LOSS_CROSS_ENTROPY,
    SPEC_LOSS_MSE,
    SPEC_LOSS_L1,
    SPEC_LOSS_BCE_WITH_LOGITS
};
enum spec_optimizer {
    SPEC_OPTIMIZER_SGD,
    SPEC_OPTIMIZER_ADAM,
    SPEC_OPTIMIZER_ADAMW
};
enum spec_schedule {
    SPEC_SCHEDULE_CONSTANT,
    SPEC_SCHEDULE_STEP,   /* lr x gamma^floor(u / step_size) */
    SPEC_SCHEDULE_COSINE, /* from lr to min_lr over total_updates */
    SPEC_SCHEDULE_LINEAR  /* from lr to min_lr over total_updates */
};
enum spec_metric { SPEC_METRIC_LOSS, SPEC_METRIC_ACCURACY, SPEC_METRIC_COUNT };
enum spec_wgrad { SPEC_WGRAD_FP32, SPEC_WGRAD_PYTORCH };
enum spec_gelu { SPEC_GELU_NONE, SPEC_GELU_TANH };

const char *spec_layer_name(enum spec_layer_kind kind);
const char *spec_loss_name(enum spec_loss loss);
const char *spec_optimizer_name(enum spec_optimizer optimizer);
const char *spec_schedule_name(enum spec_schedule schedule);
const char *spec_metric_name(enum spec_metric metric);
const char *spec_format_name(enum spec_format format);

/* A layer. `path` is where messages find it: "2", "head", "5.0" inside a
 * residual at position 5. A name may not contain '.' and is unique among its
 * siblings. line and col are 1-based places in the parsed text, 0 if none. */
struct spec_layer {
    enum spec_layer_kind kind;
    const char *path;
    int line, col;
    union {
        struct {
            int64_t out_features;
            bool bias;
        } linear;
        struct {
            int64_t out_channels;
            int64_t kernel_size[2], stride[2], padding[2], dilation[2];
            int64_t groups;
            bool bias;
        } conv2d;
        struct {
            double eps, momentum;
            bool affine;
        } batch_norm;
        struct { /* over the last axis of any input when n_shape is 0 */
            int64_t shape[4];
            int n_shape;
            double eps;
            bool affine;
        } layer_norm;
        struct {
            enum spec_gelu approximate;
        } gelu;
        struct {
            int64_t kernel_size[2], stride[2], padding[2];
            bool count_include_pad; /* avg only */
        } pool2d;
        struct {
            int64_t output_size[2];
        } adaptive;
        struct {
            double p;
        } dropout;
    } u;
    struct spec_layer *body; /* residual only */
    int n_body;
};

/* Files of one split; absolute paths after spec_resolve_paths(). */
struct spec_source {
    bool present;
    enum spec_format format;
    const char *input;
    const char *target;
};

/* Settings of a parameter group. Group 0 is the default group; the others say
 * which parameters they take by fnmatch(3) patterns over parameter paths
 * ("head.*", "*.bias"), first match wins. */
struct spec_group {
    const char **match;
    int n_match;
    double lr, weight_decay;
    double momentum, dampening; /* sgd */
    bool nesterov;              /* sgd */
    double betas[2], eps;       /* adam, adamw */
};

struct spec_scaler { /* numerics: GradScaler, with PyTorch's names */
    bool enabled;    /* default: amp.dtype is float16 */
    double init_scale, growth_factor, backoff_factor;
    int64_t growth_interval;
    double min_scale, max_scale; /* 0 = none */
};

struct spec {
    const char *name;
    uint64_t seed;
    const char *device; /* "cpu" */
    int threads;        /* 0 = all processors the process may use */
    struct {
        struct spec_source train, validation;
        double *mean, *std; /* per channel, or one for all */
        int n_normalize;    /* 0 = none, 1, or channels */
        int64_t batch_size;
        bool shuffle, drop_last;
    } data;
    const char *initial_weights; /* safetensors file or NULL */
    struct spec_layer *model;
    int n_model;
    struct {
        enum spec_loss kind;
        double label_smoothing;
        bool has_ignore_index;
        int64_t ignore_index;
    } loss;
    struct {
        enum spec_optimizer kind;
        struct spec_group *group;
        int n_group; /* >= 1 */
    } optimizer;
    struct {
        enum spec_schedule kind;
        int64_t warmup_updates; /* lr x (u + 1) / warmup while u < warmup */
        int64_t step_size;
        double gamma;
        int64_t total_updates; /* 0 = the whole run */
        double min_lr;
    } schedule;
    struct {
        enum dtype dtype; /* F32: autocast off */
        struct spec_scaler scaler;
        const char **fp32_regions; /* layer paths; a residual's path covers
                                      its body */
        int n_fp32_regions;
        enum spec_wgrad wgrad_rounding;
    } amp;
    struct {
        int64_t epochs;
        int64_t max_iterations; /* 0 = no limit but epochs */
        int64_t accumulate;
        double clip_grad_norm; /* 0 = off */
    } train;
    struct {
        int64_t every_updates; /* 0 = only at the end */
        bool metric[SPEC_METRIC_COUNT];
    } evaluate;
    struct {
        int64_t every_updates; /* 0 = only at the end, on demand, on stop */
        int64_t keep;
        bool has_best;
        enum spec_metric best; /* accuracy: larger is better; loss: smaller */
    } checkpoint;
    void *memory; /* owned: what all the pointers above point into */
};

struct spec_fault {
    int line, col;     /* 1-based */
    char path[160];    /* "model[2].conv2d.kernel_size" */
    char message[256]; /* "unknown key; did you mean kernel_size?" */
};

struct spec_faults {
    struct spec_fault *list; /* owned */
    int n;
};

void spec_faults_fini(struct spec_faults *faults);

/* Parses and checks text (len bytes, need not end in NUL). 0 and *out, or
 * ERR_SPEC with at least one fault (at most 100, in order of place) and *out
 * NULL; ERR_NOMEM. */
int spec_parse(const char *text, size_t len, struct spec **out,
               struct spec_faults *faults);

/* Place (1-based) of the value at a path of keys alone, as in
 * "data.train.input"; false and 0, 0 where text has no such value. */
bool spec_find_place(const char *text, size_t len, const char *path, int *line,
                     int *col);

/* Makes relative paths absolute against dir (absolute, textual). */
int spec_resolve_paths(struct spec *spec, const char *dir, struct err *err);

/* Applies "path=value" to JSON text (value is JSON, or a bare string) and
 * returns new text in *out (malloc'd, NUL-terminated). Unknown paths are left
 * to spec_parse() to refuse. */
int spec_set(const char *text, size_t len, const char *assignment, char **out,
             struct err *err);

/* The full spec as canonical JSON with every default written out, two-space
 * indent; parsing it again gives an equal spec. malloc'd. NULL: no memory. */
char *spec_print(const struct spec *spec);

/* Documentation of one key ("amp.scaler.init_scale"), or NULL. */
const char *spec_explain_key(const char *path);

void spec_destroy(struct spec **spec);

#endif
