/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/ckpt_tensors.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"

/* ---- lists -------------------------------------------------------------- */

static int
init(struct ckpt_tensors *t, int n, struct err *err)
{
    memset(t, 0, sizeof(*t));
    t->entry = calloc((size_t)n + 1, sizeof(*t->entry));
    t->name = calloc((size_t)n + 1, sizeof(*t->name));
    if (t->entry != NULL && t->name != NULL)
        return 0;
    ckpt_tensors_fini(t);
    return err_set(err, ERR_NOMEM, "checkpoint: no memory");
}

void
ckpt_tensors_fini(struct ckpt_tensors *tensors)
{
    for (int i = 0; i < tensors->n_names; i++)
        free(tensors->name[i]);
    free(tensors->name);
    free(tensors->entry);
    memset(tensors, 0, sizeof(*tensors));
}

static void
add(struct ckpt_tensors *t, const char *name, const struct tensor_desc *desc,
    const void *data)
{
    t->entry[t->n++] =
        (struct safetensors_entry){.name = name, .desc = *desc, .data = data};
    t->n_bytes += (int64_t)tensor_n_bytes(desc);
}

/* The first n_head bytes of head, then tail, as a name the list owns. */
static const char *
make_name(struct ckpt_tensors *t, const char *head, size_t n_head,
          const char *separator, const char *tail)
{
    char *name;

    if (asprintf(&name, "%.*s%s%s", (int)n_head, head, separator, tail) < 0)
        return NULL;
    t->name[t->n_names++] = name;
    return name;
}

static bool
ends_with(const char *s, const char *tail)
{
    const size_t n = strlen(s), m = strlen(tail);

    return n >= m && strcmp(s + n - m, tail) == 0;
}

int
ckpt_tensors_list_model(const struct state *state, const float *weights,
                        struct ckpt_tensors *out, struct err *err)
{
    static const char tail[] = "running_mean";
    const struct tensor_desc scalar = tensor_make(DTYPE_I64, 0, NULL);
    int rc = init(out, state->n_params + 2 * state->n_buffers, err);

    if (rc < 0)
        return rc;
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *p = &state->param[i];

        add(out, p->name, &p->desc, weights + p->offset);
    }
    for (int i = 0; i < state->n_buffers; i++) {
        const struct state_tensor *b = &state->buffer[i];
        const char *name;

        add(out, b->name, &b->desc, state->buffers + b->offset);
        if (!ends_with(b->name, tail))
            continue;
        name = make_name(out, b->name, strlen(b->name) - strlen(tail), "",
                         "num_batches_tracked");
        if (name == NULL) {
            ckpt_tensors_fini(out);
            return err_set(err, ERR_NOMEM, "checkpoint: no memory");
        }
        add(out, name, &scalar, &state->batches_tracked);
    }
    return 0;
}

int
ckpt_tensors_list_optimizer(const struct state *state, struct ckpt_tensors *out,
                            struct err *err)
{
    int rc = init(out, state->n_params * STATE_MAX_MOMENTS, err);

    for (int m = 0; rc == 0 && m < STATE_MAX_MOMENTS; m++) {
        for (int i = 0; i < state->n_params; i++) {
            const struct state_tensor *p = &state->param[i];
            const char *name;

            if (m >= p->n_moments)
                continue;
            assert(state->moment[m] != NULL);
            name = make_name(out, p->moment_name[m], strlen(p->moment_name[m]),
                             ".", p->name);
            if (name == NULL) {
                ckpt_tensors_fini(out);
                return err_set(err, ERR_NOMEM, "checkpoint: no memory");
            }
            add(out, name, &p->desc, state->moment[m] + p->offset);
        }
    }
    return rc;
}

/* ---- finite ------------------------------------------------------------- */

/* Exponent all ones: no arithmetic, and any alignment. -1 when all is well. */
static int64_t
find_non_finite_f32(const uint8_t *bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t v;

        memcpy(&v, bytes + 4 * i, 4);
        if ((v & 0x7f800000u) == 0x7f800000u)
            return i;
    }
    return -1;
}

static double
get_value(const struct safetensors_entry *e, int64_t at)
{
    const uint8_t *p =
        (const uint8_t *)e->data + (size_t)at * dtype_size_bytes(e->desc.dtype);
    uint16_t half;
    float f;
    double d;

    if (e->desc.dtype == DTYPE_F64) {
        memcpy(&d, p, sizeof(d));
        return d;
    }
    if (e->desc.dtype == DTYPE_F32) {
        memcpy(&f, p, sizeof(f));
        return (double)f;
    }
    memcpy(&half, p, sizeof(half));
    return (double)(e->desc.dtype == DTYPE_F16 ? convert_f32_of_f16(half)
                                               : convert_f32_of_bf16(half));
}

static int64_t
find_non_finite(const struct safetensors_entry *e)
{
    const int64_t n = tensor_n_elems(&e->desc);

    if (e->desc.dtype == DTYPE_F32)
        return find_non_finite_f32(e->data, n);
    for (int64_t i = 0; dtype_is_float(e->desc.dtype) && i < n; i++)
        if (!isfinite(get_value(e, i)))
            return i;
    return -1;
}

int
ckpt_tensors_check_finite(const struct safetensors_entry *e, struct err *err)
{
    const int64_t at = find_non_finite(e);
    int64_t index[TENSOR_MAX_RANK];
    char place[TENSOR_MAX_RANK * 22 + 3] = "";
    size_t n = 0;
    double v;

    if (at < 0)
        return 0;
    v = get_value(e, at);
    tensor_unravel(&e->desc, at, index);
    for (int i = 0; i < e->desc.rank; i++)
        n += (size_t)snprintf(place + n, sizeof(place) - n, "%s%" PRId64,
                              i == 0 ? "[" : ",", index[i]);
    if (e->desc.rank > 0)
        snprintf(place + n, sizeof(place) - n, "]");
    return err_set(err, ERR_NUMERICS, "%s%s is %s", e->name, place,
                   isnan(v) ? "nan"
                   : v > 0  ? "inf"
                            : "-inf");
}

int
ckpt_tensors_check_file_finite(const struct safetensors *file, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < safetensors_n_entries(file) && rc == 0; i++)
        rc = ckpt_tensors_check_finite(safetensors_at(file, i), err);
    return rc;
}

/* ---- reading ------------------------------------------------------------ */

static int
match_one(const struct safetensors_entry *want, const struct safetensors *file,
          struct err *err)
{
    const struct safetensors_entry *e = safetensors_find(file, want->name);
    char is[128], expected[128];

    if (e == NULL)
        return err_set(err, ERR_CKPT, "%s is missing", want->name);
    if (e->desc.dtype == want->desc.dtype &&
        tensor_same_shape(&e->desc, &want->desc))
        return 0;
    return err_set(err, ERR_CKPT, "%s is %s, the model has %s", want->name,
                   tensor_format(&e->desc, is, sizeof(is)),
                   tensor_format(&want->desc, expected, sizeof(expected)));
}

static bool
is_listed(const struct ckpt_tensors *tensors, const char *name)
{
    for (int i = 0; i < tensors->n; i++)
        if (strcmp(tensors->entry[i].name, name) == 0)
            return true;
    return false;
}

int
ckpt_tensors_match(const struct ckpt_tensors *tensors,
                   const struct safetensors *file, struct err *err)
{
    const int n = safetensors_n_entries(file);
    int rc = 0;

    for (int i = 0; i < tensors->n && rc == 0; i++)
        rc = match_one(&tensors->entry[i], file, err);
    if (rc < 0 || n == tensors->n)
        return rc;
    for (int i = 0; i < n; i++)
        if (!is_listed(tensors, safetensors_at(file, i)->name))
            return err_set(err, ERR_CKPT, "%s is not in the model",
                           safetensors_at(file, i)->name);
    return 0;
}

/* p, if it points into that block, as something to write to. */
static float *
writable_in(float *block, int64_t n, const void *p)
{
    const uintptr_t at = (uintptr_t)p, first = (uintptr_t)block;

    if (block == NULL || at < first ||
        at >= first + (uintptr_t)n * sizeof(float))
        return NULL;
    return block + (at - first) / sizeof(float);
}

static float *
writable(struct state *state, const void *p)
{
    float *to = writable_in(state->weights, state->param_elems, p);

    if (to == NULL)
        to = writable_in(state->buffers, state->buffer_elems, p);
    if (to == NULL)
        to = writable_in(state->ema, state->param_elems, p);
    for (int i = 0; to == NULL && i < STATE_MAX_MOMENTS; i++)
        to = writable_in(state->moment[i], state->param_elems, p);
    assert(to != NULL);
    return to;
}

void
ckpt_tensors_load(const struct ckpt_tensors *tensors,
                  const struct safetensors *file, struct state *state)
{
    for (int i = 0; i < tensors->n; i++) {
        const struct safetensors_entry *to = &tensors->entry[i];
        const struct safetensors_entry *from = safetensors_find(file, to->name);
        const size_t n = tensor_n_bytes(&to->desc);

        assert(from != NULL);
        if (to->desc.dtype == DTYPE_F32 && n > 0)
            memcpy(writable(state, to->data), from->data, n);
    }
}
