/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/rerun.h"

#include "engine/pass/memplan.h"
#include "engine/run/step.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Three policies at a time, a full and a last batch each, two modes. */
#define MAX_PROGRAMS 8

struct rerun_program {
    struct rerun_policy policy; /* regions: owned copies */
    enum build_mode mode;
    int64_t batch_size;
    struct program *program; /* owned, as all below */
    void *block;
    struct exec *exec; /* bound to the shadow */
    int64_t used;      /* number of the run that used it last */
};

struct rerun {
    struct rerun_options o;
    int n_programs;
    struct rerun_program program[MAX_PROGRAMS];
    /* The training state, but with these gradients and statistics. */
    struct state shadow;
    float *grads, *buffers; /* owned; NULL before the first run */
    int64_t n_runs;
};

/* ---- policies -------------------------------------------------------------*/

static bool
has_region(const struct rerun_policy *p, const char *region)
{
    for (int i = 0; i < p->n_regions; i++)
        if (strcmp(p->regions[i], region) == 0)
            return true;
    return false;
}

/* Without autocast there is nothing that a region could turn off. */
static bool
same_policy(const struct rerun_policy *a, const struct rerun_policy *b)
{
    if (a->dtype != b->dtype)
        return false;
    if (a->dtype == DTYPE_F32)
        return true;
    if (a->n_regions != b->n_regions)
        return false;
    for (int i = 0; i < a->n_regions; i++)
        if (!has_region(b, a->regions[i]))
            return false;
    return true;
}

static void
free_policy(struct rerun_policy *p)
{
    for (int i = 0; i < p->n_regions; i++)
        free((void *)(uintptr_t)p->regions[i]);
    free((void *)(uintptr_t)p->regions);
    memset(p, 0, sizeof(*p));
}

static bool
copy_policy(struct rerun_policy *to, const struct rerun_policy *from)
{
    char **list = calloc((size_t)from->n_regions + 1, sizeof(*list));
    bool ok = list != NULL;

    to->dtype = from->dtype;
    to->regions = (const char *const *)list;
    to->n_regions = 0;
    for (int i = 0; i < from->n_regions && ok; i++) {
        list[i] = strdup(from->regions[i]);
        ok = list[i] != NULL;
        to->n_regions += ok;
    }
    return ok;
}

struct rerun_policy
rerun_own_policy(const struct rerun *rerun)
{
    const struct spec *spec = rerun->o.spec;

    return (struct rerun_policy){
        .dtype = spec->amp.dtype,
        .regions = spec->amp.fp32_regions,
        .n_regions = spec->amp.n_fp32_regions,
    };
}

/* ---- programs -------------------------------------------------------------*/

static void
free_program(struct rerun_program *p)
{
    exec_destroy(&p->exec);
    program_destroy(&p->program);
    free(p->block);
    free_policy(&p->policy);
    memset(p, 0, sizeof(*p));
}

static void
drop_program(struct rerun *r, int i)
{
    free_program(&r->program[i]);
    r->program[i] = r->program[--r->n_programs];
    memset(&r->program[r->n_programs], 0, sizeof(r->program[0]));
}

static void
make_room(struct rerun *r)
{
    int oldest = 0;

    if (r->n_programs < MAX_PROGRAMS)
        return;
    for (int i = 1; i < r->n_programs; i++)
        if (r->program[i].used < r->program[oldest].used)
            oldest = i;
    drop_program(r, oldest);
}

static int
compile(struct rerun *r, struct rerun_program *p, struct err *err)
{
    struct spec spec = *r->o.spec; /* borrows; gone when it is compiled */
    const struct variants_options vo = {
        .spec = &spec,
        .data = &r->o.data,
        .backend = r->o.backend,
        .threads = r->o.threads,
    };

    spec.amp.dtype = p->policy.dtype;
    spec.amp.fp32_regions = (const char **)(uintptr_t)p->policy.regions;
    spec.amp.n_fp32_regions = p->policy.n_regions;
    int rc =
        variants_compile(&vo, p->mode, p->batch_size, false, &p->program, err);
    if (rc != 0)
        return rc;
    const size_t n_bytes = program_block_bytes(p->program);
    p->block = aligned_alloc(MEMPLAN_ALIGN,
                             (n_bytes / MEMPLAN_ALIGN + 1) * MEMPLAN_ALIGN);
    if (p->block == NULL)
        return err_set(err, ERR_NOMEM, "diagnosis: no memory for %zu bytes",
                       n_bytes);
    return exec_create(p->program, &r->shadow, p->block, p->mode == BUILD_TRAIN,
                       &p->exec, err);
}

static int
find_program(struct rerun *r, enum build_mode mode,
             const struct rerun_policy *policy, int64_t batch_size,
             struct rerun_program **out, struct err *err)
{
    for (int i = 0; i < r->n_programs; i++) {
        struct rerun_program *p = &r->program[i];
        if (p->mode == mode && p->batch_size == batch_size &&
            same_policy(&p->policy, policy)) {
            p->used = r->n_runs;
            *out = p;
            return 0;
        }
    }
    make_room(r);
    struct rerun_program *p = &r->program[r->n_programs];
    int rc = 0;
    p->mode = mode;
    p->batch_size = batch_size;
    p->used = r->n_runs;
    if (!copy_policy(&p->policy, policy))
        rc = err_set(err, ERR_NOMEM, "diagnosis: no memory");
    if (rc == 0)
        rc = compile(r, p, err);
    if (rc != 0) {
        free_program(p);
        return rc;
    }
    r->n_programs++;
    *out = p;
    return 0;
}

/* ---- a run ----------------------------------------------------------------*/

static float *
alloc_floats(int64_t n)
{
    return aligned_alloc(MEMPLAN_ALIGN,
                         ((size_t)n / 16 + 1) * 16 * sizeof(float));
}

/* The blocks never move, so bindings stay good; nor do those of the state. */
static int
take_state(struct rerun *r, const struct state *state, float scale,
           struct err *err)
{
    if (r->grads == NULL)
        r->grads = alloc_floats(state->param_elems);
    if (r->buffers == NULL)
        r->buffers = alloc_floats(state->buffer_elems);
    if (r->grads == NULL || r->buffers == NULL)
        return err_set(err, ERR_NOMEM, "diagnosis: no memory for gradients");
    memset(r->grads, 0, (size_t)state->param_elems * sizeof(float));
    memcpy(r->buffers, state->buffers,
           (size_t)state->buffer_elems * sizeof(float));
    r->shadow = *state;
    r->shadow.grads = r->grads;
    r->shadow.buffers_pending = r->buffers;
    r->shadow.scaler.scale = scale;
    return 0;
}

struct watch {
    rerun_probe_fn *probe;
    void *ctx;
    int64_t micro_batch;
    bool ended;
};

static bool
pass_on(void *ctx, const struct exec *exec, int instr)
{
    struct watch *w = ctx;

    w->ended = !w->probe(w->ctx, exec, instr, w->micro_batch);
    return !w->ended;
}

static int
run_batch(struct rerun *r, const struct rerun_case *c,
          const struct rerun_policy *policy, int64_t i, struct watch *watch,
          float *loss, struct err *err)
{
    const struct prefetch_batch *batch = &c->batch[i];
    const bool training = c->mode == BUILD_TRAIN;
    const float inv_count = training ? step_inverse_count(c->n_count) : 1.0f;
    const struct kernel_step numbers = {
        .seed = r->shadow.seed,
        .iteration =
            (uint64_t)r->shadow.count.iteration + (uint64_t)(training ? 1 : 0),
        .micro_batch = (uint32_t)(c->first + i),
    };
    struct rerun_program *p = NULL;
    const int rc = find_program(r, c->mode, policy, batch->n, &p, err);

    if (rc != 0)
        return rc;
    exec_set_input(p->exec, GRAPH_INPUT_X, batch->input);
    exec_set_input(p->exec, GRAPH_INPUT_TARGET, batch->target);
    exec_set_input(p->exec, GRAPH_INPUT_INV_COUNT, &inv_count);
    exec_set_input(p->exec, GRAPH_INPUT_SCALE, &r->shadow.scaler.scale);
    exec_invalidate(p->exec); /* another state may have the same version */
    watch->micro_batch = i;
    if (watch->probe != NULL)
        exec_run_probed(p->exec, &numbers, pass_on, watch);
    else
        exec_run(p->exec, &numbers);
    if (!watch->ended) {
        const struct graph *g = program_graph(p->program);
        *loss += *(const float *)exec_value(p->exec, graph_roles(g)->loss);
    }
    return 0;
}

static bool
unscale(struct rerun *r)
{
    const float inverse = scaler_inverse(&r->shadow.scaler);
    bool finite = true;

    for (int i = 0; i < r->shadow.n_params; i++) {
        const struct state_tensor *t = &r->shadow.param[i];
        struct kernel_unscale one;
        r->o.flat.unscale(r->grads + t->offset, t->n_elems, inverse,
                          r->o.threads, &one);
        finite = finite && !one.found_inf;
    }
    return finite;
}

int
rerun_run(struct rerun *rerun, const struct rerun_case *c,
          const struct rerun_policy *policy, rerun_probe_fn *probe, void *ctx,
          struct rerun_result *result, struct err *err)
{
    struct watch watch = {.probe = probe, .ctx = ctx};
    int rc = take_state(rerun, c->state, c->scale, err);

    memset(result, 0, sizeof(*result));
    rerun->n_runs++;
    for (int64_t i = 0; i < c->n_batches && rc == 0 && !watch.ended; i++)
        rc = run_batch(rerun, c, policy, i, &watch, &result->loss, err);
    result->ended = watch.ended;
    if (rc != 0 || result->ended)
        return rc;
    result->finite = isfinite(result->loss);
    if (c->mode == BUILD_TRAIN)
        result->finite = unscale(rerun) && result->finite;
    return 0;
}

/* ---- the door -------------------------------------------------------------*/

int
rerun_create(const struct rerun_options *options, struct rerun **out,
             struct err *err)
{
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return err_set(err, ERR_NOMEM, "diagnosis: no memory");
    (*out)->o = *options;
    return 0;
}

void
rerun_destroy(struct rerun **rerun)
{
    struct rerun *r = *rerun;

    *rerun = NULL;
    if (r == NULL)
        return;
    while (r->n_programs > 0)
        drop_program(r, r->n_programs - 1);
    free(r->grads);
    free(r->buffers);
    free(r);
}

const struct rerun_options *
rerun_options(const struct rerun *rerun)
{
    return &rerun->o;
}

struct rerun_case
rerun_window(const struct state *state, const struct prefetch_window *window)
{
    return (struct rerun_case){
        .mode = BUILD_TRAIN,
        .state = state,
        .batch = window->batch,
        .n_batches = window->at.n_batches,
        .n_count = window->n_count,
        .scale = state->scaler.scale,
    };
}

const float *
rerun_grads(const struct rerun *rerun)
{
    return rerun->grads;
}

int
rerun_graph(struct rerun *rerun, const struct rerun_case *c,
            const struct rerun_policy *policy, int64_t batch_size,
            const struct graph **out, struct err *err)
{
    struct rerun_program *p = NULL;
    int rc = take_state(rerun, c->state, c->scale, err);

    if (rc == 0)
        rc = find_program(rerun, c->mode, policy, batch_size, &p, err);
    if (rc == 0)
        *out = program_graph(p->program);
    return rc;
}

int64_t
rerun_count(const struct rerun *rerun)
{
    return rerun->n_runs;
}

void
rerun_trim(struct rerun *rerun)
{
    const struct rerun_policy own = rerun_own_policy(rerun);
    const struct rerun_policy full = {.dtype = DTYPE_F32};

    for (int i = rerun->n_programs - 1; i >= 0; i--) {
        const struct rerun_policy *p = &rerun->program[i].policy;
        if (!same_policy(p, &own) && !same_policy(p, &full))
            drop_program(rerun, i);
    }
}
