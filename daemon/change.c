/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/change.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/spec.h"
#include "proto/spec_changes.h"
#include "proto/spec_merge.h"

#define MAX_PAIRS 1000

/* ---- windows --------------------------------------------------------------*/

struct windows {
    int64_t v[2 * MAX_PAIRS]; /* pairs by position, none touches the next */
    int n;                    /* pairs */
};

int64_t *
change_read_windows(const char *list, int *n)
{
    size_t max = strlen(list) / 2 + 1;
    int64_t *v = calloc(max, sizeof(*v));
    char *end;

    *n = 0;
    for (const char *at = list; v != NULL && *at != '\0'; at = end) {
        at += strcspn(at, "0123456789");
        end = (char *)(uintptr_t)at;
        if (*at != '\0')
            v[(*n)++] = strtoll(at, &end, 10);
    }
    *n -= *n % 2;
    if (*n == 0) {
        free(v);
        v = NULL;
    }
    return v;
}

/* False: too many, or no sane pair. */
static bool
add_window(struct windows *w, int64_t position, int64_t count)
{
    int at = 0;

    if (position < 0 || count < 1 || position > INT64_MAX / 4 ||
        count > INT64_MAX / 4 || w->n == MAX_PAIRS)
        return false;
    while (at < w->n && w->v[2 * at] <= position)
        at++;
    memmove(w->v + 2 * at + 2, w->v + 2 * at,
            (size_t)(w->n - at) * 2 * sizeof(w->v[0]));
    w->v[2 * at] = position;
    w->v[2 * at + 1] = count;
    w->n++;
    at = 0;
    for (int i = 1; i < w->n; i++) {
        int64_t *last = w->v + 2 * at, *next = w->v + 2 * i;

        if (next[0] > last[0] + last[1]) {
            memcpy(w->v + 2 * ++at, next, 2 * sizeof(w->v[0]));
        } else if (next[0] + next[1] > last[0] + last[1]) {
            last[1] = next[0] + next[1] - last[0];
        }
    }
    w->n = at + 1;
    return true;
}

/* The window that the iteration after `iteration` uses: each before it uses
 * one, but for those that are passed over. */
static int64_t
position_after(const struct windows *w, int64_t iteration)
{
    int64_t position = iteration;

    for (int i = 0; i < w->n && w->v[2 * i] <= position; i++)
        position += w->v[2 * i + 1];
    return position;
}

static int
put_windows(const struct windows *w, char **out, struct err *err)
{
    size_t size = (size_t)w->n * 44 + 3, n = 0;

    *out = malloc(size);
    if (*out == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a list of windows");
    n += (size_t)snprintf(*out, size, "[");
    for (int i = 0; i < 2 * w->n; i++)
        n += (size_t)snprintf(*out + n, size - n, "%s%" PRId64,
                              i > 0 ? "," : "", w->v[i]);
    snprintf(*out + n, size - n, "]");
    return 0;
}

static int
read_row_windows(const struct store_job *row, struct windows *w,
                 struct err *err)
{
    int n = 0;
    int64_t *v = change_read_windows(row->skip_windows, &n);
    bool ok = true;

    for (int i = 0; i < n && ok; i += 2)
        ok = add_window(w, v[i], v[i + 1]);
    free(v);
    return ok ? 0
              : err_set(err, ERR_STATE,
                        "its windows to pass over are no pairs");
}

static int
make_windows(const struct store_job *row, const struct change_ask *ask,
             struct change *out, struct err *err)
{
    int64_t iteration = ask->to != NULL ? ask->to->iteration : 0;
    struct windows *w = calloc(1, sizeof(*w));
    int64_t base;
    int rc;

    if (w == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a list of windows");
    rc = read_row_windows(row, w, err);
    base = position_after(w, iteration);
    /* Where another line stands in the data is not known from its counters
     * once this one has left windows out. */
    if (rc == 0 && ask->skip_batches > 0 && ask->to != NULL && !ask->to->live &&
        w->n > 0)
        rc = err_set(err, ERR_STATE,
                     "%s is on an abandoned line, and windows were passed "
                     "over since: skip batches from a checkpoint of the live "
                     "line, or from the start",
                     ask->to->name);
    if (rc == 0 &&
        (ask->skip_batches < 0 || ask->skip_batches > CHANGE_MAX_WINDOWS))
        rc = err_set(err, ERR_USAGE,
                     "%" PRId64 " windows cannot be passed over: 1 to %d can",
                     ask->skip_batches, CHANGE_MAX_WINDOWS);
    if (rc == 0 && ask->skip_batches > 0 &&
        !add_window(w, base, ask->skip_batches))
        rc = err_set(err, ERR_STATE, "it passes over too many windows already");
    for (int i = 0; i + 1 < ask->windows.n && rc == 0; i += 2) {
        int64_t position = ask->windows.v[i], count = ask->windows.v[i + 1];

        if (position < 0 || position > INT64_MAX / 4 || count < 1 ||
            count > CHANGE_MAX_WINDOWS)
            rc = err_set(err, ERR_SPEC,
                         "%" PRId64 " windows from %" PRId64
                         " on cannot be passed over",
                         count, position);
        else if (position + count > base &&
                 !add_window(w, position < base ? base : position,
                             position < base ? position + count - base : count))
            rc = err_set(err, ERR_STATE,
                         "it passes over too many windows already");
    }
    if (rc == 0)
        rc = put_windows(w, &out->skip_windows, err);
    free(w);
    return rc;
}

/* ---- the policy -----------------------------------------------------------*/

int
change_effective(const struct store_job *row, char **text, struct err *err)
{
    return spec_changes_apply(row->spec, strlen(row->spec), row->changes, text,
                              err);
}

static int
parse(const char *text, struct spec **spec, struct err *err)
{
    struct spec_faults faults = {0};
    int rc = spec_parse(text, strlen(text), spec, &faults);

    if (rc == ERR_SPEC && faults.n > 0)
        err_set(err, rc, "%s%s%s", faults.list[0].path,
                faults.list[0].path[0] != '\0' ? ": " : "",
                faults.list[0].message);
    else if (rc != 0)
        err_set(err, rc, "no memory for the spec");
    spec_faults_fini(&faults);
    return rc;
}

static int
parse_changed(const char *text, struct spec **spec, struct err *err)
{
    int rc = parse(text, spec, err);

    return rc == 0 ? 0 : err_prefix(err, "with the change the spec is invalid");
}

/* A fragment goes into the spec and into the one that stands for all. */
static int
take_fragment(char **text, struct change *out, const char *fragment,
              struct err *err)
{
    char *next = NULL;
    int rc = spec_merge(*text, strlen(*text), fragment, &next, err);

    if (rc != 0)
        return rc;
    free(*text);
    *text = next;
    rc = spec_merge(out->fragment, strlen(out->fragment), fragment, &next, err);
    if (rc == 0) {
        free(out->fragment);
        out->fragment = next;
    }
    return rc;
}

/* Of a cure, or of a guard: it must not take back what another one cured. */
static int
take_cure(const struct spec *before, const char *fragment, char **text,
          struct change *out, struct err *err)
{
    struct spec *after = NULL;
    char *regions = NULL;
    int rc = take_fragment(text, out, fragment, err);

    if (rc == 0)
        rc = parse_changed(*text, &after, err);
    if (rc == 0) {
        regions = spec_merge_regions(before, after);
        if (regions == NULL)
            rc = err_set(err, ERR_NOMEM, "no memory for the spec");
        else if (regions[0] != '\0')
            rc = take_fragment(text, out, regions, err);
    }
    free(regions);
    spec_destroy(&after);
    return rc;
}

static int
take_all(const struct spec *before, const struct change_ask *ask, char **text,
         struct change *out, struct err *err)
{
    int rc = spec_merge("{}", 2, "{}", &out->fragment, err);

    if (rc == 0 && ask->fragment[0] != '\0')
        rc = take_cure(before, ask->fragment, text, out, err);
    for (int i = 0; i < ask->set.n && rc == 0; i++) {
        char *fragment;

        rc =
            spec_merge_set(*text, strlen(*text), ask->set.v[i], &fragment, err);
        if (rc == 0)
            rc = take_fragment(text, out, fragment, err);
        free(fragment);
    }
    return rc;
}

static int
check_scale(const struct spec *spec, double scale, struct err *err)
{
    const struct spec_scaler *s = &spec->amp.scaler;

    if (isnan(scale))
        return 0;
    if (!isfinite(scale) || scale <= 0)
        return err_set(err, ERR_USAGE, "%g is no loss scale: it is positive",
                       scale);
    if (!s->enabled || !s->dynamic)
        return err_set(
            err, ERR_STATE, "the loss scale is %s (amp.scaler.%s is false)",
            s->enabled ? "fixed" : "off", s->enabled ? "dynamic" : "enabled");
    if ((s->min_scale > 0 && scale < s->min_scale) ||
        (s->max_scale > 0 && scale > s->max_scale))
        return err_set(err, ERR_USAGE,
                       "a loss scale of %g is outside amp.scaler.min_scale %g "
                       "and max_scale %g",
                       scale, s->min_scale, s->max_scale);
    return 0;
}

static void
write_cause(const struct change_ask *ask, struct change *out)
{
    char scale[48] = "", skip[64] = "";

    if (!isnan(ask->scale))
        snprintf(scale, sizeof(scale), "; loss scale %g", ask->scale);
    if (ask->skip_batches > 0)
        snprintf(skip, sizeof(skip), "; passes over %" PRId64 " windows",
                 ask->skip_batches);
    else if (ask->windows.n > 1)
        snprintf(skip, sizeof(skip), "; passes over windows of data");
    snprintf(out->cause, sizeof(out->cause), "%.380s%s%s", ask->cause, skip,
             scale);
}

static int
make_policy(const struct store_job *row, const struct change_ask *ask,
            struct change *out, struct err *err)
{
    struct spec *before = NULL, *after = NULL;
    char *text = NULL;
    int rc = change_effective(row, &text, err);

    if (rc == 0)
        rc = parse(text, &before, err);
    if (rc == 0)
        rc = take_all(before, ask, &text, out, err);
    if (rc == 0)
        rc = parse_changed(text, &after, err);
    if (rc == 0)
        rc = spec_difference(before, after, &out->difference, err);
    if (rc == 0)
        rc = check_scale(after, ask->scale, err);
    spec_destroy(&before);
    spec_destroy(&after);
    free(text);
    return rc;
}

int
change_make(const struct store_job *row, const struct change_ask *ask,
            struct change *out, struct err *err)
{
    struct spec_changes_entry entry = {
        .attempt = row->view.attempt + 1,
        .iteration = ask->to != NULL ? ask->to->iteration : 0,
        .uid = ask->uid,
    };
    int rc;

    memset(out, 0, sizeof(*out));
    out->scale = ask->scale;
    write_cause(ask, out);
    rc = make_policy(row, ask, out, err);
    if (rc == 0)
        rc = make_windows(row, ask, out, err);
    if (rc != 0)
        return rc;
    out->policy_changed = out->difference[0] != '\0';
    entry.cause = out->cause;
    entry.difference = out->difference;
    entry.change = out->policy_changed ? out->fragment : "{}";
    return spec_changes_add(row->changes, &entry, &out->changes, err);
}

int
change_move(const struct store_job *row, const char *changes,
            const struct change_ask *ask, struct change *out, struct err *err)
{
    struct spec_changes_entry entry;
    int rc;

    memset(out, 0, sizeof(*out));
    if (spec_changes_last(changes, &entry)) {
        entry.iteration = ask->to->iteration;
        rc = make_windows(row, ask, out, err);
        if (rc == 0)
            rc = spec_changes_add(row->changes, &entry, &out->changes, err);
    } else {
        rc = err_set(err, ERR_STATE, "the change that was made is lost");
    }
    spec_changes_fini(&entry);
    return rc;
}

void
change_fini(struct change *change)
{
    free(change->changes);
    free(change->skip_windows);
    free(change->fragment);
    free(change->difference);
    memset(change, 0, sizeof(*change));
}

/* ---- what is read off a row ------------------------------------------------*/

static struct spec *
parse_effective(const struct store_job *row)
{
    struct spec *spec = NULL;
    char *text = NULL;
    struct err err;

    if (change_effective(row, &text, &err) == 0)
        parse(text, &spec, &err);
    free(text);
    return spec;
}

int64_t
change_max_rollbacks(const struct store_job *row)
{
    struct spec *spec = parse_effective(row);
    int64_t n = spec != NULL ? spec->guard.max_rollbacks : 0;

    spec_destroy(&spec);
    return n;
}

void
change_show(struct job *job)
{
    struct view_job *view = &job->row.view;
    struct spec *after = parse_effective(&job->row), *before = NULL;
    char *difference = NULL;
    struct err err;

    view->policy_changed =
        view->policy_changed || spec_changes_any(job->row.changes);
    if (after == NULL)
        return;
    job_set_text(&view->dtype, dtype_name(after->amp.dtype));
    if (parse(job->row.spec, &before, &err) == 0 &&
        spec_difference(before, after, &difference, &err) == 0)
        job_set_text(&view->difference, difference);
    free(difference);
    spec_destroy(&before);
    spec_destroy(&after);
}
