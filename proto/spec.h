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
#include "proto/spec_guard.h"
#include "proto/spec_model.h"

#include <stddef.h>

#define SPEC_MAX_BYTES  (1024 * 1024)
#define SPEC_MAX_DEPTH  64
#define SPEC_MAX_LAYERS 4096
#define SPEC_NAME_MAX   128 /* bytes of a job's name, UTF-8, no control chars */

enum spec_format {
    SPEC_FORMAT_IDX,
    SPEC_FORMAT_NPY,
    SPEC_FORMAT_SAFETENSORS,
    SPEC_FORMAT_CSV,
    SPEC_FORMAT_TOKENS, /* ids of 16 or 32 bits; llm.c's header or none */
    SPEC_FORMAT_TEXT    /* bytes are token ids 0 .. 255 */
};
enum spec_loss {
    SPEC_LOSS_CROSS_ENTROPY,
    SPEC_LOSS_NLL,
    SPEC_LOSS_MSE,
    SPEC_LOSS_L1,
    SPEC_LOSS_SMOOTH_L1,
    SPEC_LOSS_HUBER,
    SPEC_LOSS_KL_DIV,
    SPEC_LOSS_BCE_WITH_LOGITS
};
enum spec_optimizer {
    SPEC_OPTIMIZER_SGD,
    SPEC_OPTIMIZER_ADAM,
    SPEC_OPTIMIZER_ADAMW,
    SPEC_OPTIMIZER_ADAGRAD,
    SPEC_OPTIMIZER_RMSPROP,
    SPEC_OPTIMIZER_LION
};
enum spec_schedule {
    SPEC_SCHEDULE_CONSTANT,
    SPEC_SCHEDULE_STEP,   /* lr x gamma^floor(u / step_size) */
    SPEC_SCHEDULE_COSINE, /* from lr to min_lr over total_updates */
    SPEC_SCHEDULE_LINEAR  /* from lr to min_lr over total_updates */
};
enum spec_wgrad { SPEC_WGRAD_FP32, SPEC_WGRAD_PYTORCH };
enum spec_reduction { SPEC_REDUCTION_MEAN, SPEC_REDUCTION_BATCHMEAN };
enum spec_count { SPEC_COUNT_UPDATES, SPEC_COUNT_ITERATIONS };
const char *spec_layer_name(enum spec_layer_kind kind);
const char *spec_loss_name(enum spec_loss loss);
const char *spec_optimizer_name(enum spec_optimizer optimizer);
const char *spec_schedule_name(enum spec_schedule schedule);
const char *spec_metric_name(enum spec_metric metric);
/* Of two values the larger is the better one (accuracy, top_k), or the smaller
 * (loss, perplexity). */
bool spec_metric_is_larger_better(enum spec_metric metric);
const char *spec_format_name(enum spec_format format);

/* Files of one split; absolute paths after spec_resolve_paths(). */
struct spec_source {
    bool present;
    enum spec_format format;
    const char *input;
    const char *target;          /* idx, npy; NULL otherwise */
    const char *input_name;      /* safetensors: tensors in the file `input` */
    const char *target_name;     /* or in `target`, where that is given */
    const char **target_columns; /* csv: by name, or by number from 0 */
    int n_target_columns;
    enum dtype token_dtype; /* tokens: U16, U32; NONE: as its header says */
    double part[2];         /* tokens, text: from, to as shares of the file */
    const char *mask;       /* npy of bool or u8 like the targets, 0: does not
                               count; NULL */
};

/* Settings of a parameter group. Group 0 is the default group; the others say
 * which parameters they take by fnmatch(3) patterns over parameter paths
 * ("head.*", "*.bias"), first match wins. */
struct spec_group {
    const char **match;
    int n_match;
    double lr, weight_decay;
    double momentum, dampening; /* sgd; momentum: rmsprop too */
    bool nesterov;              /* sgd */
    double betas[2], eps;       /* adam, adamw; betas: lion; eps: all but
                                      sgd and lion */
    double lr_decay;            /* adagrad */
    double initial_accumulator; /* adagrad */
    double alpha;               /* rmsprop */
    bool centered;              /* rmsprop */
};

/* One of the optimizers. With several, each takes the parameters that its
 * patterns match, first match wins; together they take all. */
struct spec_optim {
    enum spec_optimizer kind;
    const char **match; /* n_match 0: everything that is left */
    int n_match;
    struct spec_group *group;
    int n_group; /* >= 1 */
};

#define SPEC_MAX_OPTIMIZERS 4

struct spec_scaler { /* numerics: GradScaler, with PyTorch's names */
    bool enabled;    /* default: amp.dtype is float16 */
    bool dynamic;    /* false: the scale stays at init_scale */
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
        int64_t sequence_length;  /* tokens, text: of a sample; 0 otherwise */
        struct {                  /* of training images */
            int64_t crop_padding; /* random crop of the padded image; 0: off */
            double flip_p;        /* horizontal flip; 0: off */
        } augment;
    } data;
    const char *initial_weights;  /* safetensors file or NULL */
    bool initial_weights_partial; /* what fits by name, the rest stays */
    struct spec_layer *model;
    int n_model;
    struct {
        enum spec_loss kind;
        double label_smoothing;
        bool has_ignore_index;
        int64_t ignore_index;
        double beta;                   /* smooth_l1 */
        double delta;                  /* huber */
        bool log_target;               /* kl_div */
        enum spec_reduction reduction; /* kl_div */
    } loss;
    struct spec_optim optim[SPEC_MAX_OPTIMIZERS];
    int n_optim; /* >= 1 */
    struct {
        enum spec_schedule kind;
        enum spec_count count;  /* what u counts */
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
        double clip_grad_norm;  /* 0 = off */
        double ema_decay;       /* 0 = no average of weights */
        bool ema_evaluate;      /* evaluate and sample with the average */
        const char **recompute; /* patterns of container paths whose activations
                                   are computed again in backward */
        int n_recompute;
    } train;
    struct {
        int64_t every_updates; /* 0 = only at the end */
        bool metric[SPEC_METRIC_COUNT];
        int64_t top_k;
    } evaluate;
    struct {
        int64_t every_updates; /* 0 = only at the end, on demand, on stop */
        int64_t keep;
        bool has_best;
        enum spec_metric best; /* accuracy, top_k: larger is better; loss,
                                  perplexity: smaller */
    } checkpoint;
    struct {
        enum spec_guards mode;
        struct spec_guard *rule; /* all that are in effect, defaults last */
        int n_rules, n_listed;   /* those of the list come first */
        int64_t max_rollbacks;
    } guard;
    struct {
        int64_t max_replays; /* skips of an attempt that are always replayed */
        double replay_share; /* of the wall time, for those after them */
        int64_t keep;        /* incidents kept on disk; 0 = none */
        int64_t keep_bytes;  /* of them all */
    } diagnose;
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

/* The files that a spec may name, by number from 0: the key and its path, NULL
 * where the spec names none. False behind the last one. */
bool spec_file_at(const struct spec *spec, int i, const char **key,
                  const char **path);

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

/* One rule of spec->guard.rule, of the list or of the set, as JSON in one line.
 * malloc'd. NULL: no memory. */
char *spec_print_rule(const struct spec *spec, int rule);

/* Documentation of one key ("amp.scaler.init_scale"), or NULL. */
const char *spec_explain_key(const char *path);

void spec_destroy(struct spec **spec);

#endif
