/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt_read_weights(): initial weights from anybody's safetensors file. */
#include <assert.h>
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

/* A copy of a block, gaps and all. */
static float *
copy_block(const float *block, int64_t n)
{
    float *copy = malloc((size_t)(n > 0 ? n : 1) * sizeof(*copy));

    if (copy != NULL && n > 0)
        memcpy(copy, block, (size_t)n * sizeof(*copy));
    return copy;
}

static int
load(const struct safetensors *file, struct state *state, struct err *err)
{
    struct staging s = {
        .weights = copy_block(state->weights, state->param_elems),
        .buffers = copy_block(state->buffers, state->buffer_elems),
    };
    int rc;

    if (s.weights == NULL || s.buffers == NULL)
        rc = err_set(err, ERR_NOMEM, "no memory");
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

int
ckpt_read_weights(const char *path, struct state *state, struct err *err)
{
    struct safetensors *file;
    struct err own;
    struct err *e = err != NULL ? err : &own;
    int rc = safetensors_open(path, &file, e);

    if (rc < 0)
        return rc;
    if (load(file, state, e) < 0)
        rc = err_prefix(e, "%s", path);
    safetensors_close(&file);
    return rc;
}
