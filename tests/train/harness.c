/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/train/harness.h"

#include "engine/data/safetensors.h"

#include <math.h>

/* ---- files ----------------------------------------------------------------*/

void
harness_init(struct harness *h)
{
    memset(h, 0, sizeof(*h));
    bytes_make_dir(h->dir);
    h->tick_us = 10;
    h->backend = "cpu";
}

void
harness_fini(struct harness *h)
{
    harness_close(h);
    spec_destroy(&h->spec);
    free(h->events);
    bytes_remove_dir(h->dir);
}

static void
make_path(const struct harness *h, const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", h->dir, name);
}

static void
write_npy(struct harness *h, const char *name, const char *code,
          const char *shape, const void *values, size_t n_bytes)
{
    char path[256], head[128];
    uint8_t *file = malloc(n_bytes + sizeof(head));

    assert_non_null(file);
    make_path(h, name, path);
    memset(head, ' ', sizeof(head));
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n =
        snprintf(head + 10, sizeof(head) - 10,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 code, shape);
    head[10 + n] = ' ';
    head[127] = '\n';
    memcpy(file, head, sizeof(head));
    memcpy(file + sizeof(head), values, n_bytes);
    bytes_write_file(path, file, n_bytes + sizeof(head));
    free(file);
}

void
harness_npy_f32(struct harness *h, const char *name, int rank,
                const int64_t *dim, const float *values)
{
    char shape[64] = "";
    size_t n = 1;

    for (int i = 0; i < rank; i++) {
        const size_t at = strlen(shape);
        snprintf(shape + at, sizeof(shape) - at, "%lld,", (long long)dim[i]);
        n *= (size_t)dim[i];
    }
    write_npy(h, name, "<f4", shape, values, n * sizeof(float));
}

void
harness_npy_i64(struct harness *h, const char *name, int64_t n,
                const int64_t *values)
{
    char shape[32];

    snprintf(shape, sizeof(shape), "%lld,", (long long)n);
    write_npy(h, name, "<i8", shape, values, (size_t)n * sizeof(int64_t));
}

void
harness_weights(struct harness *h, const char *name,
                const struct harness_tensor *tensors, int n)
{
    struct safetensors_entry entry[8];
    char path[256], digest[33];
    int64_t n_bytes;
    int fd;

    assert_true(n <= 8);
    make_path(h, name, path);
    for (int i = 0; i < n; i++)
        entry[i] = (struct safetensors_entry){
            tensors[i].name,
            tensor_make(DTYPE_F32, tensors[i].rank, tensors[i].dim),
            tensors[i].values};
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(
        safetensors_write(fd, entry, n, NULL, 0, digest, &n_bytes, &h->err), 0);
    close(fd);
}

void
harness_spec(struct harness *h, const char *text)
{
    struct spec_faults faults = {0};
    char *json = strdup(text);

    assert_non_null(json);
    for (char *c = json; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    harness_close(h);
    spec_destroy(&h->spec);
    if (spec_parse(json, strlen(json), &h->spec, &faults) != 0)
        fail_msg("spec: %s: %s", faults.list[0].path, faults.list[0].message);
    assert_int_equal(spec_resolve_paths(h->spec, h->dir, &h->err), 0);
    spec_faults_fini(&faults);
    free(json);
}

/* ---- hooks ----------------------------------------------------------------*/

static const char *
keep_text(struct harness_event *kept, int i, const char *s)
{
    snprintf(kept->text[i], EVENT_NAME_MAX, "%s", s);
    return kept->text[i];
}

static void
keep_sentence(struct harness_event *kept, const char **sentence)
{
    snprintf(kept->sentence, sizeof(kept->sentence), "%.*s", EVENT_TEXT_MAX - 1,
             *sentence);
    *sentence = kept->sentence;
}

static void
keep_samples(struct harness_event *kept, const int64_t **samples, int n)
{
    n = n < HARNESS_MAX_SAMPLES ? n : HARNESS_MAX_SAMPLES;
    if (n > 0)
        memmove(kept->samples, *samples, (size_t)n * sizeof(int64_t));
    *samples = kept->samples;
}

static void
keep_strings(struct harness_event *kept)
{
    struct event *e = &kept->e;

    if (e->kind == EVENT_STARTED) {
        e->u.started.checkpoint = keep_text(kept, 0, e->u.started.checkpoint);
        e->u.started.policy = keep_text(kept, 1, e->u.started.policy);
    } else if (e->kind == EVENT_SCALE) {
        keep_samples(kept, &e->u.scale.samples, e->u.scale.n_samples);
        e->u.scale.optimizers = keep_text(kept, 0, e->u.scale.optimizers);
    } else if (e->kind == EVENT_EVALUATION) {
        const int n = e->u.evaluation.n_classes * e->u.evaluation.n_classes;
        assert_true(n <= HARNESS_MAX_SAMPLES);
        if (n > 0)
            memmove(kept->confusion, e->u.evaluation.confusion,
                    (size_t)n * sizeof(int64_t));
        e->u.evaluation.confusion = kept->confusion;
    } else if (e->kind == EVENT_INCIDENT) {
        e->u.incident.layer = keep_text(kept, 0, e->u.incident.layer);
        e->u.incident.op = keep_text(kept, 1, e->u.incident.op);
        e->u.incident.tensor = keep_text(kept, 2, e->u.incident.tensor);
        e->u.incident.cure = keep_text(kept, 3, e->u.incident.cure);
        e->u.incident.regions = keep_text(kept, 4, e->u.incident.regions);
        e->u.incident.name = keep_text(kept, 5, e->u.incident.name);
        keep_sentence(kept, &e->u.incident.sentence);
        keep_samples(kept, &e->u.incident.samples, e->u.incident.n_samples);
    } else if (e->kind == EVENT_CHECKPOINT) {
        e->u.checkpoint.name = keep_text(kept, 0, e->u.checkpoint.name);
        e->u.checkpoint.digest = keep_text(kept, 1, e->u.checkpoint.digest);
    } else if (e->kind == EVENT_CHECKPOINT_FAILED) {
        e->u.checkpoint_failed.name =
            keep_text(kept, 0, e->u.checkpoint_failed.name);
        e->u.checkpoint_failed.text =
            keep_text(kept, 1, e->u.checkpoint_failed.text);
    } else if (e->kind == EVENT_CHECKPOINT_PRUNED) {
        e->u.checkpoint_pruned.name =
            keep_text(kept, 0, e->u.checkpoint_pruned.name);
    } else if (e->kind == EVENT_GUARD) {
        e->u.guard.condition = keep_text(kept, 0, e->u.guard.condition);
        e->u.guard.change = keep_text(kept, 1, e->u.guard.change);
        keep_sentence(kept, &e->u.guard.text);
    } else if (e->kind == EVENT_WARNING) {
        e->u.warning.text = keep_text(kept, 0, e->u.warning.text);
    }
}

static int
on_event(void *ctx, const struct event *event, struct err *err)
{
    struct harness *h = ctx;

    (void)err;
    if (h->n_events == h->cap_events) {
        struct harness_event *old = h->events;
        h->cap_events = h->cap_events * 2 + 1024;
        h->events = calloc((size_t)h->cap_events, sizeof(*h->events));
        assert_non_null(h->events);
        for (int i = 0; i < h->n_events; i++) {
            h->events[i] = old[i];
            keep_strings(&h->events[i]); /* from the old ones */
        }
        free(old);
    }
    struct harness_event *kept = &h->events[h->n_events++];
    kept->e = *event;
    keep_strings(kept);
    return 0;
}

static int
on_sync(void *ctx, struct err *err)
{
    struct harness *h = ctx;

    (void)err;
    h->n_syncs++;
    return 0;
}

static unsigned
on_orders(void *ctx)
{
    struct harness *h = ctx;
    const int64_t done =
        h->engine != NULL ? engine_state(h->engine)->count.iteration : 0;
    unsigned orders = 0;

    for (int i = 0; i < h->n_orders; i++)
        if (h->order[i].orders != 0 && done >= h->order[i].iteration) {
            orders |= h->order[i].orders;
            h->order[i].orders &= ~(unsigned)REPORT_CHECKPOINT;
        }
    return orders;
}

static int64_t
on_clock(void *ctx)
{
    struct harness *h = ctx;

    h->clock_us += h->tick_us;
    return h->clock_us;
}

/* ---- running --------------------------------------------------------------*/

int
harness_run(struct harness *h, const char *resume)
{
    const char *names[1] = {resume};
    const struct engine_options o = {
        .backend = h->backend,
        .threads = h->spec->threads > 0 ? h->spec->threads : 1,
        .directory = h->dir,
        .attempt = ++h->attempt,
        .threaded = true,
        .clock = {on_clock, on_clock, h},
        .hooks = {h, on_event, on_sync, on_orders},
        .resume = names,
        .n_resume = resume != NULL,
        .resume_required = resume != NULL,
        .keep = names,
        .n_keep = resume != NULL,
        .best = "",
        .scale = h->scale,
        .skip_windows = h->skip_windows,
        .n_skip_windows = h->n_skip_windows,
        .guard_rollbacks = h->guard_rollbacks,
    };

    harness_close(h);
    err_clear(&h->err);
    const int rc = engine_open(h->spec, &o, &h->engine, &h->err);
    if (rc != 0) {
        h->outcome = EVENT_OUTCOME_FAILED;
        return rc;
    }
    return engine_run(h->engine, &h->outcome, &h->err);
}

void
harness_order(struct harness *h, int64_t iteration, unsigned orders)
{
    assert_true(h->n_orders < HARNESS_MAX_ORDERS);
    h->order[h->n_orders].iteration = iteration;
    h->order[h->n_orders++].orders = orders;
}

void
harness_close(struct harness *h)
{
    engine_close(&h->engine);
}

void
harness_forget(struct harness *h)
{
    h->n_events = 0;
    h->n_orders = 0;
}

void
harness_reset(struct harness *h)
{
    char path[256];

    harness_close(h);
    harness_forget(h);
    h->attempt = 0;
    make_path(h, "checkpoints", path);
    if (bytes_exists(path))
        bytes_remove_dir(path);
}

/* ---- looking --------------------------------------------------------------*/

const struct event *
harness_event(const struct harness *h, enum event_kind kind, int i)
{
    for (int k = 0; k < h->n_events; k++)
        if (h->events[k].e.kind == kind && i-- == 0)
            return &h->events[k].e;
    return NULL;
}

int
harness_count(const struct harness *h, enum event_kind kind)
{
    int n = 0;

    for (int i = 0; i < h->n_events; i++)
        n += h->events[i].e.kind == kind;
    return n;
}

const float *
harness_param(const struct harness *h, const char *name)
{
    const struct state *s = engine_state(h->engine);

    for (int i = 0; i < s->n_params; i++)
        if (strcmp(s->param[i].name, name) == 0)
            return s->weights + s->param[i].offset;
    return NULL;
}

const float *
harness_buffer(const struct harness *h, const char *name)
{
    const struct state *s = engine_state(h->engine);

    for (int i = 0; i < s->n_buffers; i++)
        if (strcmp(s->buffer[i].name, name) == 0)
            return s->buffers + s->buffer[i].offset;
    return NULL;
}

static void
append(struct harness_snapshot *s, const void *bytes, size_t n)
{
    if (bytes == NULL)
        return;
    s->bytes = realloc(s->bytes, s->n + n);
    assert_non_null(s->bytes);
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

struct harness_snapshot
harness_snapshot(const struct harness *h)
{
    const struct state *s = engine_state(h->engine);
    const size_t n_params = (size_t)s->param_elems * sizeof(float);
    struct harness_snapshot out = {0};

    append(&out, s->weights, n_params);
    for (int i = 0; i < STATE_MAX_MOMENTS; i++)
        append(&out, s->moment[i], n_params);
    append(&out, s->ema, n_params);
    append(&out, s->buffers, (size_t)s->buffer_elems * sizeof(float));
    append(&out, &s->batches_tracked, sizeof(s->batches_tracked));
    append(&out, &s->count, sizeof(s->count));
    append(&out, s->optim_steps, sizeof(s->optim_steps));
    append(&out, &s->scaler.scale, sizeof(s->scaler.scale));
    append(&out, &s->scaler.growth_tracker, sizeof(s->scaler.growth_tracker));
    append(&out, &s->seed, sizeof(s->seed));
    return out;
}
