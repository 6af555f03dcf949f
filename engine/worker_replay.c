/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_replay.h"

#include "engine/diagnose/incident_file.h"
#include "engine/diagnose/ranges.h"
#include "engine/run/ckpt.h"
#include "engine/run/optimizer.h"
#include "engine/run/policy.h"
#include "engine/run/source.h"
#include "engine/worker_check.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_DIFFERENT  1
#define MAX_THREADS     4096
#define MAX_DIFFERENCES 32
#define LINE_MAX_BYTES  256

/* What is run again, and what it comes to. */
struct play {
    const struct worker_replay_args *args;
    struct spec *spec; /* borrowed; dtype and regions as asked for */
    struct ranges_options o;
    struct state *state; /* owned */
    const struct prefetch_window *window;
    struct ranges *ranges; /* owned */
    const char **regions;  /* owned */
    char *policy;          /* owned: of this run */
    struct view_replay view;
    char varied[LINE_MAX_BYTES], where[LINE_MAX_BYTES];
    char difference[MAX_DIFFERENCES][LINE_MAX_BYTES];
    const char *difference_at[MAX_DIFFERENCES];
    int n_differences;
};

/* ---- the command line -----------------------------------------------------*/

bool
worker_replay_take(struct worker_replay_args *args, const char *name,
                   const char *value)
{
    char *end;

    if (strcmp(name, "replay") == 0) {
        args->incident = value;
    } else if (strcmp(name, "ranges") == 0) {
        args->checkpoint = value;
    } else if (strcmp(name, "backend") == 0) {
        args->backend = value;
    } else if (strcmp(name, "threads") == 0) {
        const long n = strtol(value, &end, 10);
        args->threads = (int)n;
        return *end == '\0' && n >= 1 && n <= MAX_THREADS;
    } else if (strcmp(name, "amp") == 0) {
        args->has_dtype = true;
        args->dtype = dtype_parse(value);
        return args->dtype == DTYPE_F32 || dtype_is_half(args->dtype);
    } else if (strcmp(name, "scale") == 0) {
        args->has_scale = true;
        args->scale = strtof(value, &end);
        return end != value && *end == '\0' && isfinite(args->scale) &&
               args->scale > 0;
    } else if (strcmp(name, "fp32-region") == 0) {
        if (args->n_regions == WORKER_REPLAY_MAX_REGIONS)
            return false;
        args->region[args->n_regions++] = value;
    } else {
        return false;
    }
    return true;
}

/* ---- what is changed ------------------------------------------------------*/

static void
add_varied(struct play *r, const char *what, const char *value)
{
    const size_t n = strlen(r->varied);

    snprintf(r->varied + n, sizeof(r->varied) - n, "%s%s %s", n > 0 ? ", " : "",
             what, value);
}

static bool
is_region(const struct spec *spec, const char *path)
{
    for (int i = 0; i < spec->amp.n_fp32_regions; i++)
        if (strcmp(spec->amp.fp32_regions[i], path) == 0)
            return true;
    return false;
}

static int
add_regions(struct play *r, struct err *err)
{
    struct spec *spec = r->spec;
    const int n = spec->amp.n_fp32_regions;

    r->regions =
        calloc((size_t)(n + r->args->n_regions) + 1, sizeof(*r->regions));
    if (r->regions == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory");
    for (int i = 0; i < n; i++)
        r->regions[i] = spec->amp.fp32_regions[i];
    spec->amp.fp32_regions = r->regions;
    for (int i = 0; i < r->args->n_regions; i++) {
        if (is_region(spec, r->args->region[i]))
            continue;
        r->regions[spec->amp.n_fp32_regions++] = r->args->region[i];
        add_varied(r, "fp32 region", r->args->region[i]);
    }
    return 0;
}

/* A path that names no layer would change nothing, in silence. */
static int
check_spec(const struct play *r, struct err *err)
{
    struct spec_faults faults = {0};
    struct spec *again = NULL;
    char *text = spec_print(r->spec);
    int rc;

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory");
    rc = spec_parse(text, strlen(text), &again, &faults);
    if (rc == ERR_SPEC && faults.n > 0)
        err_set(err, rc, "%s: %s", faults.list[0].path, faults.list[0].message);
    else if (rc != 0)
        err_set(err, rc, "replay: %s", err_line(rc));
    spec_faults_fini(&faults);
    spec_destroy(&again);
    free(text);
    return rc;
}

/* To spec and options; the scale comes when there is a state. */
static int
vary(struct play *r, const char *backend, int threads, struct err *err)
{
    const struct worker_replay_args *a = r->args;
    const char *name = a->backend != NULL ? a->backend : backend;

    r->o.spec = r->spec;
    r->o.backend = backend_find(name);
    r->o.threads = a->threads > 0 ? a->threads : threads;
    if (r->o.backend == NULL)
        return err_set(err, ERR_UNSUPPORTED, "device: there is no \"%s\" here",
                       name);
    if (a->has_dtype && a->dtype != r->spec->amp.dtype) {
        r->spec->amp.dtype = a->dtype;
        add_varied(r, "dtype", dtype_name(a->dtype));
    }
    const int rc = add_regions(r, err);
    return rc != 0 || r->varied[0] == '\0' ? rc : check_spec(r, err);
}

static void
vary_scale(struct play *r)
{
    char text[32];

    if (!r->args->has_scale || r->state->scaler.scale == r->args->scale)
        return;
    r->state->scaler.scale = r->args->scale;
    snprintf(text, sizeof(text), "%.9g", (double)r->args->scale);
    add_varied(r, "scale", text);
}

static void
on_difference(void *ctx, const char *text)
{
    struct play *r = ctx;

    if (r->n_differences == MAX_DIFFERENCES)
        return;
    char *line = r->difference[r->n_differences];
    snprintf(line, LINE_MAX_BYTES, "%s", text);
    r->difference_at[r->n_differences++] = line;
}

/* ---- the answer -----------------------------------------------------------*/

static int
put_view(enum view_id id, const void *view, struct err *err)
{
    size_t len;
    char *text = codec_write_view(id, view, 0, &len);

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory");
    fwrite(text, 1, len, stdout);
    putchar('\n');
    free(text);
    if (ferror(stdout))
        return err_set_errno(err, ERR_IO, errno, "standard output");
    return 0;
}

static int
put_range(const struct ranges_row *row, struct err *err)
{
    struct view_range v;

    view_init(VIEW_ID_range, &v);
    v.pass = event_pass_name(row->pass);
    v.layer = row->layer;
    v.op = row->op;
    v.tensor = row->tensor;
    v.dtype = dtype_name(row->desc.dtype);
    v.shape = (struct view_i64s){row->desc.dim, row->desc.rank};
    v.largest = row->largest;
    v.smallest = row->smallest;
    v.nonfinite = row->n_nonfinite;
    v.flushed = row->flushed;
    v.headroom = row->headroom;
    v.fp32_largest = row->fp32_largest;
    v.fp32_smallest = row->fp32_smallest;
    v.fp32_nonfinite = row->fp32_nonfinite;
    v.mark = ranges_mark_name(row->mark);
    return put_view(VIEW_ID_range, &v, err);
}

/* The batch's own numbers come before any op. */
static bool
is_bad_input(const struct play *r)
{
    const struct kernel_flat flat = backend_flat(r->o.backend);
    int64_t n = 1;

    if (r->o.data.input_is_tokens)
        return false;
    for (int i = 0; i < r->o.data.rank; i++)
        n *= r->o.data.dim[i];
    for (int64_t b = 0; b < r->window->at.n_batches; b++)
        if (flat.find_nonfinite(r->window->batch[b].input, DTYPE_F32,
                                r->window->batch[b].n * n, r->o.threads) >= 0)
            return true;
    return false;
}

/* Nor does any op make the weights. */
static const char *
find_bad_weight(const struct play *r)
{
    const struct kernel_flat flat = backend_flat(r->o.backend);

    for (int i = 0; i < r->state->n_params; i++) {
        const struct state_tensor *t = &r->state->param[i];
        if (flat.find_nonfinite(r->state->weights + t->offset, DTYPE_F32,
                                t->n_elems, r->o.threads) >= 0)
            return t->name;
    }
    return NULL;
}

static void
say_first(struct play *r)
{
    const char *weight = find_bad_weight(r);
    struct view_replay *v = &r->view;

    if (weight != NULL) {
        v->pass = event_pass_name(EVENT_PASS_OPTIMIZER);
        v->tensor = weight;
        v->tensor_dtype = dtype_name(DTYPE_F32);
        return;
    }

    if (is_bad_input(r)) {
        v->pass = event_pass_name(EVENT_PASS_INPUT);
        v->tensor = "x";
        v->tensor_dtype = dtype_name(DTYPE_F32);
        return;
    }
    for (int i = 0; i < ranges_n(r->ranges); i++) {
        const struct ranges_row *row = ranges_at(r->ranges, i);

        if (row->n_nonfinite == 0)
            continue;
        v->pass = event_pass_name(row->pass);
        v->layer = row->layer;
        v->op = row->op;
        v->tensor = row->tensor;
        v->tensor_dtype = dtype_name(row->desc.dtype);
        return;
    }
    if (!v->finite)
        v->pass = event_pass_name(EVENT_PASS_UNSCALE);
}

static int
measure(struct play *r, struct err *err)
{
    const struct ranges_outcome *outcome;
    struct view_replay *v = &r->view;
    int rc = ranges_measure(&r->o, r->state, r->window, &r->ranges, err);

    if (rc != 0)
        return rc;
    outcome = ranges_outcome(r->ranges);
    r->policy = policy_format(r->spec, r->o.backend->name, r->o.threads);
    if (r->policy == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory");
    v->iteration = r->state->count.iteration + 1;
    v->backend = r->o.backend->name;
    v->threads = r->o.threads;
    v->dtype = dtype_name(r->spec->amp.dtype);
    v->regions = (struct view_strs){r->regions, r->spec->amp.n_fp32_regions};
    v->scale = (double)r->state->scaler.scale;
    v->varied = r->varied;
    v->digest = outcome->digest;
    v->finite = outcome->finite;
    v->loss = (double)outcome->loss;
    say_first(r);
    return 0;
}

static int
put_all(struct play *r, struct err *err)
{
    int rc;

    r->view.differences =
        (struct view_strs){r->difference_at, r->n_differences};
    rc = put_view(VIEW_ID_replay, &r->view, err);
    for (int i = 0; i < ranges_n(r->ranges) && rc == 0; i++)
        rc = put_range(ranges_at(r->ranges, i), err);
    if (rc == 0 && fflush(stdout) != 0)
        rc = err_set_errno(err, ERR_IO, errno, "standard output");
    return rc;
}

static void
fini(struct play *r)
{
    ranges_destroy(&r->ranges);
    state_destroy(&r->state);
    free(r->regions);
    free(r->policy);
}

/* ---- an incident ----------------------------------------------------------*/

/* "fc1.out[0,3] of linear fc1 (forward, float16) is +inf". */
static void
say_where(struct play *r, const struct event *e)
{
    char index[TENSOR_MAX_RANK * 22 + 3] = ""; /* of any 64-bit numbers */
    size_t n = 0;

    if (!e->u.incident.located)
        return;
    for (int i = 0; i < e->u.incident.rank; i++)
        n += (size_t)snprintf(index + n, sizeof(index) - n, "%c%" PRId64,
                              i == 0 ? '[' : ',', e->u.incident.index[i]);
    snprintf(r->where, sizeof(r->where), "%s%s%s%s%s%s%s (%s, %s) is %s",
             e->u.incident.tensor, index, n > 0 ? "]" : "",
             e->u.incident.op[0] != '\0' ? " of " : "", e->u.incident.op,
             e->u.incident.layer[0] != '\0' ? " " : "", e->u.incident.layer,
             event_pass_name(e->u.incident.pass),
             dtype_name(e->u.incident.dtype),
             event_nonfinite_name(e->u.incident.what));
}

static void
say_recorded(struct play *r, const struct incident_record *record)
{
    const struct event *e = &record->diagnosis;
    struct view_replay *v = &r->view;

    v->name = record->name;
    v->attempt = record->attempt;
    v->recorded = record->digest;
    if (r->varied[0] == '\0')
        v->bits = strcmp(v->digest, v->recorded) == 0 ? "same" : "different";
    say_where(r, e);
    v->where = r->where;
    v->verdict = event_verdict_name(e->u.incident.verdict);
    v->sentence = e->u.incident.sentence;
    v->cure = e->u.incident.cure;
    policy_compare(r->policy, record->policy, on_difference, r);
}

/* What its model or its precision cannot do, unless something else was asked
 * for. */
static int
blame_spec(const struct play *r, struct err *err)
{
    if (r->varied[0] != '\0' || r->args->backend != NULL)
        return err->code;
    if (err->code == ERR_SPEC || err->code == ERR_UNSUPPORTED)
        err->code = ERR_CKPT;
    return err_prefix(err, "spec.json");
}

/* Another machine may have what this one has not. */
static int
check_backend(const struct play *r, const struct incident_record *record,
              struct err *err)
{
    if (r->args->backend != NULL || backend_find(record->backend) != NULL)
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: incident.json: backend: there is no \"%.64s\" here; "
                   "--backend cpu runs it on the processor",
                   r->args->incident, record->backend);
}

static int
replay(const struct worker_replay_args *args, bool *same, struct err *err)
{
    struct play *r = calloc(1, sizeof(*r));
    struct incident_file *file = NULL;
    const struct incident_record *record;
    int rc;

    if (r == NULL)
        return err_set(err, ERR_NOMEM, "replay: no memory");
    view_init(VIEW_ID_replay, &r->view);
    r->args = args;
    rc = incident_file_open(args->incident, &file, err);
    if (rc != 0)
        goto out;
    record = incident_file_record(file);
    r->spec = incident_file_spec(file);
    r->o.data = record->data;
    rc = check_backend(r, record, err);
    if (rc == 0)
        rc = vary(r, record->backend, record->threads, err);
    if (rc != 0)
        goto out;
    r->window = incident_file_window(file);
    rc = incident_file_make_state(file, &r->state, err);
    if (rc == 0) {
        vary_scale(r);
        if (measure(r, err) != 0)
            rc = blame_spec(r, err);
    }
    if (rc != 0) {
        err_prefix(err, "%s", args->incident);
    } else {
        say_recorded(r, record);
        *same = strcmp(r->view.bits, "different") != 0;
        rc = put_all(r, err);
    }
out:
    fini(r);
    incident_file_close(&file);
    free(r);
    return rc;
}

/* ---- a checkpoint ---------------------------------------------------------*/

struct ready {
    struct source source;
    struct optimizer *optimizer; /* owned, as below */
    struct prefetch *prefetch;
    struct ckpt_info info;
};

/* Moments too, as a checkpoint is read as a whole. */
static int
make_state(struct play *r, struct ready *ready, struct err *err)
{
    const struct source *s = &ready->source;
    const struct kernel_flat flat = backend_flat(r->o.backend);
    struct graph *graph = NULL;
    struct lrate lrate;
    int rc = build_graph(r->spec, &s->data, BUILD_TRAIN,
                         s->train_full > 0 ? s->train_full : s->train_last,
                         &graph, err);

    if (rc == 0)
        rc = source_check_model(s, graph, err);
    if (rc == 0)
        rc = state_create(graph, optimizer_n_moments(r->spec), &r->state, err);
    if (rc == 0) {
        lrate_init(&lrate, r->spec, s->total_iterations);
        rc = optimizer_create(r->spec, r->state, &flat, r->o.threads, &lrate,
                              &ready->optimizer, err);
    }
    if (rc == 0) {
        scaler_init(&r->state->scaler, &r->spec->amp.scaler);
        if (r->spec->train.ema_decay > 0)
            rc = state_start_ema(r->state, err);
    }
    graph_destroy(&graph);
    return rc;
}

static int
read_checkpoint(struct play *r, struct ready *ready, struct err *err)
{
    char *path = strdup(r->args->checkpoint), *slash;
    int rc;

    if (path == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory");
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
    rc = ckpt_read(slash == NULL ? "." : path, slash == NULL ? path : slash + 1,
                   r->state, &ready->info, err);
    free(path);
    return rc;
}

static int
get_ready(struct play *r, struct ready *ready, struct err *err)
{
    const struct source *s = &ready->source;
    int rc = source_open(r->spec, &ready->source, err);

    if (rc != 0)
        return rc;
    r->o.data = s->data;
    rc = make_state(r, ready, err);
    if (rc == 0)
        rc = read_checkpoint(r, ready, err);
    if (rc == 0)
        rc = prefetch_create(s->train, &s->order, false, &ready->prefetch, err);
    if (rc == 0)
        r->window =
            prefetch_window_at(ready->prefetch, r->state->count.data_position);
    return rc;
}

static int
show_ranges(const struct worker_replay_args *args, struct spec *spec,
            struct err *err)
{
    struct play *r = calloc(1, sizeof(*r));
    struct ready ready;
    int rc;

    memset(&ready, 0, sizeof(ready));
    if (r == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory");
    view_init(VIEW_ID_replay, &r->view);
    r->args = args;
    r->spec = spec;
    rc = vary(r, spec->device, worker_check_threads(spec), err);
    if (rc == 0)
        rc = get_ready(r, &ready, err);
    if (rc == 0) {
        vary_scale(r);
        r->view.name = ready.info.name;
        r->view.attempt = ready.info.attempt;
        rc = measure(r, err);
    }
    if (rc == 0)
        rc = put_all(r, err);
    fini(r);
    prefetch_destroy(&ready.prefetch);
    optimizer_destroy(&ready.optimizer);
    source_close(&ready.source);
    ckpt_info_fini(&ready.info);
    free(r);
    return rc;
}

int
worker_replay(const struct worker_replay_args *args)
{
    struct spec *spec = NULL;
    bool same = true;
    struct err err;
    int rc;

    err_clear(&err);
    if (args->incident != NULL) {
        rc = replay(args, &same, &err);
    } else {
        rc = worker_check_load(args->spec, &spec, &err);
        if (rc == 0)
            rc = show_ranges(args, spec, &err);
    }
    spec_destroy(&spec);
    if (rc == 0)
        return same ? 0 : EXIT_DIFFERENT;
    fprintf(stderr, "traind-worker: %s\n", err.msg);
    return err_exit_code(rc);
}
