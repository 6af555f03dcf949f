/* SPDX-License-Identifier: Apache-2.0 */
/* Initial weights from anybody's safetensors file, all of them or what fits. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/array.h"
#include "engine/run/ckpt.h"
#include "engine/run/ckpt_tensors.h"

/* What will be copied once everything is known to fit. */
struct staging {
    float *weights, *buffers; /* owned */
    int n_buffers;            /* that the file has */
};

/* Any floating dtype as float32; a double that overflows is found as inf. */
static int
convert(const struct safetensors_entry *e, float *out, struct err *err)
{
    const struct safetensors_entry result = {
        .name = e->name,
        .desc = tensor_with_dtype(&e->desc, DTYPE_F32),
        .data = out,
    };
    const size_t n = tensor_n_bytes(&e->desc);
    struct array array;
    void *copy;

    if (n == 0)
        return 0;
    copy = malloc(n); /* in the file it may lie unaligned */
    if (copy == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", e->name);
    memcpy(copy, e->data, n);
    array_init_take(&array, &e->desc, copy, 0, false);
    array_to_f32(&array, 0, array.n_elems, out);
    array_fini(&array);
    if (ckpt_tensors_check_finite(&result, err) < 0)
        return err->code = ERR_DATA;
    return 0;
}

static int
stage(const struct safetensors_entry *e, const struct state_tensor *want,
      float *block, struct err *err)
{
    char is[128], expected[128];

    if (!dtype_is_float(e->desc.dtype) ||
        !tensor_same_shape(&e->desc, &want->desc))
        return err_set(err, ERR_DATA, "%s is %s, the model has %s", want->name,
                       tensor_format(&e->desc, is, sizeof(is)),
                       tensor_format(&want->desc, expected, sizeof(expected)));
    return convert(e, block + want->offset, err);
}

static int
stage_all(const struct safetensors *file, const struct state *state,
          struct staging *s, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < state->n_params && rc == 0; i++) {
        const struct safetensors_entry *e =
            safetensors_find(file, state->param[i].name);

        rc = e == NULL
                 ? err_set(err, ERR_DATA, "%s is missing", state->param[i].name)
                 : stage(e, &state->param[i], s->weights, err);
    }
    /* Running statistics come along when they are there: all or none, or the
     * rest would stand at their defaults without a word. */
    for (int i = 0; i < state->n_buffers; i++)
        if (safetensors_find(file, state->buffer[i].name) != NULL)
            s->n_buffers++;
    for (int i = 0; i < state->n_buffers && s->n_buffers > 0 && rc == 0; i++) {
        const struct safetensors_entry *e =
            safetensors_find(file, state->buffer[i].name);

        rc = e == NULL ? err_set(err, ERR_DATA,
                                 "%s is missing, where %d other running "
                                 "statistics are there",
                                 state->buffer[i].name, s->n_buffers)
                       : stage(e, &state->buffer[i], s->buffers, err);
    }
    return rc;
}

/* ---- what fits ---------------------------------------------------------- */

/* Names of one list, as many as there is room for. */
struct names {
    char text[112];
    size_t len;
    int n, n_left_out;
};

static void
add_name(struct names *names, const char *name)
{
    const size_t n = strlen(name) + 2;

    names->n++;
    if (names->n_left_out > 0 || names->len + n >= sizeof(names->text)) {
        names->n_left_out++;
        return;
    }
    names->len += (size_t)snprintf(names->text + names->len,
                                   sizeof(names->text) - names->len, "%s%s",
                                   names->len > 0 ? ", " : "", name);
}

static void
put_names(char *text, size_t size, const char *what, const struct names *names)
{
    size_t at = strlen(text);

    if (names->n == 0)
        return;
    at += (size_t)snprintf(text + at, size - at, "; %s: %s", what, names->text);
    if (names->n_left_out > 0)
        snprintf(text + at, size - at, "%s%d more",
                 names->len > 0 ? " and " : "", names->n_left_out);
}

struct fitting {
    const struct safetensors *file;
    struct names missing, differ, unused;
    int n_loaded;
};

static int
stage_fitting(struct fitting *f, const struct state_tensor *want, float *block,
              struct err *err)
{
    const struct safetensors_entry *e = safetensors_find(f->file, want->name);

    if (e == NULL) {
        add_name(&f->missing, want->name);
        return 0;
    }
    if (!dtype_is_float(e->desc.dtype) ||
        !tensor_same_shape(&e->desc, &want->desc)) {
        add_name(&f->differ, want->name);
        return 0;
    }
    f->n_loaded++;
    return convert(e, block + want->offset, err);
}

static bool
is_named(const struct state *state, const char *name)
{
    const char *dot = strrchr(name, '.');

    /* It belongs to statistics; those of the run count anew. */
    if (dot != NULL && strcmp(dot, ".num_batches_tracked") == 0)
        return true;
    for (int i = 0; i < state->n_params; i++)
        if (strcmp(state->param[i].name, name) == 0)
            return true;
    for (int i = 0; i < state->n_buffers; i++)
        if (strcmp(state->buffer[i].name, name) == 0)
            return true;
    return false;
}

static void
fill_report(const struct fitting *f, const struct state *state,
            struct ckpt_weights_report *report)
{
    report->n_loaded = f->n_loaded;
    report->n_missing = f->missing.n;
    report->n_differ = f->differ.n;
    report->n_unused = f->unused.n;
    snprintf(report->text, sizeof(report->text),
             "initial weights: %d of %d tensors loaded", f->n_loaded,
             state->n_params + state->n_buffers);
    put_names(report->text, sizeof(report->text), "not in the file",
              &f->missing);
    put_names(report->text, sizeof(report->text), "of another shape",
              &f->differ);
    put_names(report->text, sizeof(report->text), "not in the model",
              &f->unused);
}

static int
stage_what_fits(const struct safetensors *file, const struct state *state,
                struct staging *s, struct ckpt_weights_report *report,
                struct err *err)
{
    struct fitting f = {.file = file};
    int rc = 0;

    for (int i = 0; i < state->n_params && rc == 0; i++)
        rc = stage_fitting(&f, &state->param[i], s->weights, err);
    for (int i = 0; i < state->n_buffers && rc == 0; i++)
        rc = stage_fitting(&f, &state->buffer[i], s->buffers, err);
    for (int i = 0; i < safetensors_n_entries(file); i++)
        if (!is_named(state, safetensors_at(file, i)->name))
            add_name(&f.unused, safetensors_at(file, i)->name);
    fill_report(&f, state, report);
    if (rc == 0 && f.n_loaded == 0)
        rc = err_set(err, ERR_DATA, "nothing fits: %s", report->text);
    s->n_buffers = state->n_buffers;
    return rc;
}

/* ---- taking over -------------------------------------------------------- */

/* A copy of a block, gaps and all. */
static float *
copy_block(const float *block, int64_t n)
{
    float *copy = malloc((size_t)(n > 0 ? n : 1) * sizeof(*copy));

    if (copy != NULL && n > 0)
        memcpy(copy, block, (size_t)n * sizeof(*copy));
    return copy;
}

/* report NULL: all of it or nothing. */
static int
load(const struct safetensors *file, struct state *state,
     struct ckpt_weights_report *report, struct err *err)
{
    struct staging s = {
        .weights = copy_block(state->weights, state->param_elems),
        .buffers = copy_block(state->buffers, state->buffer_elems),
    };
    int rc;

    if (s.weights == NULL || s.buffers == NULL)
        rc = err_set(err, ERR_NOMEM, "no memory");
    else if (report != NULL)
        rc = stage_what_fits(file, state, &s, report, err);
    else
        rc = stage_all(file, state, &s, err);
    if (rc == 0) {
        const size_t n = (size_t)state->buffer_elems * sizeof(float);

        memcpy(state->weights, s.weights,
               (size_t)state->param_elems * sizeof(float));
        if (s.n_buffers > 0) {
            memcpy(state->buffers, s.buffers, n);
            memcpy(state->buffers_pending, s.buffers, n);
        }
        state->weights_version++;
    }
    free(s.weights);
    free(s.buffers);
    return rc;
}

static int
read_file(const char *path, struct state *state,
          struct ckpt_weights_report *report, struct err *err)
{
    struct safetensors *file;
    struct err own;
    struct err *e = err != NULL ? err : &own;
    int rc = safetensors_open(path, &file, e);

    if (rc < 0)
        return rc;
    if (load(file, state, report, e) < 0)
        rc = err_prefix(e, "%s", path);
    safetensors_close(&file);
    return rc;
}

int
ckpt_read_weights(const char *path, struct state *state, struct err *err)
{
    return read_file(path, state, NULL, err);
}

int
ckpt_read_weights_partial(const char *path, struct state *state,
                          struct ckpt_weights_report *report, struct err *err)
{
    memset(report, 0, sizeof(*report));
    return read_file(path, state, report, err);
}
