/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/variants.h"

#include "engine/pass/autocast.h"
#include "engine/pass/autodiff.h"
#include "engine/pass/memplan.h"
#include "engine/pass/recompute.h"

#include <assert.h>
#include <stdlib.h>

/* Training and evaluation, full and last batch. */
#define MAX_VARIANTS 4

struct variant {
    enum build_mode mode;
    int64_t batch_size;
    struct program *program; /* owned */
    struct exec *exec;       /* owned, after variants_bind() */
};

struct variants {
    int n;
    struct variant v[MAX_VARIANTS];
    const struct variant *last; /* who used the block last */
    size_t block_bytes;
    void *block; /* owned */
};

/* The graph with its backward part, and without what is computed again. */
static int
build_backward(const struct spec *spec, const struct graph *cast,
               struct graph **out, struct err *err)
{
    const struct autodiff_options diff = {
        .wgrad_pytorch = spec->amp.wgrad_rounding == SPEC_WGRAD_PYTORCH,
        .accumulate = spec->train.accumulate > 1,
    };
    struct recompute_options again = {NULL, 0};
    const char **blocks = NULL;
    struct graph *full = NULL;
    int rc = autodiff_apply(cast, &diff, &full, err);

    if (rc == 0)
        rc = build_find_blocks(spec, &blocks, &again.n_blocks, err);
    if (rc == 0 && again.n_blocks > 0) {
        again.block = blocks;
        rc = recompute_apply(full, &again, out, err);
    } else if (rc == 0) {
        *out = full;
        full = NULL;
    }
    graph_destroy(&full);
    free(blocks);
    return rc;
}

static int
build_trained(const struct variants_options *o, enum build_mode mode,
              int64_t batch_size, struct graph **out, struct err *err)
{
    const struct spec *spec = o->spec;
    const struct autocast_policy policy = {
        .dtype = spec->amp.dtype,
        .fp32_regions = spec->amp.fp32_regions,
        .n_fp32_regions = spec->amp.n_fp32_regions,
    };
    struct graph *plain = NULL, *cast = NULL;
    int rc = build_graph(spec, o->data, mode, batch_size, &plain, err);

    if (rc == 0)
        rc = autocast_apply(plain, &policy, &cast, err);
    if (rc == 0 && mode == BUILD_TRAIN) {
        rc = build_backward(spec, cast, out, err);
    } else if (rc == 0) {
        *out = cast;
        cast = NULL;
    }
    graph_destroy(&plain);
    graph_destroy(&cast);
    return rc;
}

int
variants_compile(const struct variants_options *options, enum build_mode mode,
                 int64_t batch_size, bool keep_all, struct program **out,
                 struct err *err)
{
    const struct program_options po = {
        .backend = options->backend,
        .threads = options->threads,
        .keep_all = keep_all,
    };
    struct graph *graph = NULL;
    const int rc = build_trained(options, mode, batch_size, &graph, err);

    *out = NULL;
    return rc != 0 ? rc : program_compile_take(graph, &po, out, err);
}

struct variants *
variants_create(void)
{
    return calloc(1, sizeof(struct variants));
}

void
variants_destroy(struct variants **variants)
{
    struct variants *v = *variants;

    *variants = NULL;
    if (v == NULL)
        return;
    for (int i = 0; i < v->n; i++) {
        exec_destroy(&v->v[i].exec);
        program_destroy(&v->v[i].program);
    }
    free(v->block);
    free(v);
}

static struct variant *
find_variant(struct variants *v, enum build_mode mode, int64_t batch_size)
{
    for (int i = 0; i < v->n; i++)
        if (v->v[i].mode == mode && v->v[i].batch_size == batch_size)
            return &v->v[i];
    return NULL;
}

int
variants_add(struct variants *v, const struct variants_options *options,
             enum build_mode mode, int64_t batch_size, struct err *err)
{
    assert(v->block == NULL);
    if (find_variant(v, mode, batch_size) != NULL)
        return 0;
    assert(v->n < MAX_VARIANTS);
    struct variant *new = &v->v[v->n];
    const int rc =
        variants_compile(options, mode, batch_size, false, &new->program, err);
    if (rc != 0)
        return rc;
    new->mode = mode;
    new->batch_size = batch_size;
    v->n++;
    if (program_block_bytes(new->program) > v->block_bytes)
        v->block_bytes = program_block_bytes(new->program);
    return 0;
}

int
variants_bind(struct variants *v, struct state *state, struct err *err)
{
    /* What the plan says, to the byte. */
    const size_t n_bytes = v->block_bytes;

    assert(v->block == NULL);
    v->block = aligned_alloc(MEMPLAN_ALIGN, n_bytes > 0 ? n_bytes : 1);
    if (v->block == NULL)
        return err_set(err, ERR_NOMEM, "activations: no memory for %zu bytes",
                       n_bytes);
    for (int i = 0; i < v->n; i++) {
        struct variant *one = &v->v[i];
        const int rc = exec_create(one->program, state, v->block,
                                   one->mode == BUILD_TRAIN, &one->exec, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

struct exec *
variants_use(struct variants *v, enum build_mode mode, int64_t batch_size)
{
    const struct variant *one = find_variant(v, mode, batch_size);

    assert(one != NULL && one->exec != NULL);
    if (v->last != one)
        exec_invalidate(one->exec);
    v->last = one;
    return one->exec;
}

size_t
variants_block_bytes(const struct variants *v)
{
    return v->block_bytes;
}

int
variants_n(const struct variants *v)
{
    return v->n;
}

const struct program *
variants_program_at(const struct variants *v, int i)
{
    assert(i >= 0 && i < v->n);
    return v->v[i].program;
}
