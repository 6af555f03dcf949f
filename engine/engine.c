/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "engine/run/loop.h"
#include "engine/run/policy.h"
#include "engine/run/source.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct engine {
    const struct spec *spec; /* borrowed */
    const struct backend *backend;
    int threads;
    int64_t attempt;
    struct source source;
    struct variants *variants; /* owned, as all below */
    struct state *state;
    struct optimizer *optimizer;
    struct detour *detour;
    struct prefetch *prefetch;
    struct evaluate *evaluate;
    struct keeper *keeper;
    struct guard *guard;
    struct rerun *rerun;
    struct incident_keep *kept;
    char *policy;
    char *directory; /* ".../checkpoints" */
    char resumed_from[CKPT_NAME_MAX];
    float saved_scale;       /* as the checkpoint has it; of the start else */
    double asked_scale;      /* to begin with; NaN or 0: that */
    bool resumed_unmeasured; /* from weights that no evaluation was made of */
    struct ckpt_weights_report weights; /* of a partial reading; else empty */
    struct report report;
    struct step step;
    struct loop loop;
};

/* ---- compiling ------------------------------------------------------------*/

static int
compile(struct engine *e, struct err *err)
{
    const struct variants_options o = {
        .spec = e->spec,
        .data = &e->source.data,
        .backend = e->backend,
        .threads = e->threads,
    };
    int rc = source_open(e->spec, &e->source, err);

    if (rc == 0)
        rc = source_compile(&e->source, &o, &e->variants, err);
    if (rc != 0)
        return rc;
    return source_check_model(
        &e->source, program_graph(variants_program_at(e->variants, 0)), err);
}

static int
make_optimizer(struct engine *e, struct err *err)
{
    const struct kernel_flat flat = backend_flat(e->backend);
    struct lrate lrate;

    lrate_init(&lrate, e->spec, e->source.total_iterations);
    return optimizer_create(e->spec, e->state, &flat, e->threads, &lrate,
                            &e->optimizer, err);
}

static int
read_initial_weights(struct engine *e, struct err *err)
{
    const char *path = e->spec->initial_weights;

    if (path == NULL)
        return 0;
    if (e->spec->initial_weights_partial)
        return ckpt_read_weights_partial(path, e->state, &e->weights, err);
    return ckpt_read_weights(path, e->state, err);
}

static int
make_state(struct engine *e, struct err *err)
{
    const struct graph *g = program_graph(variants_program_at(e->variants, 0));
    int rc = state_create(g, optimizer_n_moments(e->spec), &e->state, err);

    if (rc == 0)
        rc = make_optimizer(e, err);
    if (rc != 0)
        return rc;
    e->state->seed = e->spec->seed;
    scaler_init(&e->state->scaler, &e->spec->amp.scaler);
    e->saved_scale = e->state->scaler.scale;
    state_init_weights(e->state, g);
    rc = read_initial_weights(e, err);
    if (rc == 0 && e->spec->train.ema_decay > 0)
        rc = state_start_ema(e->state, err);
    return rc != 0 ? rc : variants_bind(e->variants, e->state, err);
}

/* ---- resuming -------------------------------------------------------------*/

/* Iteration in a name ("it000000500-a1"); -1 when it is no such name. */
static int64_t
name_iteration(const char *name)
{
    long long iteration, attempt;

    if (sscanf(name, "it%lld-a%lld", &iteration, &attempt) != 2)
        return -1;
    return iteration;
}

/* Names that are still of the live line once the run goes on from where it
 * does; those that did not verify are not counted as healthy either. */
static int
filter_kept(const struct engine *e, const struct engine_options *o,
            const char **kept)
{
    bool resumed_seen = false;
    int n = 0;

    if (e->resumed_from[0] == '\0')
        return 0;
    for (int i = 0; i < o->n_keep; i++) {
        const int64_t it = name_iteration(o->keep[i]);
        const bool resumed = strcmp(o->keep[i], e->resumed_from) == 0;
        if (it < 0 || (it >= e->state->count.iteration && !resumed))
            continue;
        bool failed = false;
        for (int j = 0; j < o->n_resume && !failed; j++) {
            if (strcmp(o->resume[j], e->resumed_from) == 0)
                break;
            failed = strcmp(o->resume[j], o->keep[i]) == 0;
        }
        if (failed)
            continue;
        kept[n++] = o->keep[i];
        resumed_seen |= resumed;
    }
    if (!resumed_seen)
        kept[n++] = e->resumed_from;
    return n;
}

static bool
is_kept(const char *const *kept, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(kept[i], name) == 0)
            return true;
    return false;
}

static int
report_bad(const struct engine *e, const char *name, const struct err *why,
           struct err *err)
{
    struct event event = {.kind = EVENT_CHECKPOINT_FAILED};
    const char *text = why->msg;
    const size_t len = strlen(name);

    /* The event has the name in a field of its own. */
    if (strncmp(text, name, len) == 0 && strncmp(text + len, ": ", 2) == 0)
        text += len + 2;
    event.u.checkpoint_failed.name = name;
    event.u.checkpoint_failed.text = text;
    return report_emit(&e->report, &event, err);
}

static int
resume(struct engine *e, const struct engine_options *o, struct err *err)
{
    struct ckpt_info info = {0};
    struct err why;

    for (int i = 0; i < o->n_resume; i++) {
        err_clear(&why);
        if (ckpt_read(e->directory, o->resume[i], e->state, &info, &why) == 0) {
            snprintf(e->resumed_from, sizeof(e->resumed_from), "%s",
                     o->resume[i]);
            e->saved_scale = e->state->scaler.scale;
            scaler_follow(&e->state->scaler, &e->spec->amp.scaler);
            e->state->weights_version++;
            e->resumed_unmeasured = !info.has_metric;
            ckpt_info_fini(&info);
            return 0;
        }
        const int rc = report_bad(e, o->resume[i], &why, err);
        if (rc != 0)
            return rc;
    }
    if (o->resume_required)
        return err_set(err, ERR_CKPT, "none of %d checkpoints can be used%s%s",
                       o->n_resume, o->n_resume > 0 ? "; the last: " : "",
                       o->n_resume > 0 ? why.msg : "");
    return 0;
}

static int
make_keeper(struct engine *e, const struct engine_options *o, struct err *err)
{
    struct keeper_options k = {
        .spec = e->spec,
        .directory = e->directory,
        .attempt = o->attempt,
        .policy = e->policy,
        .policy_history = o->policy_history,
        .spec_hash = policy_hash_spec(e->spec),
        .best = "",
    };
    const char **kept = NULL;
    int rc = resume(e, o, err);

    if (rc != 0)
        return rc;
    kept = calloc((size_t)o->n_keep + 1, sizeof(*kept));
    if (kept == NULL)
        return err_set(err, ERR_NOMEM, "engine: no memory");
    k.n_keep = filter_kept(e, o, kept);
    k.keep = kept;
    k.resumed_from = e->resumed_from;
    if (o->best != NULL && is_kept(kept, k.n_keep, o->best)) {
        k.best = o->best;
        k.best_metric = o->best_metric;
    }
    rc = keeper_create(&k, &e->keeper, err);
    if (rc == 0 && e->resumed_from[0] != '\0')
        keeper_set_saved_iteration(e->keeper, e->state->count.iteration);
    free(kept);
    return rc;
}

/* ---- putting it together --------------------------------------------------*/

static int
open_kept(struct engine *e, const char *directory, struct err *err)
{
    const struct spec *spec = e->spec;
    char *path;
    int rc;

    if (asprintf(&path, "%s/incidents", directory) < 0)
        return err_set(err, ERR_NOMEM, "engine: no memory");
    rc = incident_keep_create(path, spec->diagnose.keep,
                              spec->diagnose.keep_bytes, &e->kept, err);
    free(path);
    return rc;
}

static int
make_parts(struct engine *e, const struct engine_options *o, struct err *err)
{
    const struct kernel_flat flat = backend_flat(e->backend);
    const struct rerun_options ro = {
        .spec = e->spec,
        .data = e->source.data,
        .backend = e->backend,
        .flat = flat,
        .threads = e->threads,
    };
    const struct guard_options go = {
        .spec = e->spec,
        .rollbacks = o->guard_rollbacks,
        .scale = (double)e->saved_scale,
    };
    int rc = detour_create(o->skip_windows, o->n_skip_windows, &e->detour, err);

    if (rc == 0)
        rc = prefetch_create(e->source.train, &e->source.order, o->threaded,
                             &e->prefetch, err);
    if (rc == 0)
        prefetch_set_detour(e->prefetch, e->detour);
    if (rc == 0 && e->source.validation != NULL)
        rc = evaluate_create(e->source.validation, e->spec->data.batch_size,
                             o->threaded, e->variants, e->state, &e->evaluate,
                             err);
    if (rc == 0)
        rc = guard_create(&go, &e->guard, err);
    if (rc == 0)
        rc = rerun_create(&ro, &e->rerun, err);
    if (rc == 0)
        rc = open_kept(e, o->directory, err);
    e->step = (struct step){
        .state = e->state,
        .variants = e->variants,
        .optimizer = e->optimizer,
        .flat = flat,
        .threads = e->threads,
        .clip_grad_norm = e->spec->train.clip_grad_norm,
        .ema_decay = e->spec->train.ema_decay,
    };
    return rc;
}

/* Only where the metric decides is it known which evaluations were made. */
static bool
owes_evaluation(const struct engine *e)
{
    const int64_t every = e->spec->evaluate.every_updates;
    const int64_t updates = e->state->count.updates;

    return e->resumed_unmeasured && e->spec->checkpoint.has_best && every > 0 &&
           updates > 0 && updates % every == 0;
}

static void
connect_loop(struct engine *e)
{
    e->loop = (struct loop){
        .spec = e->spec,
        .state = e->state,
        .step = &e->step,
        .prefetch = e->prefetch,
        .evaluate = e->evaluate,
        .keeper = e->keeper,
        .incidents = {.spec = e->spec,
                      .state = e->state,
                      .rerun = e->rerun,
                      .keep = e->kept,
                      .origin = {.attempt = e->attempt,
                                 .data = &e->source.data,
                                 .backend = e->backend->name,
                                 .policy = e->policy,
                                 .threads = e->threads},
                      .report = &e->report},
        .watch = {.guard = e->guard,
                  .incidents = &e->loop.incidents,
                  .state = e->state,
                  .report = &e->report},
        .measures_flush = flush_is_wanted(e->spec),
        .report = &e->report,
        .total_iterations = e->source.total_iterations,
        .owes_evaluation = owes_evaluation(e),
    };
}

static int
make_names(struct engine *e, const struct engine_options *o, struct err *err)
{
    e->policy = policy_format(e->spec, e->backend->name, e->threads);
    if (asprintf(&e->directory, "%s/checkpoints", o->directory) < 0)
        e->directory = NULL;
    if (e->policy == NULL || e->directory == NULL)
        return err_set(err, ERR_NOMEM, "engine: no memory");
    return 0;
}

int
engine_open(const struct spec *spec, const struct engine_options *options,
            struct engine **out, struct err *err)
{
    struct engine *e = calloc(1, sizeof(*e));
    int rc;

    assert(options->threads >= 1 && options->attempt >= 1);
    *out = NULL;
    if (e == NULL)
        return err_set(err, ERR_NOMEM, "engine: no memory");
    e->spec = spec;
    e->threads = options->threads;
    e->asked_scale = options->scale;
    e->attempt = options->attempt;
    e->report.hooks = options->hooks;
    e->report.clock = options->clock;
    e->backend = backend_find(options->backend);
    if (e->backend == NULL) {
        rc = err_set(err, ERR_UNSUPPORTED, "device: there is no \"%s\" here",
                     options->backend);
        goto out;
    }
    rc = make_names(e, options, err);
    if (rc == 0)
        rc = compile(e, err);
    if (rc == 0)
        rc = make_state(e, err);
    if (rc == 0)
        rc = make_keeper(e, options, err);
    if (rc == 0)
        rc = make_parts(e, options, err);
    if (rc != 0)
        goto out;
    e->report.state = e->state;
    connect_loop(e);
    *out = e;
    e = NULL;
out:
    engine_close(&e);
    return rc;
}

static int64_t
count_parameters(const struct state *s)
{
    int64_t n = 0;

    for (int i = 0; i < s->n_params; i++)
        n += s->param[i].n_elems;
    return n;
}

/* What the data sets have to say. */
static int
warn_of_data(const struct engine *e, struct err *err)
{
    const struct dataset *set[] = {e->source.train, e->source.validation};

    for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
        const char *text = set[i] != NULL ? dataset_warning(set[i]) : NULL;
        const int rc = text != NULL ? report_warning(&e->report, text, err) : 0;

        if (rc != 0)
            return rc;
    }
    return 0;
}

/* A scale that is not the checkpoint's: somebody asked for it, or the bounds
 * were changed. */
static int
begin_scale(struct engine *e, struct err *err)
{
    struct event event = {.kind = EVENT_SCALE};
    const bool asked = e->asked_scale > 0 && isfinite(e->asked_scale);
    struct scaler *s = &e->state->scaler;

    if (asked && !scaler_set(s, (float)e->asked_scale))
        return report_warning_value(&e->report,
                                    "the loss scale is off or fixed: it stays "
                                    "as the spec says, not as was asked",
                                    e->asked_scale, err);
    if (!asked && s->scale == e->saved_scale)
        return 0;
    event.u.scale.cause = EVENT_SCALE_SET;
    event.u.scale.before = (double)e->saved_scale;
    event.u.scale.after = (double)s->scale;
    event.u.scale.growth_tracker = s->growth_tracker;
    event.u.scale.optimizers = "";
    return report_emit(&e->report, &event, err);
}

int
engine_run(struct engine *engine, enum event_outcome *outcome, struct err *err)
{
    struct event event = {.kind = EVENT_STARTED};

    *outcome = EVENT_OUTCOME_FAILED;
    event.u.started.checkpoint = engine->resumed_from;
    event.u.started.total_iterations = engine->source.total_iterations;
    event.u.started.iterations_per_epoch = engine->source.windows_per_epoch;
    event.u.started.n_parameters = count_parameters(engine->state);
    event.u.started.state_bytes = (int64_t)state_n_bytes(engine->state);
    event.u.started.activation_bytes =
        (int64_t)variants_block_bytes(engine->variants);
    event.u.started.policy = engine->policy;
    int rc = report_emit(&engine->report, &event, err);
    if (rc == 0)
        rc = begin_scale(engine, err);
    if (rc == 0)
        rc = warn_of_data(engine, err);
    /* Who resumes has them no more. */
    if (rc == 0 && engine->weights.text[0] != '\0' &&
        engine->resumed_from[0] == '\0')
        rc = report_warning_value(&engine->report, engine->weights.text,
                                  (double)engine->weights.n_loaded, err);
    return rc != 0 ? rc : loop_run(&engine->loop, outcome, err);
}

void
engine_close(struct engine **engine)
{
    struct engine *e = *engine;

    *engine = NULL;
    if (e == NULL)
        return;
    evaluate_destroy(&e->evaluate);
    prefetch_destroy(&e->prefetch);
    detour_destroy(&e->detour);
    guard_destroy(&e->guard);
    rerun_destroy(&e->rerun);
    incident_keep_destroy(&e->kept);
    keeper_destroy(&e->keeper);
    optimizer_destroy(&e->optimizer);
    variants_destroy(&e->variants);
    state_destroy(&e->state);
    source_close(&e->source);
    free(e->policy);
    free(e->directory);
    free(e);
}

const struct state *
engine_state(const struct engine *engine)
{
    return engine->state;
}

int64_t
engine_total_iterations(const struct engine *engine)
{
    return engine->source.total_iterations;
}

double
engine_mean_loss(const struct engine *engine)
{
    return loop_mean_loss(&engine->loop);
}

const struct guard_firing *
engine_fired(const struct engine *engine)
{
    return engine->loop.watch.fired ? &engine->loop.watch.firing : NULL;
}
