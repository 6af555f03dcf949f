/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/flush.h"

#include "engine/pass/memplan.h"
#include "engine/run/step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct flush {
    struct flush_options o;
    struct spec spec;          /* o.spec's, but in float32; borrows from it */
    struct variants *variants; /* owned; NULL before the first use */
    /* The training state, but with these gradients and statistics. */
    struct state shadow;
    float *grads, *buffers; /* owned */
};

bool
flush_is_wanted(const struct spec *spec)
{
    return spec->amp.dtype == DTYPE_F16 && !spec->amp.scaler.enabled;
}

int
flush_create(const struct flush_options *options, struct flush **out,
             struct err *err)
{
    struct flush *f = calloc(1, sizeof(*f));

    *out = f;
    if (f == NULL)
        return err_set(err, ERR_NOMEM, "flush: no memory");
    f->o = *options;
    f->spec = *options->spec;
    f->spec.amp.dtype = DTYPE_F32;
    return 0;
}

void
flush_destroy(struct flush **flush)
{
    struct flush *f = *flush;

    *flush = NULL;
    if (f == NULL)
        return;
    variants_destroy(&f->variants);
    free(f->grads);
    free(f->buffers);
    free(f);
}

static float *
alloc_floats(int64_t n)
{
    return aligned_alloc(MEMPLAN_ALIGN,
                         ((size_t)n / 16 + 1) * 16 * sizeof(float));
}

static int
compile(struct flush *f, const struct state *state, struct err *err)
{
    const struct variants_options vo = {
        .spec = &f->spec,
        .data = &f->o.data,
        .backend = f->o.backend,
        .threads = f->o.threads,
    };
    int rc = 0;

    f->grads = alloc_floats(state->param_elems);
    f->buffers = alloc_floats(state->buffer_elems);
    f->variants = variants_create();
    if (f->grads == NULL || f->buffers == NULL || f->variants == NULL)
        return err_set(err, ERR_NOMEM, "flush: no memory");
    if (f->o.batch_full > 0)
        rc = variants_add(f->variants, &vo, BUILD_TRAIN, f->o.batch_full, err);
    if (rc == 0 && f->o.batch_last > 0)
        rc = variants_add(f->variants, &vo, BUILD_TRAIN, f->o.batch_last, err);
    /* Bound before it is filled: only its blocks count, and they stay. */
    f->shadow = *state;
    f->shadow.grads = f->grads;
    f->shadow.buffers_pending = f->buffers;
    return rc != 0 ? rc : variants_bind(f->variants, &f->shadow, err);
}

static void
take_state(struct flush *f, const struct state *state)
{
    f->shadow = *state;
    f->shadow.grads = f->grads;
    f->shadow.buffers_pending = f->buffers;
    memset(f->grads, 0, (size_t)state->param_elems * sizeof(float));
    memcpy(f->buffers, state->buffers,
           (size_t)state->buffer_elems * sizeof(float));
}

static void
run_window(struct flush *f, const struct prefetch_window *window)
{
    static const float scale = 1.0f;
    const float inv_count = step_inverse_count(window->n_count);

    for (int64_t b = 0; b < window->at.n_batches; b++) {
        const struct prefetch_batch *batch = &window->batch[b];
        const struct kernel_step numbers = {
            .seed = f->shadow.seed,
            .iteration = (uint64_t)f->shadow.count.iteration + 1,
            .micro_batch = (uint32_t)b,
        };
        struct exec *exec = variants_use(f->variants, BUILD_TRAIN, batch->n);
        exec_set_input(exec, GRAPH_INPUT_X, batch->input);
        exec_set_input(exec, GRAPH_INPUT_TARGET, batch->target);
        exec_set_input(exec, GRAPH_INPUT_INV_COUNT, &inv_count);
        exec_set_input(exec, GRAPH_INPUT_SCALE, &scale);
        exec_run(exec, &numbers);
    }
}

static void
compare(const struct flush *f, const struct state *state,
        struct flush_result *result)
{
    for (int i = 0; i < state->n_params; i++) {
        const struct state_tensor *t = &state->param[i];
        const float *half = state->grads + t->offset;
        const float *full = f->grads + t->offset;
        for (int64_t k = 0; k < t->n_elems; k++) {
            result->n_nonzero += full[k] != 0;
            result->n_flushed += full[k] != 0 && half[k] == 0;
        }
    }
}

int
flush_measure(struct flush *flush, const struct state *state,
              const struct prefetch_window *window, struct flush_result *result,
              struct err *err)
{
    int rc = 0;

    memset(result, 0, sizeof(*result));
    if (flush->variants == NULL)
        rc = compile(flush, state, err);
    if (rc != 0) {
        variants_destroy(&flush->variants);
        free(flush->grads);
        free(flush->buffers);
        flush->grads = flush->buffers = NULL;
        return rc;
    }
    take_state(flush, state);
    run_window(flush, window);
    compare(flush, state, result);
    return 0;
}
