/* SPDX-License-Identifier: Apache-2.0 */
/* Random runs against a twin that looks at the whole history each time. */
#include "tests/support/guards.h"

#include <stdlib.h>

#define TWIN_STEPS 400

struct twin_step {
    bool skipped, found_inf, incident;
    double loss, scale;
    enum event_verdict verdict;
    int64_t updates;
};

static uint64_t
next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
middle(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), compare);
    return v[(n - 1) / 2] / 2 + v[n / 2] / 2;
}

/* 1: holds after step t, 0: does not, -1: t does not say. */
static int
twin_holds(const struct spec_guard *g, const struct twin_step *s, int t)
{
    int64_t n = 0, m = 0;
    double v[TWIN_STEPS], median, width;
    int i;

    switch (g->condition) {
    case SPEC_CONDITION_CONSECUTIVE_SKIPS:
        for (i = t; i >= 0 && s[i].skipped; i--)
            n++;
        return n >= g->limit;
    case SPEC_CONDITION_SCALE_AT_FLOOR:
        for (i = t; i >= 0 && s[i].skipped && s[i].scale <= 1; i--)
            n++;
        return n >= g->limit;
    case SPEC_CONDITION_SKIP_SHARE:
    case SPEC_CONDITION_UPDATES_BELOW:
        for (i = t; i >= 0 && m < g->iterations; i--, m++)
            n += s[i].skipped == (g->condition == SPEC_CONDITION_SKIP_SHARE);
        if (m < g->iterations)
            return 0;
        return g->condition == SPEC_CONDITION_SKIP_SHARE
                   ? (double)n / (double)m > g->above
                   : n < g->limit;
    case SPEC_CONDITION_LOSS_ABOVE:
        return s[t].skipped ? -1
                            : !(s[t].loss <= g->above) || !isfinite(s[t].loss);
    case SPEC_CONDITION_LOSS_BELOW:
        return s[t].skipped ? -1
                            : !(s[t].loss >= g->below) || !isfinite(s[t].loss);
    case SPEC_CONDITION_LOSS_SPIKE:
        if (s[t].skipped || !isfinite(s[t].loss))
            return -1;
        for (i = t - 1; i >= 0 && n < g->iterations; i--)
            if (!s[i].skipped && isfinite(s[i].loss))
                v[n++] = s[i].loss;
        if (n < g->iterations)
            return 0;
        median = middle(v, (int)n);
        for (i = 0; i < n; i++)
            v[i] = fabs(v[i] - median);
        width = 1.4826 * middle(v, (int)n);
        return s[t].loss >
               median + g->factor * fmax(width, 1e-6 * fabs(median));
    case SPEC_CONDITION_NON_FINITE:
        return !isfinite(s[t].loss) && !s[t].found_inf;
    case SPEC_CONDITION_VERDICT:
        for (i = t; i >= 0; i--) {
            if (!s[i].incident)
                continue;
            if (s[i].verdict != g->verdict)
                break;
            n++;
        }
        if (n >= g->limit)
            return s[t].incident ? 1 : -1;
        return 0;
    case SPEC_CONDITION_METRIC:
    case SPEC_CONDITION_COUNT: break;
    }
    return -1;
}

/* What fires after step t: the rule, or -1. */
static int
twin_fires(const struct guards *r, const struct twin_step *s, int t,
           bool *quiet)
{
    int acts = -1, tells = -1;

    for (int i = 0; i < r->spec.guard.n_rules; i++) {
        const struct spec_guard *g = &r->rule[i];
        const int holds = twin_holds(g, s, t);

        if (holds == 0)
            quiet[i] = false;
        if (holds != 1 || quiet[i] || s[t].updates < g->after_updates)
            continue;
        if (g->action != EVENT_ACTION_CONTINUE && acts < 0)
            acts = i;
        if (g->action == EVENT_ACTION_CONTINUE && tells < 0)
            tells = i;
    }
    if (acts < 0 && tells >= 0)
        quiet[tells] = true;
    return acts >= 0 ? acts : tells;
}

static void
draw_rules(struct guards *r, uint64_t *random)
{
    static const enum spec_condition kinds[] = {
        SPEC_CONDITION_CONSECUTIVE_SKIPS,
        SPEC_CONDITION_SCALE_AT_FLOOR,
        SPEC_CONDITION_SKIP_SHARE,
        SPEC_CONDITION_UPDATES_BELOW,
        SPEC_CONDITION_LOSS_ABOVE,
        SPEC_CONDITION_LOSS_BELOW,
        SPEC_CONDITION_LOSS_SPIKE,
        SPEC_CONDITION_NON_FINITE,
        SPEC_CONDITION_VERDICT};
    const int n = 1 + (int)(next(random) % GUARDS_MAX_RULES);

    for (int i = 0; i < n; i++) {
        struct spec_guard *g = guards_add_rule(
            r, kinds[next(random) % 9],
            next(random) % 20 == 0 ? EVENT_ACTION_FAIL : EVENT_ACTION_CONTINUE);
        g->iterations = 2 + (int64_t)(next(random) % 30);
        g->limit = 1 + (int64_t)(next(random) % 6);
        g->after_updates =
            next(random) % 3 == 0 ? (int64_t)(next(random) % 100) : 0;
        g->above = g->condition == SPEC_CONDITION_SKIP_SHARE
                       ? (double)(next(random) % 8) / 8
                       : 3;
        g->below = -3;
        g->factor = 1 + (double)(next(random) % 8);
        g->trigger = EVENT_TRIGGER_LOSS;
        g->verdict = (enum event_verdict)(1 + next(random) % 3);
    }
}

/* Calm and bad weather in turns. */
static struct twin_step
draw_step(uint64_t *random, int t)
{
    const unsigned bad = t / 40 % 2 == 0 ? 20 : 2;
    struct twin_step s = {.skipped = next(random) % bad == 0};

    s.loss = (double)(next(random) >> 40) * 0x1p-22 - 2;
    if (next(random) % 25 == 0)
        s.loss *= 10;
    if (next(random) % 40 == 0)
        s.loss = next(random) % 2 == 0 ? NAN : INFINITY;
    s.found_inf = s.skipped || next(random) % 30 == 0; /* one of several */
    s.incident = s.skipped && next(random) % 3 != 0;
    s.verdict = (enum event_verdict)(1 + next(random) % 3);
    s.scale = next(random) % 3 == 0 ? 8 : 1;
    return s;
}

static void
test_guard_twin(void **state)
{
    int64_t fired = 0, by_kind[SPEC_CONDITION_COUNT] = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t random = seed * 0x9e3779b97f4a7c15u;
        struct twin_step s[TWIN_STEPS];
        bool quiet[GUARDS_MAX_RULES] = {false};
        struct guards r;

        guards_begin(&r, DTYPE_F16);
        draw_rules(&r, &random);
        guards_open(&r, 0);
        for (int t = 0; t < TWIN_STEPS; t++) {
            s[t] = draw_step(&random, t);
            s[t].updates = r.updates + !s[t].skipped;
            r.scale = s[t].scale;
            if (s[t].incident)
                guards_note(&r, s[t].verdict, NULL);
            const struct guard_iteration it = {
                .updates = r.updates += !s[t].skipped,
                .data_position = r.position++,
                .skipped = s[t].skipped,
                .found_inf = s[t].found_inf,
                .loss = s[t].loss,
                .scale = s[t].scale,
            };
            const int want = twin_fires(&r, s, t, quiet);
            const bool got = guard_observe_iteration(r.guard, &it, &r.f);
            if (got != (want >= 0) || (got && r.f.rule != want))
                fail_msg("seed %llu, step %d: rule %d, not %d",
                         (unsigned long long)seed, t, got ? r.f.rule : -1,
                         want);
            if (!got)
                continue;
            assert_int_equal(r.f.action, r.rule[want].action);
            fired++;
            by_kind[r.rule[want].condition]++;
            if (r.f.action != EVENT_ACTION_CONTINUE)
                break;
        }
        guards_close(&r);
    }
    /* The streams made every kind fire, many times. */
    assert_true(fired > 4000);
    for (int i = 0; i < SPEC_CONDITION_COUNT; i++)
        assert_true(i == SPEC_CONDITION_METRIC || by_kind[i] > 50);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_twin),
    };

    return cmocka_run_group_tests_name("guard_twin", tests, NULL, NULL);
}
