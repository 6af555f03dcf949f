/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/guard.h"

#include "engine/run/guard_private.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A spread is never less than this share of the median: losses that are equal
 * to the last bit are no reason to call the next one a spike. */
#define LEAST_SPREAD 1e-6

/* ---- life -----------------------------------------------------------------*/

static bool
has_ring(const struct spec_guard *rule)
{
    return rule->condition == SPEC_CONDITION_SKIP_SHARE ||
           rule->condition == SPEC_CONDITION_UPDATES_BELOW;
}

static bool
init_rule(struct guard_rule *r, const struct spec_guard *rule)
{
    if (has_ring(rule)) {
        r->ring = calloc((size_t)rule->iterations, sizeof(*r->ring));
        return r->ring != NULL;
    }
    if (rule->condition == SPEC_CONDITION_LOSS_SPIKE) {
        r->spread = spread_create((int)rule->iterations);
        return r->spread != NULL;
    }
    return true;
}

int
guard_create(const struct guard_options *options, struct guard **out,
             struct err *err)
{
    const int n = options->spec->guard.n_rules;
    struct guard *g = calloc(1, sizeof(*g));
    bool enough = g != NULL;

    *out = NULL;
    if (enough) {
        g->spec = options->spec;
        g->rollbacks = options->rollbacks;
        g->last_scale = g->least_scale = options->scale;
        g->rule = calloc((size_t)n + 1, sizeof(*g->rule));
        enough = g->rule != NULL;
    }
    for (int i = 0; i < n && enough; i++)
        enough = init_rule(&g->rule[i], &options->spec->guard.rule[i]);
    if (!enough) {
        guard_destroy(&g);
        return err_set(err, ERR_NOMEM, "guards: no memory");
    }
    *out = g;
    return 0;
}

void
guard_destroy(struct guard **guard)
{
    struct guard *g = *guard;

    *guard = NULL;
    if (g == NULL)
        return;
    for (int i = 0; g->rule != NULL && i < g->spec->guard.n_rules; i++) {
        free(g->rule[i].ring);
        spread_destroy(&g->rule[i].spread);
    }
    free(g->rule);
    free(g->change);
    free(g);
}

/* ---- what is remembered ---------------------------------------------------*/

static void
add_window(struct guard_windows *w, int64_t position)
{
    w->position[w->n++ % GUARD_MAX_WINDOWS] = position;
}

/* Regions that do not fit are no cure: half of them would not be one. */
static void
keep_cure(struct guard_cure *cure, const struct guard_incident *incident,
          int64_t iteration)
{
    size_t used = 0;

    if (incident->n_regions > GUARD_MAX_REGIONS)
        return;
    for (int i = 0; i < incident->n_regions; i++)
        used += strlen(incident->regions[i]) + 1;
    if (used == 0 || used > sizeof(cure->text))
        return;
    used = 0;
    for (int i = 0; i < incident->n_regions; i++) {
        const size_t size = strlen(incident->regions[i]) + 1;
        memcpy(cure->text + used, incident->regions[i], size);
        cure->region[i] = cure->text + used;
        used += size;
    }
    cure->n_regions = incident->n_regions;
    cure->iteration = iteration;
}

/* It belongs to the iteration that is observed next. */
void
guard_note_incident(struct guard *guard, const struct guard_incident *incident)
{
    struct guard *g = guard;

    if (!incident->diagnosed || incident->verdict == EVENT_VERDICT_NONE)
        return;
    if (incident->verdict != g->run.verdict)
        g->run.n = g->run.windows.n = 0;
    g->run.verdict = incident->verdict;
    g->run.n++;
    g->run.fresh = true;
    if (incident->data_position >= 0)
        add_window(&g->run.windows, incident->data_position);
    snprintf(g->run.layer, sizeof(g->run.layer), "%s", incident->layer);
    keep_cure(&g->cure, incident, g->n + 1);
}

void
guard_note_checkpoint(struct guard *guard, double scale)
{
    guard->last_scale = scale;
    guard->least_scale = fmin(guard->least_scale, scale);
}

static bool
is_at_floor(const struct spec_scaler *s, double scale)
{
    return s->enabled && s->dynamic && s->min_scale > 0 &&
           scale <= s->min_scale;
}

static void
push(struct guard_rule *r, int64_t size, bool counts)
{
    if (r->n == size)
        r->sum -= r->ring[r->at];
    else
        r->n++;
    r->ring[r->at] = counts;
    r->sum += counts;
    r->at = r->at + 1 < size ? r->at + 1 : 0;
}

/* Everything that later iterations are judged by, but spreads: those are of
 * the losses before. */
static void
remember(struct guard *g, const struct guard_iteration *it)
{
    const struct spec *spec = g->spec;

    g->n++;
    g->data_position = it->data_position;
    g->scale = it->scale;
    if (!it->skipped) {
        g->streak.n = g->n_floor = 0;
    } else {
        if (g->streak.n++ == 0) {
            g->streak.began = g->n;
            g->streak.diagnosed = 0;
            g->streak.first = it->data_position;
        }
        g->streak.last = it->data_position;
        g->n_floor =
            is_at_floor(&spec->amp.scaler, it->scale) ? g->n_floor + 1 : 0;
        g->streak.diagnosed += g->run.fresh;
    }
    for (int i = 0; i < spec->guard.n_rules; i++)
        if (g->rule[i].ring != NULL)
            push(&g->rule[i], spec->guard.rule[i].iterations,
                 spec->guard.rule[i].condition == SPEC_CONDITION_SKIP_SHARE
                     ? it->skipped
                     : !it->skipped);
}

/* ---- conditions -----------------------------------------------------------*/

enum held { NOT_ASKED, NO, YES };

/* What a condition saw, for the one rule that fires. */
struct seen {
    double value, bound;
    char text[GUARD_TEXT_MAX];
};

static enum held __attribute__((format(printf, 4, 5)))
say(struct seen *seen, double value, double bound, const char *fmt, ...)
{
    va_list ap;

    seen->value = value;
    seen->bound = bound;
    va_start(ap, fmt);
    vsnprintf(seen->text, sizeof(seen->text), fmt, ap);
    va_end(ap);
    return YES;
}

static enum held
judge_streak(const struct guard *g, int64_t limit, struct seen *seen)
{
    const int64_t n = g->streak.n, diagnosed = g->streak.diagnosed;
    const int64_t agreed = g->run.n < diagnosed ? g->run.n : diagnosed;

    if (n < limit)
        return NO;
    if (diagnosed == 0)
        return say(seen, (double)n, (double)limit,
                   "%lld updates in a row were skipped; none was diagnosed",
                   (long long)n);
    return say(seen, (double)n, (double)limit,
               "%lld updates in a row were skipped; of %lld that were "
               "diagnosed the last %lld had verdict %s%s%s",
               (long long)n, (long long)diagnosed, (long long)agreed,
               event_verdict_name(g->run.verdict),
               g->run.layer[0] != '\0' ? " at " : "", g->run.layer);
}

static enum held
judge_floor(const struct guard *g, int64_t limit, struct seen *seen)
{
    if (g->n_floor < limit)
        return NO;
    return say(seen, (double)g->n_floor, (double)limit,
               "%lld updates in a row were skipped with the scale at its "
               "floor, %.9g",
               (long long)g->n_floor, g->scale);
}

static enum held
judge_window(const struct guard_rule *r, const struct spec_guard *rule,
             struct seen *seen)
{
    const double share = (double)r->sum / (double)rule->iterations;

    if (r->n < rule->iterations)
        return NO;
    if (rule->condition == SPEC_CONDITION_SKIP_SHARE)
        return share <= rule->above
                   ? NO
                   : say(seen, share, rule->above,
                         "%lld of the last %lld updates were skipped, a share "
                         "of %.4g; more than %.4g",
                         (long long)r->sum, (long long)rule->iterations, share,
                         rule->above);
    return r->sum >= rule->limit
               ? NO
               : say(seen, (double)r->sum, (double)rule->limit,
                     "%lld of the last %lld iterations ended in an update; "
                     "fewer than %lld",
                     (long long)r->sum, (long long)rule->iterations,
                     (long long)rule->limit);
}

static enum held
judge_loss(double loss, const struct spec_guard *rule, struct seen *seen)
{
    const bool above = rule->condition == SPEC_CONDITION_LOSS_ABOVE;
    const double bound = above ? rule->above : rule->below;

    if (!isfinite(loss))
        return say(seen, loss, bound, "the loss of an update was %g", loss);
    if (above ? loss <= bound : loss >= bound)
        return NO;
    return say(seen, loss, bound, "the loss of an update was %.6g, %s %.6g",
               loss, above ? "above" : "below", bound);
}

/* Against the losses before it; then it is one of them. */
static enum held
judge_spike(struct guard_rule *r, const struct spec_guard *rule, double loss,
            struct seen *seen)
{
    enum held held = NO;

    if (!isfinite(loss))
        return NOT_ASKED;
    if (spread_is_full(r->spread)) {
        const double median = spread_median(r->spread);
        const double width =
            fmax(spread_width(r->spread), LEAST_SPREAD * fabs(median));
        const double bound = median + rule->factor * width;
        if (loss > bound)
            held = say(seen, loss, bound,
                       "the loss of an update was %.6g, above %.6g: the median "
                       "of the %lld before it, %.6g, and %.6g times their "
                       "spread, %.6g",
                       loss, bound, (long long)rule->iterations, median,
                       rule->factor, width);
    }
    spread_add(r->spread, loss);
    return held;
}

static enum held
judge_verdict(const struct guard *g, const struct spec_guard *rule,
              struct seen *seen)
{
    if (g->run.verdict != rule->verdict || g->run.n < rule->limit)
        return NO;
    if (!g->run.fresh)
        return NOT_ASKED;
    return say(seen, (double)g->run.n, (double)rule->limit,
               "%lld diagnosed incident%s had verdict %s%s%s",
               (long long)g->run.n, g->run.n == 1 ? "" : "s in a row",
               event_verdict_name(rule->verdict),
               g->run.layer[0] != '\0' ? ", the last at " : "", g->run.layer);
}

static enum held
judge_iteration(struct guard *g, int i, const struct guard_iteration *it,
                struct seen *seen)
{
    const struct spec_guard *rule = &g->spec->guard.rule[i];

    switch (rule->condition) {
    case SPEC_CONDITION_CONSECUTIVE_SKIPS:
        return judge_streak(g, rule->limit, seen);
    case SPEC_CONDITION_SCALE_AT_FLOOR:
        return judge_floor(g, rule->limit, seen);
    case SPEC_CONDITION_SKIP_SHARE:
    case SPEC_CONDITION_UPDATES_BELOW:
        return judge_window(&g->rule[i], rule, seen);
    case SPEC_CONDITION_LOSS_ABOVE:
    case SPEC_CONDITION_LOSS_BELOW:
        return it->skipped ? NOT_ASKED : judge_loss(it->loss, rule, seen);
    case SPEC_CONDITION_LOSS_SPIKE:
        return it->skipped ? NOT_ASKED
                           : judge_spike(&g->rule[i], rule, it->loss, seen);
    case SPEC_CONDITION_NON_FINITE:
        if (rule->trigger != EVENT_TRIGGER_LOSS)
            return NOT_ASKED;
        if (isfinite(it->loss) || it->found_inf)
            return NO;
        return say(seen, it->loss, NAN,
                   "the loss of an update was %g, and every gradient finite",
                   it->loss);
    case SPEC_CONDITION_VERDICT: return judge_verdict(g, rule, seen);
    case SPEC_CONDITION_METRIC:
    case SPEC_CONDITION_COUNT: return NOT_ASKED;
    }
    return NOT_ASKED;
}

static enum held
judge_metric(const struct spec_guard *rule, double value, struct seen *seen)
{
    const char *name = spec_metric_name(rule->metric);

    if (isnan(value))
        return say(seen, value, isnan(rule->above) ? rule->below : rule->above,
                   "%s is not a number", name);
    if (value > rule->above)
        return say(seen, value, rule->above, "%s was %.6g, above %.6g", name,
                   value, rule->above);
    if (value < rule->below)
        return say(seen, value, rule->below, "%s was %.6g, below %.6g", name,
                   value, rule->below);
    return NO;
}

static enum held
judge_evaluation(const struct guard *g, const struct spec_guard *rule,
                 const struct guard_evaluation *evaluation, struct seen *seen)
{
    const double loss = evaluation->value[SPEC_METRIC_LOSS];

    if (rule->condition == SPEC_CONDITION_METRIC)
        return judge_metric(rule, evaluation->value[rule->metric], seen);
    if (rule->condition == SPEC_CONDITION_NON_FINITE &&
        rule->trigger == EVENT_TRIGGER_METRIC)
        return isfinite(loss) ? NO
                              : say(seen, loss, NAN,
                                    "the loss of an evaluation was %g", loss);
    return rule->condition == SPEC_CONDITION_VERDICT
               ? judge_verdict(g, rule, seen)
               : NOT_ASKED;
}

static enum held
judge_weights(const struct guard *g, const struct spec_guard *rule,
              const char *tensor, struct seen *seen)
{
    if (rule->condition == SPEC_CONDITION_NON_FINITE &&
        rule->trigger == EVENT_TRIGGER_WEIGHTS)
        return tensor == NULL
                   ? NO
                   : say(seen, NAN, NAN, "%s is not finite any more", tensor);
    return rule->condition == SPEC_CONDITION_VERDICT
               ? judge_verdict(g, rule, seen)
               : NOT_ASKED;
}

/* ---- what fires -----------------------------------------------------------*/

/* Rules are asked in their order; what they say comes together here. */
struct choice {
    struct guard *g;
    int64_t updates;
    bool may_pause;
    struct guard_firing *firing;
    bool found;       /* firing is what is done */
    bool stuck;       /* firing is the failure of a rollback */
    int tells;        /* the first `continue`, -1 */
    struct seen told; /* by it */
};

static void
begin(struct choice *c, struct guard *g, int64_t updates,
      struct guard_firing *firing)
{
    c->g = g;
    c->updates = updates;
    c->may_pause = true;
    c->firing = firing;
    c->found = c->stuck = false;
    c->tells = -1;
}

static struct guard_firing
make(const struct choice *c, int i, enum event_action action,
     const struct seen *seen)
{
    struct guard_firing f = {
        .rule = i,
        .condition = c->g->spec->guard.rule[i].condition,
        .action = action,
        .value = seen->value,
        .bound = seen->bound,
        .to = "",
        .change = "",
        .scale = NAN,
    };

    memcpy(f.text, seen->text, sizeof(f.text));
    return f;
}

static void __attribute__((format(printf, 2, 3)))
add_text(struct guard_firing *f, const char *fmt, ...)
{
    const size_t n = strlen(f->text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(f->text + n, sizeof(f->text) - n, fmt, ap);
    va_end(ap);
}

static void
choose_rollback(struct choice *c, int i, const struct seen *seen)
{
    const struct spec_guard *rule = &c->g->spec->guard.rule[i];
    const int64_t max = c->g->spec->guard.max_rollbacks;
    struct guard_firing f = make(c, i, EVENT_ACTION_ROLLBACK, seen);
    char why[GUARD_TEXT_MAX];

    f.to = rule->to_best ? "best" : "last";
    c->found = guard_change_make(c->g, rule, &f, why, sizeof(why));
    if (!c->found && c->stuck)
        return; /* the first one says why */
    if (!c->found) {
        f = make(c, i, EVENT_ACTION_FAIL, seen);
        add_text(&f, "; going back would change nothing: %s", why);
        c->stuck = true;
    } else if (c->g->rollbacks >= max) {
        f = make(c, i, EVENT_ACTION_FAIL, seen);
        add_text(&f,
                 "; guards went back %lld times, and guard.max_rollbacks "
                 "allows %lld",
                 (long long)c->g->rollbacks, (long long)max);
    }
    *c->firing = f;
}

static void
choose(struct choice *c, int i, enum held held, const struct seen *seen)
{
    const struct spec_guard *rule = &c->g->spec->guard.rule[i];
    struct guard_rule *r = &c->g->rule[i];

    if (held == NO)
        r->quiet = false;
    if (held != YES || r->quiet || c->found || c->updates < rule->after_updates)
        return;
    if (rule->action == EVENT_ACTION_ROLLBACK) {
        choose_rollback(c, i, seen);
    } else if (rule->action == EVENT_ACTION_FAIL ||
               (rule->action == EVENT_ACTION_PAUSE && c->may_pause)) {
        *c->firing = make(c, i, rule->action, seen);
        c->found = true;
    } else if (c->tells < 0) {
        c->tells = i;
        c->told = *seen;
    }
}

static bool
end(struct choice *c)
{
    struct guard *g = c->g;

    g->run.fresh = false;
    if (c->found || c->stuck)
        return true;
    if (c->tells < 0)
        return false;
    *c->firing = make(c, c->tells, EVENT_ACTION_CONTINUE, &c->told);
    g->rule[c->tells].quiet = true;
    return true;
}

/* ---- observing ------------------------------------------------------------*/

bool
guard_observe_iteration(struct guard *guard,
                        const struct guard_iteration *iteration,
                        struct guard_firing *firing)
{
    struct choice c;
    struct seen seen;

    begin(&c, guard, iteration->updates, firing);
    remember(guard, iteration);
    for (int i = 0; i < guard->spec->guard.n_rules; i++)
        choose(&c, i, judge_iteration(guard, i, iteration, &seen), &seen);
    return end(&c);
}

bool
guard_observe_evaluation(struct guard *guard,
                         const struct guard_evaluation *evaluation,
                         struct guard_firing *firing)
{
    struct choice c;
    struct seen seen;

    begin(&c, guard, evaluation->updates, firing);
    c.may_pause = !evaluation->at_end;
    for (int i = 0; i < guard->spec->guard.n_rules; i++)
        choose(&c, i,
               judge_evaluation(guard, &guard->spec->guard.rule[i], evaluation,
                                &seen),
               &seen);
    return end(&c);
}

bool
guard_observe_weights(struct guard *guard, int64_t updates, const char *tensor,
                      struct guard_firing *firing)
{
    struct choice c;
    struct seen seen;

    begin(&c, guard, updates, firing);
    for (int i = 0; i < guard->spec->guard.n_rules; i++)
        choose(&c, i,
               judge_weights(guard, &guard->spec->guard.rule[i], tensor, &seen),
               &seen);
    return end(&c);
}
