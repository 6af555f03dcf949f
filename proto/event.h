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
#define EVENT_MAX_SAMPLES 16  /* named as the cause of an incident */

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
/* What made an iteration, or an evaluation, an incident. */
enum event_trigger {
    EVENT_TRIGGER_SKIP,   /* a gradient was not finite */
    EVENT_TRIGGER_LOSS,   /* the loss was not, but every gradient was */
    EVENT_TRIGGER_METRIC, /* the loss of an evaluation was not */
    EVENT_TRIGGER_WEIGHTS /* a weight or a running statistic was not */
};
/* What was wrong; numerics, section 4. */
enum event_verdict {
    EVENT_VERDICT_NONE, /* not replayed, or the replay found nothing */
    EVENT_VERDICT_SCALE_OVERFLOW,
    EVENT_VERDICT_FORWARD_OVERFLOW,
    EVENT_VERDICT_BACKWARD_OVERFLOW, /* forward finite, backward not at any
                                        scale down to the floor, float32 is */
    EVENT_VERDICT_BAD_INPUT,
    EVENT_VERDICT_DIVERGENCE,
    EVENT_VERDICT_OPTIMIZER
};
/* To a question that a diagnosis may have asked. */
enum event_answer { EVENT_NOT_ASKED, EVENT_NO, EVENT_YES };
/* What a guard does. */
enum event_action {
    EVENT_ACTION_CONTINUE,
    EVENT_ACTION_PAUSE,
    EVENT_ACTION_FAIL,
    EVENT_ACTION_ROLLBACK
};
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
    EVENT_OUTCOME_FAILED,
    EVENT_OUTCOME_PAUSED, /* by a guard */
    EVENT_OUTCOME_GO_BACK /* a guard asks for a rollback; see finished */
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
    EVENT_FINISHED,
    EVENT_GUARD,
    EVENT_INCIDENT_PRUNED
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
            enum event_trigger trigger;
            enum event_verdict verdict;
            const char *sentence; /* what happened, for a researcher */
            const char *cure;     /* JSON: a spec fragment to merge, or "" */
            /* The same numbers run again: in float32; in bfloat16, for a
             * float16 run, else float16's answer is not asked; with autocast
             * off at the located layer alone. */
            enum event_answer fp32_finite, bf16_finite, alone_finite;
            double finite_scale; /* largest tried scale (a power of two
                                       below `scale`) at which the iteration is
                                       finite; NaN: none, or not asked */
            const char *regions; /* smallest set of float32 regions that
                                       cures it: "fc1, fc2"; "" none */
            bool has_fp32_value;
            double fp32_value;      /* at the index, recomputed in float32 */
            const int64_t *samples; /* ids of the samples that cause it, */
            int n_samples;          /* the first EVENT_MAX_SAMPLES of */
            int64_t n_guilty;       /* so many; 0: no single sample does */
            int64_t data_position;  /* window of the data; -1: none */
            const char *name;       /* directory under incidents/ where it is
                                       kept, "" */
            int64_t kept_bytes;
            int64_t runs, cost_us; /* of the diagnosis */
        } incident;
        struct {
            const char *name;
        } incident_pruned;
        struct {
            int64_t rule;          /* number in the effective list of guards */
            const char *condition; /* "consecutive_skips" */
            const char *text;      /* what was seen, with its numbers */
            double value, bound;   /* seen, and allowed */
            enum event_action action; /* what is really done */
            const char *change;       /* JSON: a spec fragment, or "" */
        } guard;
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
            /* Of GO_BACK: where to and what to change on the way. */
            const char *to;     /* "last" or "best" */
            const char *change; /* JSON: a spec fragment to merge, or "" */
            double scale;       /* scale to begin with; NaN: the checkpoint's */
            const int64_t *skip_windows; /* pairs: data position, how many */
            int n_skip_windows;          /* numbers in it: 2 x pairs */
        } finished;
    } u;
};

const char *event_kind_name(enum event_kind kind);
const char *event_pass_name(enum event_pass pass);
const char *event_nonfinite_name(enum event_nonfinite what);
const char *event_scale_cause_name(enum event_scale_cause cause);
const char *event_checkpoint_cause_name(enum event_checkpoint_cause cause);
const char *event_outcome_name(enum event_outcome outcome);
const char *event_trigger_name(enum event_trigger trigger);
/* "" for NONE. */
const char *event_verdict_name(enum event_verdict verdict);
/* "", "no", "yes" */
const char *event_answer_name(enum event_answer answer);
const char *event_action_name(enum event_action action);

/* Back from names; -1 when there is none such. */
int event_kind_parse(const char *name);
int event_pass_parse(const char *name);
int event_nonfinite_parse(const char *name);
int event_scale_cause_parse(const char *name);
int event_checkpoint_cause_parse(const char *name);
int event_outcome_parse(const char *name);
int event_trigger_parse(const char *name);
int event_verdict_parse(const char *name);
int event_answer_parse(const char *name);
int event_action_parse(const char *name);

#endif
