/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/keeper.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The one resumed from goes only when that many newer ones are there. */
#define NEWER_BEFORE_DROP 2

struct keeper {
    struct keeper_options o;     /* names in it are not used after creation */
    char *directory;             /* owned */
    char (*name)[CKPT_NAME_MAX]; /* owned: the live line, oldest first */
    int n_names, cap_names;
    char best[CKPT_NAME_MAX], resumed_from[CKPT_NAME_MAX];
    double best_metric;
    int64_t saved_iteration;
};

static void
copy_name(char to[CKPT_NAME_MAX], const char *from)
{
    const size_t n = strnlen(from, CKPT_NAME_MAX - 1);

    memcpy(to, from, n);
    to[n] = '\0';
}

static int
add_name(struct keeper *k, const char *name, struct err *err)
{
    if (k->n_names == k->cap_names) {
        const int cap = k->cap_names * 2 + 8;
        void *grown = realloc(k->name, (size_t)cap * sizeof(*k->name));
        if (grown == NULL)
            return err_set(err, ERR_NOMEM, "checkpoints: no memory");
        k->name = grown;
        k->cap_names = cap;
    }
    copy_name(k->name[k->n_names++], name);
    return 0;
}

int
keeper_create(const struct keeper_options *options, struct keeper **out,
              struct err *err)
{
    struct keeper *k = calloc(1, sizeof(*k));
    int rc = 0;

    *out = NULL;
    if (k == NULL || (k->directory = strdup(options->directory)) == NULL) {
        keeper_destroy(&k);
        return err_set(err, ERR_NOMEM, "checkpoints: no memory");
    }
    k->o = *options;
    k->o.directory = k->directory;
    k->best_metric = options->best[0] != '\0' ? options->best_metric : NAN;
    copy_name(k->best, options->best);
    copy_name(k->resumed_from, options->resumed_from);
    for (int i = 0; i < options->n_keep && rc == 0; i++)
        rc = add_name(k, options->keep[i], err);
    if (rc != 0) {
        keeper_destroy(&k);
        return rc;
    }
    ckpt_sweep(k->directory);
    *out = k;
    return 0;
}

void
keeper_destroy(struct keeper **keeper)
{
    struct keeper *k = *keeper;

    *keeper = NULL;
    if (k == NULL)
        return;
    free(k->directory);
    free(k->name);
    free(k);
}

bool
keeper_is_better(const struct keeper *k, double metric)
{
    if (!k->o.spec->checkpoint.has_best || isnan(metric))
        return false;
    if (isnan(k->best_metric))
        return true;
    return spec_metric_is_larger_better(k->o.spec->checkpoint.best)
               ? metric > k->best_metric
               : metric < k->best_metric;
}

static bool
must_stay(const struct keeper *k, int i)
{
    const int newer = k->n_names - 1 - i;

    if (newer < k->o.spec->checkpoint.keep || newer == 0)
        return true;
    if (strcmp(k->name[i], k->best) == 0)
        return true;
    return strcmp(k->name[i], k->resumed_from) == 0 &&
           newer < NEWER_BEFORE_DROP;
}

/* What cannot be removed now is tried again after the next checkpoint. */
static int
prune(struct keeper *k, const struct report *report, struct err *err)
{
    struct event e = {.kind = EVENT_CHECKPOINT_PRUNED};
    int n = 0, rc = 0;

    for (int i = 0; i < k->n_names; i++) {
        struct err why;
        err_clear(&why);
        if (rc == 0 && !must_stay(k, i)) {
            const int removed = ckpt_remove(k->directory, k->name[i], &why);
            if (removed == 0 || removed == ERR_NOTFOUND) {
                e.u.checkpoint_pruned.name = k->name[i];
                rc = report_emit(report, &e, err);
                k->name[i][0] = '\0';
                continue;
            }
            rc = report_warning(report, why.msg, err);
        }
    }
    for (int i = 0; i < k->n_names; i++)
        if (k->name[i][0] != '\0') {
            if (n != i)
                memcpy(k->name[n], k->name[i], sizeof(k->name[n]));
            n++;
        }
    k->n_names = n;
    return rc;
}

static int
report_written(const struct report *report, const struct ckpt_info *info,
               const struct keeper_request *q, int64_t duration_us,
               struct err *err)
{
    struct event e = {.kind = EVENT_CHECKPOINT};

    e.u.checkpoint.name = info->name;
    e.u.checkpoint.cause = q->cause;
    e.u.checkpoint.bytes = info->n_bytes;
    e.u.checkpoint.duration_us = duration_us;
    e.u.checkpoint.has_metric = q->has_metric;
    e.u.checkpoint.metric = q->has_metric ? q->metric : NAN;
    e.u.checkpoint.best = q->best;
    e.u.checkpoint.digest = info->digest;
    return report_emit(report, &e, err);
}

static int
report_failed(const struct report *report, const struct err *failure,
              struct err *err)
{
    struct event e = {.kind = EVENT_CHECKPOINT_FAILED};

    e.u.checkpoint_failed.name = "";
    e.u.checkpoint_failed.text = failure->msg;
    return report_emit(report, &e, err);
}

int
keeper_save(struct keeper *k, const struct report *report,
            const struct state *state, const struct keeper_request *q,
            struct err *failure, struct err *err)
{
    const struct ckpt_write_args args = {
        .directory = k->o.directory,
        .attempt = k->o.attempt,
        .policy = k->o.policy,
        .policy_history = k->o.policy_history,
        .spec_hash = k->o.spec_hash,
        .has_metric = q->has_metric && !isnan(q->metric),
        .metric = q->metric,
    };
    const int64_t start_us = clock_mono_us(&report->clock);
    struct ckpt_info info;
    int rc;

    err_clear(failure);
    /* A checkpoint may not be safer than the events that led to it. */
    if (report_sync(report, failure) != 0 ||
        ckpt_write(state, &args, &info, failure) != 0)
        return report_failed(report, failure, err);
    k->saved_iteration = state->count.iteration;
    rc = report_written(report, &info, q,
                        clock_mono_us(&report->clock) - start_us, err);
    if (rc == 0)
        rc = add_name(k, info.name, err);
    if (rc == 0 && q->best) {
        copy_name(k->best, info.name);
        k->best_metric = q->metric;
    }
    ckpt_info_fini(&info);
    return rc != 0 ? rc : prune(k, report, err);
}

int64_t
keeper_saved_iteration(const struct keeper *k)
{
    return k->saved_iteration;
}

void
keeper_set_saved_iteration(struct keeper *k, int64_t iteration)
{
    k->saved_iteration = iteration;
}
