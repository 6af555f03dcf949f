/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/codec_event.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "proto/codec_view.h"

enum type {
    INT64,
    INT,
    REAL,
    BOOL,
    STRING,
    DTYPE,
    PASS,
    NONFINITE,
    SCALE_CAUSE,
    CHECKPOINT_CAUSE,
    OUTCOME,
    TRIGGER,
    VERDICT,
    ANSWER,
    ACTION,
    INTS,  /* a list of integers and its length, see length_of() */
    TABLE, /* u.evaluation.confusion and n_classes */
    INDEX  /* u.incident.index and rank */
};

struct field {
    enum event_kind kind;
    const char *name;
    enum type type;
    size_t offset;
};

#define F(KIND, member, name, type)                                            \
    {                                                                          \
        EVENT_##KIND, #name, type, offsetof(struct event, u.member.name)       \
    }

static const struct field fields[] = {
    F(STARTED, started, checkpoint, STRING),
    F(STARTED, started, total_iterations, INT64),
    F(STARTED, started, iterations_per_epoch, INT64),
    F(STARTED, started, n_parameters, INT64),
    F(STARTED, started, state_bytes, INT64),
    F(STARTED, started, activation_bytes, INT64),
    F(STARTED, started, policy, STRING),
    F(STEP, step, skipped, BOOL),
    F(STEP, step, loss, REAL),
    F(STEP, step, grad_norm, REAL),
    F(STEP, step, lr, REAL),
    F(STEP, step, scale, REAL),
    F(STEP, step, samples, INT64),
    F(STEP, step, step_us, INT64),
    F(SCALE, scale, cause, SCALE_CAUSE),
    F(SCALE, scale, before, REAL),
    F(SCALE, scale, after, REAL),
    F(SCALE, scale, growth_tracker, INT64),
    F(SCALE, scale, samples, INTS),
    F(SCALE, scale, partial, BOOL),
    F(SCALE, scale, optimizers, STRING),
    F(INCIDENT, incident, replayed, BOOL),
    F(INCIDENT, incident, located, BOOL),
    F(INCIDENT, incident, pass, PASS),
    F(INCIDENT, incident, layer, STRING),
    F(INCIDENT, incident, op, STRING),
    F(INCIDENT, incident, tensor, STRING),
    F(INCIDENT, incident, dtype, DTYPE),
    F(INCIDENT, incident, index, INDEX),
    F(INCIDENT, incident, what, NONFINITE),
    F(INCIDENT, incident, scale, REAL),
    F(INCIDENT, incident, micro_batch, INT64),
    F(INCIDENT, incident, sample, INT64),
    F(INCIDENT, incident, trigger, TRIGGER),
    F(INCIDENT, incident, verdict, VERDICT),
    F(INCIDENT, incident, sentence, STRING),
    F(INCIDENT, incident, cure, STRING),
    F(INCIDENT, incident, fp32_finite, ANSWER),
    F(INCIDENT, incident, bf16_finite, ANSWER),
    F(INCIDENT, incident, alone_finite, ANSWER),
    F(INCIDENT, incident, finite_scale, REAL),
    F(INCIDENT, incident, regions, STRING),
    F(INCIDENT, incident, has_fp32_value, BOOL),
    F(INCIDENT, incident, fp32_value, REAL),
    F(INCIDENT, incident, samples, INTS),
    F(INCIDENT, incident, n_guilty, INT64),
    F(INCIDENT, incident, data_position, INT64),
    F(INCIDENT, incident, name, STRING),
    F(INCIDENT, incident, kept_bytes, INT64),
    F(INCIDENT, incident, runs, INT64),
    F(INCIDENT, incident, cost_us, INT64),
    F(INCIDENT_PRUNED, incident_pruned, name, STRING),
    F(GUARD, guard, rule, INT64),
    F(GUARD, guard, condition, STRING),
    F(GUARD, guard, text, STRING),
    F(GUARD, guard, value, REAL),
    F(GUARD, guard, bound, REAL),
    F(GUARD, guard, action, ACTION),
    F(GUARD, guard, change, STRING),
    F(EVALUATION, evaluation, loss, REAL),
    F(EVALUATION, evaluation, accuracy, REAL),
    F(EVALUATION, evaluation, top_k, REAL),
    F(EVALUATION, evaluation, perplexity, REAL),
    F(EVALUATION, evaluation, n, INT64),
    F(EVALUATION, evaluation, incomplete, BOOL),
    F(EVALUATION, evaluation, best, BOOL),
    F(EVALUATION, evaluation, ema, BOOL),
    F(EVALUATION, evaluation, confusion, TABLE),
    F(CHECKPOINT, checkpoint, name, STRING),
    F(CHECKPOINT, checkpoint, cause, CHECKPOINT_CAUSE),
    F(CHECKPOINT, checkpoint, bytes, INT64),
    F(CHECKPOINT, checkpoint, duration_us, INT64),
    F(CHECKPOINT, checkpoint, has_metric, BOOL),
    F(CHECKPOINT, checkpoint, best, BOOL),
    F(CHECKPOINT, checkpoint, metric, REAL),
    F(CHECKPOINT, checkpoint, digest, STRING),
    F(CHECKPOINT_FAILED, checkpoint_failed, name, STRING),
    F(CHECKPOINT_FAILED, checkpoint_failed, text, STRING),
    F(CHECKPOINT_PRUNED, checkpoint_pruned, name, STRING),
    F(WARNING, warning, text, STRING),
    F(WARNING, warning, value, REAL),
    F(FINISHED, finished, outcome, OUTCOME),
    F(FINISHED, finished, error, INT),
    F(FINISHED, finished, text, STRING),
    F(FINISHED, finished, to, STRING),
    F(FINISHED, finished, change, STRING),
    F(FINISHED, finished, scale, REAL),
    F(FINISHED, finished, skip_windows, INTS),
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static const struct {
    const char *name;
    size_t offset;
} counters[] = {
    {"seq", offsetof(struct event, seq)},
    {"t_us", offsetof(struct event, t_us)},
    {"iteration", offsetof(struct event, iteration)},
    {"updates", offsetof(struct event, updates)},
    {"skips", offsetof(struct event, skips)},
};

#define N_COUNTERS (sizeof(counters) / sizeof(counters[0]))

/* The enumerations are all as large as an int; see the asserts. */
_Static_assert(sizeof(enum event_pass) == sizeof(int), "enum");
_Static_assert(sizeof(enum event_scale_cause) == sizeof(int), "enum");
_Static_assert(sizeof(enum dtype) == sizeof(int), "enum");

/* ---- out ----------------------------------------------------------------- */

static void
put_ints(struct text *t, const int64_t *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? "," : "");
        text_json_int(t, v[i]);
    }
    text_putc(t, ']');
}

/* Where an event of this kind has the length of its list of integers. */
static size_t
length_offset(enum event_kind kind)
{
    if (kind == EVENT_SCALE)
        return offsetof(struct event, u.scale.n_samples);
    if (kind == EVENT_INCIDENT)
        return offsetof(struct event, u.incident.n_samples);
    return offsetof(struct event, u.finished.n_skip_windows);
}

static const int *
length_of(const struct event *event)
{
    return (const void *)((const char *)event + length_offset(event->kind));
}

/* The word of a field that is an enumeration, else NULL. */
static const char *
word_of(enum type type, int v)
{
    switch (type) {
    case DTYPE: return dtype_name((enum dtype)v);
    case PASS: return event_pass_name((enum event_pass)v);
    case NONFINITE: return event_nonfinite_name((enum event_nonfinite)v);
    case SCALE_CAUSE: return event_scale_cause_name((enum event_scale_cause)v);
    case CHECKPOINT_CAUSE:
        return event_checkpoint_cause_name((enum event_checkpoint_cause)v);
    case OUTCOME: return event_outcome_name((enum event_outcome)v);
    case TRIGGER: return event_trigger_name((enum event_trigger)v);
    case VERDICT: return event_verdict_name((enum event_verdict)v);
    case ANSWER: return event_answer_name((enum event_answer)v);
    case ACTION: return event_action_name((enum event_action)v);
    case INT64:
    case INT:
    case REAL:
    case BOOL:
    case STRING:
    case INTS:
    case TABLE:
    case INDEX: break;
    }
    return NULL;
}

static void
put_field(struct text *t, const struct event *event, const struct field *f)
{
    const void *at = (const char *)event + f->offset;
    const char *s;

    switch (f->type) {
    case INT64: text_json_int(t, *(const int64_t *)at); return;
    case INT: text_json_int(t, *(const int *)at); return;
    case REAL: text_json_real(t, *(const double *)at); return;
    case BOOL: text_puts(t, *(const bool *)at ? "true" : "false"); return;
    case STRING:
        s = *(const char *const *)at;
        text_json_string(t, s != NULL ? s : "");
        return;
    case DTYPE:
    case PASS:
    case NONFINITE:
    case SCALE_CAUSE:
    case CHECKPOINT_CAUSE:
    case OUTCOME:
    case TRIGGER:
    case VERDICT:
    case ANSWER:
    case ACTION:
        text_json_string(t, word_of(f->type, *(const int *)at));
        return;
    case INTS:
        put_ints(t, *(const int64_t *const *)at, *length_of(event));
        return;
    case TABLE:
        assert(event->u.evaluation.n_classes >= 0 &&
               event->u.evaluation.n_classes <= EVENT_MAX_CLASSES);
        put_ints(t, event->u.evaluation.confusion,
                 event->u.evaluation.n_classes * event->u.evaluation.n_classes);
        return;
    case INDEX:
        assert(event->u.incident.rank >= 0 &&
               event->u.incident.rank <= EVENT_MAX_RANK);
        put_ints(t, event->u.incident.index, event->u.incident.rank);
        return;
    }
}

static void
put_key(struct text *t, const char *name)
{
    text_json_string(t, name);
    text_putc(t, ':');
}

void
codec_event_encode(struct text *t, const struct event *event)
{
    for (size_t i = 0; i < N_COUNTERS; i++) {
        text_putc(t, i == 0 ? '{' : ',');
        if (strcmp(counters[i].name, "iteration") == 0) {
            put_key(t, "kind");
            text_json_string(t, event_kind_name(event->kind));
            text_putc(t, ',');
        }
        put_key(t, counters[i].name);
        text_json_int(
            t, *(const int64_t *)((const char *)event + counters[i].offset));
    }
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (fields[i].kind != event->kind)
            continue;
        text_putc(t, ',');
        put_key(t, fields[i].name);
        put_field(t, event, &fields[i]);
    }
    text_putc(t, '}');
}

/* ---- in ------------------------------------------------------------------ */

static int
parse_word(enum type type, const char *s)
{
    int v = -1;

    switch (type) {
    case DTYPE:
        v = (int)dtype_parse(s);
        if (v == DTYPE_NONE && strcmp(s, dtype_name(DTYPE_NONE)) != 0)
            v = -1;
        break;
    case PASS: v = event_pass_parse(s); break;
    case NONFINITE: v = event_nonfinite_parse(s); break;
    case SCALE_CAUSE: v = event_scale_cause_parse(s); break;
    case CHECKPOINT_CAUSE: v = event_checkpoint_cause_parse(s); break;
    case OUTCOME: v = event_outcome_parse(s); break;
    case TRIGGER: v = event_trigger_parse(s); break;
    case VERDICT: v = event_verdict_parse(s); break;
    case ANSWER: v = event_answer_parse(s); break;
    case ACTION: v = event_action_parse(s); break;
    case INT64:
    case INT:
    case REAL:
    case BOOL:
    case STRING:
    case INTS:
    case TABLE:
    case INDEX: break;
    }
    return v;
}

/* An absent field's value, where it is not zero already. */
static void
set_default(struct event *event, const struct field *f)
{
    void *at = (char *)event + f->offset;

    if (f->type == REAL)
        *(double *)at = (double)NAN;
    else if (f->type == STRING)
        *(const char **)at = "";
}

static bool
read_index(const json_t *value, struct event *event)
{
    size_t n = json_array_size(value);

    if (!json_is_array(value) || n > EVENT_MAX_RANK)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(value, i);

        if (!json_is_integer(element))
            return false;
        event->u.incident.index[i] = json_integer_value(element);
    }
    event->u.incident.rank = (int)n;
    return true;
}

/* As many as a square has. */
static bool
read_table(const json_t *value, struct event *event, struct pool *pool)
{
    const int n = codec_view_ints(value, pool, &event->u.evaluation.confusion);
    int side = 0;

    while (side <= EVENT_MAX_CLASSES && side * side < n)
        side++;
    event->u.evaluation.n_classes = n > 0 ? side : 0;
    return n >= 0 && side <= EVENT_MAX_CLASSES && side * side == n;
}

static bool
read_ints(const json_t *value, struct event *event, const int64_t **list,
          struct pool *pool)
{
    const int n = codec_view_ints(value, pool, list);

    int *length = (void *)((char *)event + length_offset(event->kind));

    *length = n < 0 ? 0 : n;
    return n >= 0 && (event->kind != EVENT_INCIDENT || n <= EVENT_MAX_SAMPLES);
}

static bool
read_field(const json_t *value, struct event *event, const struct field *f,
           struct pool *pool)
{
    void *at = (char *)event + f->offset;
    json_int_t i = json_integer_value(value);
    int n;

    switch (f->type) {
    case INT64: *(int64_t *)at = i; return json_is_integer(value);
    case INT:
        *(int *)at = (int)i;
        return json_is_integer(value) && i >= INT_MIN && i <= INT_MAX;
    case REAL: return codec_view_real(value, at);
    case BOOL: *(bool *)at = json_is_true(value); return json_is_boolean(value);
    case STRING:
        if (!json_is_string(value))
            return false;
        *(const char **)at = json_string_value(value);
        return true;
    case DTYPE:
    case PASS:
    case NONFINITE:
    case SCALE_CAUSE:
    case CHECKPOINT_CAUSE:
    case OUTCOME:
    case TRIGGER:
    case VERDICT:
    case ANSWER:
    case ACTION:
        n = json_is_string(value)
                ? parse_word(f->type, json_string_value(value))
                : -1;
        *(int *)at = n < 0 ? 0 : n;
        return n >= 0;
    case INTS: return read_ints(value, event, at, pool);
    case TABLE: return read_table(value, event, pool);
    case INDEX: return read_index(value, event);
    }
    return false;
}

static int
read_counters(const json_t *object, struct event *event, struct err *err)
{
    for (size_t i = 0; i < N_COUNTERS; i++) {
        const json_t *value = json_object_get(object, counters[i].name);
        json_int_t v = json_integer_value(value);

        /* Two of them can always be added. */
        if (!json_is_integer(value) || v < 0 || v > INT64_MAX / 2)
            return err_set(err, ERR_PROTO,
                           "event.%s must be an integer, 0 or more",
                           counters[i].name);
        *(int64_t *)((char *)event + counters[i].offset) = v;
    }
    return 0;
}

int
codec_event_decode(const json_t *object, struct event *event, struct pool *pool,
                   struct err *err)
{
    const char *kind;
    int rc, k;

    memset(event, 0, sizeof(*event));
    if (!json_is_object(object))
        return err_set(err, ERR_PROTO, "an event must be an object");
    rc = read_counters(object, event, err);
    if (rc != 0)
        return rc;
    kind = json_string_value(json_object_get(object, "kind"));
    if (kind == NULL)
        return err_set(err, ERR_PROTO, "event.kind must be a string");
    k = event_kind_parse(kind);
    if (k < 0)
        return err_set(err, ERR_PROTO, "unknown kind of event \"%.60s\"", kind);
    event->kind = (enum event_kind)k;
    for (size_t i = 0; i < N_FIELDS; i++) {
        const json_t *value = json_object_get(object, fields[i].name);

        if (fields[i].kind != event->kind)
            continue;
        set_default(event, &fields[i]);
        if (value == NULL || read_field(value, event, &fields[i], pool))
            continue;
        if (pool_failed(pool))
            return err_set(err, ERR_NOMEM, "no memory for %s.%s", kind,
                           fields[i].name);
        return err_set(err, ERR_PROTO, "%s.%s is not what it should be", kind,
                       fields[i].name);
    }
    return 0;
}
