/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event: everything that a run can say.
 *
 * The engine fills these, the worker appends each as one JSON line to the
 * attempt's events.jsonl (see codec.h), the daemon reads that file and stores
 * each exactly once by (attempt, seq): one path, alive or after a crash. Plain
 * data: no pointer in it is owned; strings and arrays are borrowed for the
 * length of the call. Non-finite numbers are legal in every double below.
 */
#ifndef PROTO_EVENT_H
#define PROTO_EVENT_H

#include "proto/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENT_MAX_RANK    6
#define EVENT_TEXT_MAX    512
#define EVENT_NAME_MAX    160
#define EVENT_MAX_CLASSES 256 /* of a confusion table: it fits one line */

/* Where in the order of a step a value was produced; numerics, section 4. */
enum event_pass {
    EVENT_PASS_INPUT,
    EVENT_PASS_FORWARD,
    EVENT_PASS_LOSS,
    EVENT_PASS_BACKWARD,
    EVENT_PASS_UNSCALE,
    EVENT_PASS_OPTIMIZER,
    EVENT_PASS_COUNT
};
enum event_nonfinite { EVENT_NAN, EVENT_POS_INF, EVENT_NEG_INF };
enum event_scale_cause {
    EVENT_SCALE_SKIP,   /* found_inf: backoff; before == after at the floor or
                           with the scaler off */
    EVENT_SCALE_GROWTH, /* growth_interval clean updates */
    EVENT_SCALE_SET     /* by a person or a rollback */
};
enum event_checkpoint_cause {
    EVENT_CHECKPOINT_PERIODIC,
    EVENT_CHECKPOINT_DEMAND,
    EVENT_CHECKPOINT_STOP, /* pause, SIGTERM, daemon gone */
    EVENT_CHECKPOINT_END
};
enum event_outcome {
    EVENT_OUTCOME_COMPLETED,
    EVENT_OUTCOME_STOPPED, /* as ordered: pause, cancel, rollback, preempt */
    EVENT_OUTCOME_FAILED
};

enum event_kind {
    EVENT_STARTED = 1,
    EVENT_STEP,
    EVENT_SCALE,
    EVENT_INCIDENT,
    EVENT_EVALUATION,
    EVENT_CHECKPOINT,
    EVENT_CHECKPOINT_FAILED,
    EVENT_CHECKPOINT_PRUNED,
    EVENT_WARNING,
    EVENT_FINISHED
};

/* iteration = updates + skips, always; all counted from the job's start, over
 * attempts. iteration is the 1-based number of the one just done. */
struct event {
    int64_t seq;  /* 1, 2, ... within the attempt; set by the worker */
    int64_t t_us; /* wall clock, microseconds since the epoch; for display */
    enum event_kind kind;
    int64_t iteration, updates, skips; /* counters after this event */
    union {
        struct {
            const char *checkpoint; /* name resumed from, "" = from scratch */
            int64_t total_iterations, iterations_per_epoch;
            int64_t n_parameters, state_bytes, activation_bytes;
            const char *policy; /* JSON text: dtype, list version and hash,
                                   scaler, fp32 regions, backend, threads */
        } started;
        struct {
            bool skipped;
            double loss;      /* mean over the window */
            double grad_norm; /* of unscaled gradients, before clipping */
            double lr, scale; /* used in this iteration */
            int64_t samples;
            int64_t step_us; /* monotonic duration */
        } step;
        struct {
            enum event_scale_cause cause;
            double before, after;
            int64_t growth_tracker; /* after */
            const int64_t *samples; /* ids in the data set; skips only */
            int n_samples;
            bool partial; /* of several optimizers some stepped: the iteration
                             is an update, the backoff comes all the same */
            const char *optimizers; /* which did not, as in "0 sgd, 2 adam";
                                       "" where there is one */
        } scale;
        struct {
            bool replayed; /* false: budget used up, location unknown */
            bool located;  /* false with replayed: the replay was finite */
            enum event_pass pass;
            const char *layer, *op, *tensor;
            enum dtype dtype;
            int rank;
            int64_t index[EVENT_MAX_RANK]; /* logical (NCHW) index */
            enum event_nonfinite what;
            double scale;
            int64_t micro_batch;
            int64_t sample; /* id in the data set of index[0], -1 unknown */
        } incident;
        struct {
            /* NaN where not asked for. top_k: share of answers among the best
             * k; perplexity: exp of the loss. */
            double loss, accuracy, top_k, perplexity;
            int64_t n;       /* samples; labelled tokens, where there are many
                                to a sample */
            bool incomplete; /* stopped half way: never best */
            bool best;
            bool ema; /* of the averaged weights */
            /* Counts by row target, column prediction; 0: not asked for. */
            int n_classes;            /* <= EVENT_MAX_CLASSES */
            const int64_t *confusion; /* n_classes x n_classes */
        } evaluation;
        struct {
            const char *name; /* directory name under checkpoints/ */
            enum event_checkpoint_cause cause;
            int64_t bytes, duration_us;
            bool has_metric, best;
            double metric;
            const char *digest; /* of the manifest, hex */
        } checkpoint;
        struct {
            const char *name; /* "" when none came to be */
            const char *text;
        } checkpoint_failed;
        struct {
            const char *name;
        } checkpoint_pruned;
        struct {
            const char *text;
            double value; /* the number it is about; NaN: none */
        } warning;
        struct {
            enum event_outcome outcome;
            int error;        /* enum err_code */
            const char *text; /* "" when all is well */
        } finished;
    } u;
};

const char *event_kind_name(enum event_kind kind);
const char *event_pass_name(enum event_pass pass);
const char *event_nonfinite_name(enum event_nonfinite what);
const char *event_scale_cause_name(enum event_scale_cause cause);
const char *event_checkpoint_cause_name(enum event_checkpoint_cause cause);
const char *event_outcome_name(enum event_outcome outcome);

/* Back from names; -1 when there is none such. */
int event_kind_parse(const char *name);
int event_pass_parse(const char *name);
int event_nonfinite_parse(const char *name);
int event_scale_cause_parse(const char *name);
int event_checkpoint_cause_parse(const char *name);
int event_outcome_parse(const char *name);

#endif
