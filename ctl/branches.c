/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/branches.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/format.h"

/* ---- lists ----------------------------------------------------------------*/

static void *
grow(void *list, int n, size_t size)
{
    /* Powers of two: a new block at each of them. */
    if ((n & (n - 1)) != 0)
        return list;
    return realloc(list, (n == 0 ? 1 : 2 * (size_t)n) * size);
}

static void
keep(char to[BRANCHES_TEXT], const char *from)
{
    snprintf(to, BRANCHES_TEXT, "%s", from);
}

bool
branches_add_attempt(struct branches *b, const struct view_attempt *v)
{
    struct branches_attempt *list =
        grow(b->attempt, b->n_attempts, sizeof(*list));

    if (list == NULL)
        return false;
    b->attempt = list;
    struct branches_attempt *a = &list[b->n_attempts++];
    *a = (struct branches_attempt){
        .attempt = v->attempt,
        .start = v->start_iteration,
        .end = v->end_iteration,
        .updates = v->updates,
        .mean_step_us = v->mean_step_us,
        .policy_changed = v->policy_changed,
    };
    snprintf(a->state, sizeof(a->state), "%s", v->state);
    keep(a->cause, v->cause);
    keep(a->difference, v->difference);
    return true;
}

static struct branches_mark *
add_mark(struct branches *b)
{
    struct branches_mark *list = grow(b->mark, b->n_marks, sizeof(*list));

    if (list == NULL)
        return NULL;
    b->mark = list;
    memset(&list[b->n_marks], 0, sizeof(*list));
    return &list[b->n_marks++];
}

/* The attempt's latest incident; those of other lines may lie between. */
static struct branches_mark *
last_incident(const struct branches *b, int64_t attempt)
{
    for (int i = b->n_marks - 1; i >= 0; i--)
        if (!b->mark[i].is_guard && b->mark[i].attempt == attempt)
            return &b->mark[i];
    return NULL;
}

/* Those of one kind that follow on each other become one. */
bool
branches_add_incident(struct branches *b, const struct view_incident *v)
{
    struct branches_mark *last = last_incident(b, v->attempt);
    char text[BRANCHES_TEXT];

    if (v->verdict[0] == '\0')
        snprintf(text, sizeof(text), "not explained");
    else if (v->layer[0] != '\0')
        snprintf(text, sizeof(text), "%s at %s", v->verdict, v->layer);
    else
        snprintf(text, sizeof(text), "%s of %s", v->verdict, v->tensor);
    if (last != NULL && v->iteration <= last->last + 1 &&
        strcmp(last->text, text) == 0) {
        last->last = v->iteration;
        last->n++;
        return true;
    }
    struct branches_mark *m = add_mark(b);
    if (m == NULL)
        return false;
    m->attempt = v->attempt;
    m->iteration = m->last = v->iteration;
    m->n = 1;
    keep(m->text, text);
    return true;
}

bool
branches_add_guard(struct branches *b, const struct view_guard *v)
{
    struct branches_mark *m = add_mark(b);

    if (m == NULL)
        return false;
    m->is_guard = true;
    m->attempt = v->attempt;
    m->iteration = m->last = v->iteration;
    m->n = 1;
    snprintf(m->text, sizeof(m->text), "%.60s: %.200s: %s", v->condition,
             v->text, v->action);
    return true;
}

bool
branches_add_return(struct branches *b, const struct view_went_back *v)
{
    struct branches_return *list = grow(b->back, b->n_returns, sizeof(*list));

    if (list == NULL)
        return false;
    b->back = list;
    struct branches_return *r = &list[b->n_returns++];
    *r = (struct branches_return){
        .attempt = v->attempt,
        .from = v->from_iteration,
        .to = v->to_iteration,
        .policy_changed = v->policy_changed,
    };
    snprintf(r->checkpoint, sizeof(r->checkpoint), "%s", v->checkpoint);
    keep(r->cause, v->cause);
    keep(r->difference, v->difference);
    return true;
}

void
branches_fini(struct branches *b)
{
    free(b->attempt);
    free(b->mark);
    free(b->back);
    memset(b, 0, sizeof(*b));
}

/* ---- drawing --------------------------------------------------------------*/

struct pen {
    FILE *f;
    bool utf8;
};

__attribute__((format(printf, 3, 4))) static void
line(const struct pen *pen, const char *lead, const char *fmt, ...)
{
    char text[4 * BRANCHES_TEXT];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fputs(lead, pen->f);
    format_put_safe(pen->f, text, pen->utf8);
    fputc('\n', pen->f);
}

static const char *
trunk(const struct pen *pen)
{
    return pen->utf8 ? "\u2502   " : "|   ";
}

static const char *
twig(const struct pen *pen)
{
    return pen->utf8 ? "\u2514\u2500\u2500 " : "`-- ";
}

static const char *
branch(const struct pen *pen)
{
    return pen->utf8 ? "\u251c\u2500\u2500 " : "|-- ";
}

static int
compare_marks(const void *a, const void *b)
{
    const struct branches_mark *x = a, *y = b;

    if (x->iteration != y->iteration)
        return x->iteration < y->iteration ? -1 : 1;
    return (int)x->is_guard - (int)y->is_guard;
}

static const struct branches_attempt *
first_timed(const struct branches *b)
{
    for (int i = 0; i < b->n_attempts; i++)
        if (b->attempt[i].updates > 0 && b->attempt[i].mean_step_us > 0)
            return &b->attempt[i];
    return NULL;
}

/* "31.2 ms per update (+5.8 %)" against the first attempt that has updates. */
static void
write_cost(const struct branches *b, const struct branches_attempt *a,
           char out[128])
{
    const struct branches_attempt *first = first_timed(b);

    out[0] = '\0';
    if (a->updates == 0 || !(a->mean_step_us > 0))
        return;
    const int n =
        snprintf(out, 128, ", %.4g ms per update", a->mean_step_us / 1e3);
    if (first != a && a->policy_changed)
        snprintf(out + n, 128 - (size_t)n, " (%+.1f %%)",
                 100 * (a->mean_step_us / first->mean_step_us - 1));
}

static void
draw_attempt(const struct pen *pen, const struct branches *b,
             const struct branches_attempt *a)
{
    char cost[128];

    write_cost(b, a, cost);
    line(pen, branch(pen),
         "attempt %" PRId64 ": iterations %" PRId64 " to %" PRId64 ", %" PRId64
         " updates%s, %s",
         a->attempt, a->start, a->end, a->updates, cost, a->state);
    if (a->policy_changed && a->difference[0] != '\0')
        line(pen, trunk(pen), "policy changed: %s", a->difference);
    else if (a->policy_changed)
        line(pen, trunk(pen), "policy changed");
}

static void
draw_mark(const struct pen *pen, const struct branches_mark *m)
{
    if (m->is_guard)
        line(pen, trunk(pen), "%" PRId64 "  guard %s", m->iteration, m->text);
    else if (m->n == 1)
        line(pen, trunk(pen), "%" PRId64 "  incident: %s", m->iteration,
             m->text);
    else
        line(pen, trunk(pen),
             "%" PRId64 "..%" PRId64 "  %" PRId64 " incidents: %s",
             m->iteration, m->last, m->n, m->text);
}

static void
draw_return(const struct pen *pen, const struct branches_return *r)
{
    const int64_t left = r->from > r->to ? r->from - r->to : 0;

    line(pen, trunk(pen),
         "%" PRId64 "  back to %" PRId64 "%s%s%s: %s; %" PRId64
         " iterations abandoned",
         r->from, r->to, r->checkpoint[0] != '\0' ? " (" : " (the start",
         r->checkpoint, ")", r->cause, left);
    if (r->difference[0] != '\0')
        line(pen, trunk(pen), "     with %s", r->difference);
}

void
branches_draw(struct branches *b, const struct view_job *job, bool utf8,
              FILE *f)
{
    const struct pen pen = {f, utf8};

    line(&pen, "",
         "job %" PRId64 " %.128s: %s in %s, %" PRId64 " attempt%s, %" PRId64
         " rollback%s",
         job->id, job->name, job->state, job->dtype, job->attempt,
         job->attempt == 1 ? "" : "s", job->rollbacks,
         job->rollbacks == 1 ? "" : "s");
    if (b->n_marks > 1)
        qsort(b->mark, (size_t)b->n_marks, sizeof(*b->mark), compare_marks);
    for (int i = 0; i < b->n_attempts; i++) {
        const int64_t attempt = b->attempt[i].attempt;
        draw_attempt(&pen, b, &b->attempt[i]);
        for (int k = 0; k < b->n_marks; k++)
            if (b->mark[k].attempt == attempt)
                draw_mark(&pen, &b->mark[k]);
        for (int k = 0; k < b->n_returns; k++)
            if (b->back[k].attempt == attempt)
                draw_return(&pen, &b->back[k]);
    }
    line(&pen, twig(&pen),
         "iteration %" PRId64 " = %" PRId64 " updates + %" PRId64 " skips",
         job->iteration, job->updates, job->skips);
}

/* ---- in words -------------------------------------------------------------*/

static const struct branches_attempt *
last_timed(const struct branches *b)
{
    for (int i = b->n_attempts - 1; i >= 0; i--)
        if (b->attempt[i].updates > 0 && b->attempt[i].mean_step_us > 0)
            return &b->attempt[i];
    return NULL;
}

static void
report_cost(const struct pen *pen, const struct branches *b)
{
    const struct branches_attempt *first = first_timed(b),
                                  *last = last_timed(b);

    /* Of a policy that nothing was updated under, nothing is known. */
    if (first == last)
        line(pen, "", "  cost: unknown, only one policy made updates");
    else
        line(pen, "",
             "  cost: %.4g ms per update before, %.4g ms after (%+.1f %%)",
             first->mean_step_us / 1e3, last->mean_step_us / 1e3,
             100 * (last->mean_step_us / first->mean_step_us - 1));
}

void
branches_report(const struct branches *b, bool utf8, FILE *f)
{
    const struct pen pen = {f, utf8};
    bool changed = false;

    if (b->n_returns == 0)
        return;
    line(&pen, "", "what was changed on the way:");
    for (int i = 0; i < b->n_returns; i++) {
        const struct branches_return *r = &b->back[i];
        line(&pen, "", "  iteration %" PRId64 ": back to %" PRId64 "%s%s",
             r->from, r->to, r->difference[0] != '\0' ? ", from there on " : "",
             r->difference);
        line(&pen, "", "  why: %s", r->cause);
        changed = changed || r->policy_changed;
    }
    if (changed)
        report_cost(&pen, b);
}
