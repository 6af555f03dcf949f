/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/walk.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/clones.h"
#include "kernels/cpu/convert.h"

void
walk_init(struct walk *w, const struct tensor_desc *base)
{
    const int *order = tensor_axis_order(base);

    memset(w, 0, sizeof(*w));
    w->rank = base->rank;
    w->n = tensor_n_elems(base);
    for (int i = 0; i < w->rank; i++)
        w->dim[i] = base->dim[order[i]];
}

static struct walk_operand *
add_operand(struct walk *w, const struct tensor_desc *t, const void *data)
{
    struct walk_operand *o = &w->operand[w->n_operands++];

    assert(w->n_operands <= WALK_MAX);
    o->data = data;
    o->dtype = t->dtype;
    return o;
}

void
walk_add(struct walk *w, const struct tensor_desc *base,
         const struct tensor_desc *t, const void *data)
{
    struct walk_operand *o = add_operand(w, t, data);
    const int *order = tensor_axis_order(base);
    int64_t stride[TENSOR_MAX_RANK];

    tensor_strides(t, stride);
    for (int i = 0; i < w->rank; i++) {
        const int axis = order[i] - (base->rank - t->rank);

        o->stride[i] = axis < 0 || t->dim[axis] == 1 ? 0 : stride[axis];
    }
}

void
walk_add_reduced(struct walk *w, const struct tensor_desc *base, unsigned dims,
                 const struct tensor_desc *t, const void *data)
{
    struct walk_operand *o = add_operand(w, t, data);
    const int *order = tensor_axis_order(base);
    const bool keeps = t->rank == base->rank;
    int64_t stride[TENSOR_MAX_RANK], by_axis[TENSOR_MAX_RANK] = {0};
    int at = 0;

    tensor_strides(t, stride);
    for (int axis = 0; axis < base->rank; axis++) {
        const bool reduced = dims >> axis & 1;

        if (!reduced)
            by_axis[axis] = stride[at];
        if (!reduced || keeps)
            at++;
    }
    assert(at == t->rank);
    for (int i = 0; i < w->rank; i++)
        o->stride[i] = by_axis[order[i]];
}

void
walk_add_number(struct walk *w, float value)
{
    const struct tensor_desc number = {.dtype = DTYPE_F32};

    struct walk_operand *o = add_operand(w, &number, NULL);

    o->is_number = true;
    o->value = value;
}

/* Whether axis i, taken dim[i + 1] steps of axis i + 1 at a time, goes on where
 * that one ends, for every operand. */
static bool
joins(const struct walk *w, int i)
{
    for (int k = 0; k < w->n_operands; k++) {
        const int64_t *stride = w->operand[k].stride;

        if (stride[i] != stride[i + 1] * w->dim[i + 1])
            return false;
    }
    return true;
}

static void
remove_axis(struct walk *w, int i)
{
    for (int j = i; j + 1 < w->rank; j++) {
        w->dim[j] = w->dim[j + 1];
        for (int k = 0; k < w->n_operands; k++)
            w->operand[k].stride[j] = w->operand[k].stride[j + 1];
    }
    w->rank--;
}

void
walk_close(struct walk *w)
{
    int64_t step = 1;

    for (int i = w->rank - 1; i >= 0; i--)
        if (w->dim[i] == 1)
            remove_axis(w, i);
    for (int i = w->rank - 2; i >= 0; i--)
        if (joins(w, i)) {
            w->dim[i + 1] *= w->dim[i];
            remove_axis(w, i);
        }
    for (int i = w->rank - 1; i >= 0; i--) {
        w->step[i] = step;
        step *= w->dim[i];
    }
    for (int k = 0; k < w->n_operands; k++) {
        struct walk_operand *o = &w->operand[k];

        o->whole = !o->is_number;
        for (int i = 0; i < w->rank; i++)
            o->whole = o->whole && o->stride[i] == w->step[i];
    }
}

bool
walk_fits(const struct tensor_desc *base, const struct tensor_desc *t)
{
    const int more = base->rank - t->rank;

    if (more < 0)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] != 1 && t->dim[i] != base->dim[more + i])
            return false;
    return true;
}

/* ---- views --------------------------------------------------------------- */

CPU_CLONES static void
widen_bits(const uint8_t *bits, int64_t n, float *v)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        v[i] = bits[i] != 0 ? 1.0f : 0.0f;
}

/* n neighbours from at on, as 4-byte elements. */
static const float *
view_dense(const struct walk_operand *o, int64_t at, int64_t n, float *buf)
{
    if (o->dtype != DTYPE_BOOL) /* an i32 is only looked at, like a float */
        return convert_view(o->data,
                            dtype_is_half(o->dtype) ? o->dtype : DTYPE_F32, at,
                            n, buf);
    widen_bits((const uint8_t *)o->data + at, n, buf);
    return buf;
}

static void
fill(float *buf, int64_t n, const float *value)
{
    uint32_t bits; /* an i32 is no float */
    uint32_t *word = (uint32_t *)(void *)buf;

    memcpy(&bits, value, sizeof(bits));
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        word[i] = bits;
}

/* n elements, stride apart. */
static void
load_run(const struct walk_operand *o, int64_t at, int64_t stride, int64_t n,
         float *buf)
{
    float one;
    const float *v;

    if (stride == 1) {
        v = view_dense(o, at, n, buf);
        if (v != buf)
            memcpy(buf, v, (size_t)n * sizeof(*buf));
    } else if (stride == 0) {
        fill(buf, n, view_dense(o, at, 1, &one));
    } else {
        for (int64_t i = 0; i < n; i++) {
            v = view_dense(o, at + i * stride, 1, &one);
            memcpy(&buf[i], v, sizeof(*buf));
        }
    }
}

const float *
walk_view(const struct walk *w, int i, int64_t at, int64_t n, float *buf)
{
    const struct walk_operand *o = &w->operand[i];
    const int last = w->rank - 1;
    int64_t index[TENSOR_MAX_RANK], from = 0;

    if (o->is_number) {
        fill(buf, n, &o->value);
        return buf;
    }
    if (o->whole)
        return view_dense(o, at, n, buf);
    for (int k = 0; k <= last; k++) {
        index[k] = at / w->step[k] % w->dim[k];
        from += index[k] * o->stride[k];
    }
    if (o->stride[last] == 1 && w->dim[last] - index[last] >= n)
        return view_dense(o, from, n, buf);
    for (int64_t done = 0; done < n;) {
        int64_t run = w->dim[last] - index[last];

        run = run < n - done ? run : n - done;
        load_run(o, from, o->stride[last], run, buf + done);
        done += run;
        /* To the start of the next row. */
        from -= index[last] * o->stride[last];
        index[last] = 0;
        for (int k = last - 1; k >= 0; k--) {
            from += o->stride[k];
            if (++index[k] < w->dim[k])
                break;
            from -= index[k] * o->stride[k];
            index[k] = 0;
        }
    }
    return buf;
}
