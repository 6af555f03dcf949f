/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/prefetch.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN  64
#define NOBODY (-1)

struct slot {
    int64_t position; /* filled for; NOBODY when for none */
    struct prefetch_window window;
    struct prefetch_batch *batch; /* owned */
    int64_t *ids;                 /* owned */
    uint8_t *memory;              /* owned: inputs and targets of batches */
};

struct prefetch {
    const struct dataset *dataset; /* borrowed */
    struct order order;
    const struct detour *detour;      /* borrowed or NULL */
    size_t input_bytes, target_bytes; /* of a batch, rounded up to ALIGN */
    size_t sample_bytes, sample_target_bytes;
    struct slot slot[2];

    /* Filling: the thread's alone, or the caller's without one. */
    int64_t *permutation; /* owned: of permuted_epoch; NULL: none is needed */
    int64_t permuted_epoch;

    bool threaded;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything below, and slots at rest */
    pthread_cond_t changed;
    int64_t wanted;  /* position to fill, or NOBODY; cleared when filled */
    int wanted_slot; /* the thread owns this slot while wanted != NOBODY */
    bool quit;
};

/* ---- filling ------------------------------------------------------------ */

static void
fill_slot(struct prefetch *p, struct slot *s, int64_t position)
{
    const struct order_window at = order_window_at(&p->order, position);
    int64_t done = 0;

    if (p->permutation != NULL && p->permuted_epoch != at.epoch) {
        order_permute(&p->order, at.epoch, p->permutation);
        p->permuted_epoch = at.epoch;
    }
    order_ids_at(&p->order, position, p->permutation, s->ids);
    s->window =
        (struct prefetch_window){.at = at, .batch = s->batch, .ids = s->ids};
    for (int64_t b = 0; b < at.n_batches; b++) {
        const int64_t n = order_batch_size_at(&p->order, &at, b);
        const struct augment_key key = {
            .seed = p->order.seed,
            .position = position,
            .micro_batch = (uint32_t)b,
        };
        uint8_t *memory =
            s->memory + (size_t)b * (p->input_bytes + p->target_bytes);

        s->batch[b] = (struct prefetch_batch){
            .input = memory,
            .target = memory + p->input_bytes,
            .ids = s->ids + done,
            .n = n,
        };
        s->window.n_count += dataset_fill(p->dataset, s->ids + done, n, &key,
                                          memory, memory + p->input_bytes);
        done += n;
    }
    assert(done == at.n_samples);
    s->position = position;
}

static void *
run(void *arg)
{
    struct prefetch *p = arg;

    pthread_mutex_lock(&p->mutex);
    while (!p->quit) {
        struct slot *s = &p->slot[p->wanted_slot];
        const int64_t position = p->wanted;

        if (position == NOBODY) {
            pthread_cond_wait(&p->changed, &p->mutex);
            continue;
        }
        pthread_mutex_unlock(&p->mutex);
        fill_slot(p, s, position);
        pthread_mutex_lock(&p->mutex);
        p->wanted = NOBODY;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* ---- asking ------------------------------------------------------------- */

static void
wait_idle(struct prefetch *p)
{
    while (p->wanted != NOBODY)
        pthread_cond_wait(&p->changed, &p->mutex);
}

static void
want(struct prefetch *p, int slot, int64_t position)
{
    assert(p->wanted == NOBODY);
    p->slot[slot].position = NOBODY;
    p->wanted_slot = slot;
    p->wanted = position;
    pthread_cond_broadcast(&p->changed);
}

static int
find_slot(const struct prefetch *p, int64_t position)
{
    for (int i = 0; i < 2; i++)
        if (p->slot[i].position == position)
            return i;
    return NOBODY;
}

static const struct prefetch_window *
window_from_thread(struct prefetch *p, int64_t position)
{
    const int64_t next = detour_next(p->detour, position + 1);
    int i;

    pthread_mutex_lock(&p->mutex);
    wait_idle(p);
    i = find_slot(p, position);
    if (i == NOBODY) {
        want(p, 0, position);
        wait_idle(p);
        i = 0;
    }
    if (find_slot(p, next) == NOBODY)
        want(p, 1 - i, next);
    pthread_mutex_unlock(&p->mutex);
    return &p->slot[i].window;
}

void
prefetch_set_detour(struct prefetch *prefetch, const struct detour *detour)
{
    prefetch->detour = detour;
}

int64_t
prefetch_pass_over(const struct prefetch *prefetch, int64_t position)
{
    return detour_next(prefetch->detour, position);
}

const struct prefetch_window *
prefetch_window_at(struct prefetch *prefetch, int64_t position)
{
    assert(position >= 0);
    if (prefetch->threaded)
        return window_from_thread(prefetch, position);
    if (prefetch->slot[0].position != position)
        fill_slot(prefetch, &prefetch->slot[0], position);
    return &prefetch->slot[0].window;
}

/* ---- life --------------------------------------------------------------- */

/* n x size rounded up to ALIGN. */
static bool
block_bytes(int64_t n, size_t size, size_t *out)
{
    if (__builtin_mul_overflow((size_t)n, size, out) ||
        *out > (size_t)INT64_MAX - ALIGN)
        return false;
    *out = (*out + ALIGN - 1) / ALIGN * ALIGN;
    return true;
}

static bool
create_slot(const struct prefetch *p, struct slot *s, int64_t n_batches,
            int64_t n_samples)
{
    size_t bytes;

    s->position = NOBODY;
    if (!block_bytes(n_batches, p->input_bytes + p->target_bytes, &bytes))
        return false;
    s->batch = calloc((size_t)n_batches, sizeof(*s->batch));
    s->ids = calloc((size_t)n_samples, sizeof(*s->ids));
    s->memory = aligned_alloc(ALIGN, bytes);
    if (s->memory != NULL)
        memset(s->memory, 0, bytes); /* its pages are there before a step */
    return s->batch != NULL && s->ids != NULL && s->memory != NULL;
}

static bool
allocate(struct prefetch *p)
{
    const struct order *o = &p->order;
    const int64_t per_epoch = order_batches_per_epoch(o);
    const int64_t batch =
        o->batch_size < o->n_samples ? o->batch_size : o->n_samples;
    const int64_t n_batches =
        o->accumulate < per_epoch ? o->accumulate : per_epoch;
    const int64_t n_samples = n_batches * batch;
    struct build_data shape;
    int64_t elems = 1;

    dataset_describe(p->dataset, &shape);
    for (int i = 0; i < shape.rank; i++)
        elems *= shape.dim[i];
    /* Values are f32, ids i32: of one size. */
    p->sample_bytes = (size_t)elems * sizeof(float);
    p->sample_target_bytes = (size_t)shape.target_elems * sizeof(float);
    if (!block_bytes(batch, p->sample_bytes, &p->input_bytes) ||
        !block_bytes(batch, p->sample_target_bytes, &p->target_bytes))
        return false;
    for (int i = 0; i < 2; i++)
        if (!create_slot(p, &p->slot[i], n_batches, n_samples))
            return false;
    if (!order_is_permuted(o))
        return true;
    p->permutation = calloc((size_t)o->n_samples, sizeof(*p->permutation));
    return p->permutation != NULL;
}

/* Signals are the main thread's business. */
static int
start_thread(struct prefetch *p, struct err *err)
{
    sigset_t all, before;
    int errnum;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errnum = pthread_create(&p->thread, NULL, run, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (errnum != 0)
        return err_set_errno(err, ERR_AGAIN, errnum, "prefetch thread");
    pthread_setname_np(p->thread, "prefetch");
    p->threaded = true;
    return 0;
}

int
prefetch_create(const struct dataset *dataset, const struct order *order,
                bool threaded, struct prefetch **out, struct err *err)
{
    struct prefetch *p;
    int rc = 0;

    assert(order->n_samples == dataset_n_samples(dataset));
    assert(order->id_step == dataset_id_step(dataset) ||
           (order->id_step == 0 && dataset_id_step(dataset) == 1));
    *out = NULL;
    if (order_is_permuted(order) && order->n_samples > UINT32_MAX)
        return err_set(err, ERR_DATA,
                       "data: %" PRId64 " samples, at most 2^32 are shuffled",
                       order->n_samples);
    if (order_batches_per_epoch(order) == 0)
        return err_set(err, ERR_SPEC,
                       "data.batch_size: %" PRId64 ", but there are %" PRId64
                       " samples and drop_last leaves none",
                       order->batch_size, order->n_samples);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return err_set(err, ERR_NOMEM, "prefetch: no memory");
    p->dataset = dataset;
    p->order = *order;
    p->permuted_epoch = NOBODY;
    p->wanted = NOBODY;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    if (!allocate(p))
        rc = err_set(err, ERR_NOMEM,
                     "prefetch: no memory for two windows of %" PRId64
                     " batches of %" PRId64,
                     order->accumulate, order->batch_size);
    if (rc == 0 && threaded)
        rc = start_thread(p, err);
    if (rc < 0)
        prefetch_destroy(&p);
    *out = p;
    return rc;
}

void
prefetch_destroy(struct prefetch **prefetch)
{
    struct prefetch *p = *prefetch;

    *prefetch = NULL;
    if (p == NULL)
        return;
    if (p->threaded) {
        pthread_mutex_lock(&p->mutex);
        p->quit = true;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
        pthread_join(p->thread, NULL);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    for (int i = 0; i < 2; i++) {
        free(p->slot[i].batch);
        free(p->slot[i].ids);
        free(p->slot[i].memory);
    }
    free(p->permutation);
    free(p);
}
