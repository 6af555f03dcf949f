/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/order.h"

#include <assert.h>

#include "kernels/philox.h"

static int64_t
divide_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

int64_t
order_batches_per_epoch(const struct order *o)
{
    assert(o->n_samples > 0 && o->batch_size > 0);
    return o->drop_last ? o->n_samples / o->batch_size
                        : divide_up(o->n_samples, o->batch_size);
}

int64_t
order_windows_per_epoch(const struct order *o)
{
    assert(o->accumulate > 0);
    return divide_up(order_batches_per_epoch(o), o->accumulate);
}

struct order_window
order_window_at(const struct order *o, int64_t position)
{
    const int64_t n_windows = order_windows_per_epoch(o);
    const int64_t n_batches = order_batches_per_epoch(o);
    struct order_window w;
    int64_t batch;

    assert(position >= 0 && n_windows > 0);
    w.epoch = position / n_windows;
    w.window_in_epoch = position % n_windows;
    batch = w.window_in_epoch * o->accumulate;
    w.n_batches =
        n_batches - batch < o->accumulate ? n_batches - batch : o->accumulate;
    w.first = batch * o->batch_size;
    /* Only an epoch's last batch can be smaller than the others. */
    w.n_samples = w.n_batches * o->batch_size;
    if (w.n_samples > o->n_samples - w.first)
        w.n_samples = o->n_samples - w.first;
    return w;
}

int64_t
order_batch_size_at(const struct order *o, const struct order_window *w,
                    int64_t b)
{
    const int64_t left = w->n_samples - b * o->batch_size;

    assert(b >= 0 && b < w->n_batches);
    return left < o->batch_size ? left : o->batch_size;
}

/* 64-bit numbers of one epoch, two to a Philox block. */
struct numbers {
    uint64_t seed;
    int64_t epoch;
    uint32_t block;
    bool has_second;
    uint64_t second;
};

static uint64_t
draw(struct numbers *r)
{
    uint32_t word[4];

    if (r->has_second) {
        r->has_second = false;
        return r->second;
    }
    philox_words(r->seed, PHILOX_STREAM_ORDER, (uint64_t)r->epoch, 0, r->block,
                 word);
    r->block++;
    r->second = (uint64_t)word[3] << 32 | word[2];
    r->has_second = true;
    return (uint64_t)word[1] << 32 | word[0];
}

/* 0 .. n - 1, each exactly as likely: the first 2^64 mod n are drawn again. */
static uint64_t
draw_below(struct numbers *r, uint64_t n)
{
    const uint64_t reject = -n % n;
    uint64_t v;

    do
        v = draw(r);
    while (v < reject);
    return v % n;
}

void
order_permute(const struct order *o, int64_t epoch, int64_t *samples)
{
    struct numbers r = {.seed = o->seed, .epoch = epoch};

    assert(epoch >= 0 && o->n_samples <= UINT32_MAX);
    for (int64_t i = 0; i < o->n_samples; i++)
        samples[i] = i;
    if (!o->shuffle)
        return;
    for (int64_t i = o->n_samples - 1; i > 0; i--) {
        const int64_t j = (int64_t)draw_below(&r, (uint64_t)i + 1);
        const int64_t t = samples[i];

        samples[i] = samples[j];
        samples[j] = t;
    }
}

bool
order_is_permuted(const struct order *o)
{
    return o->shuffle && o->n_starts == 0;
}

/* 0 .. n_starts - 1, each exactly as likely; a block holds two tries. */
static int64_t
draw_start(const struct order *o, int64_t position, int64_t batch,
           int64_t index)
{
    const uint64_t n = (uint64_t)o->n_starts, reject = -n % n;

    assert(index <= UINT32_MAX);
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t word[4];

        philox_words(o->seed, PHILOX_STREAM_WINDOW + attempt,
                     (uint64_t)position, (uint32_t)batch, (uint32_t)index,
                     word);
        for (int i = 0; i < 4; i += 2) {
            const uint64_t v = (uint64_t)word[i + 1] << 32 | word[i];

            if (v >= reject)
                return (int64_t)(v % n);
        }
    }
}

static void
draw_ids(const struct order *o, const struct order_window *w, int64_t position,
         int64_t *ids)
{
    for (int64_t b = 0; b < w->n_batches; b++) {
        const int64_t n = order_batch_size_at(o, w, b);

        for (int64_t i = 0; i < n; i++)
            *ids++ = draw_start(o, position, b, i);
    }
}

void
order_ids_at(const struct order *o, int64_t position,
             const int64_t *permutation, int64_t *ids)
{
    const struct order_window w = order_window_at(o, position);
    const int64_t step = o->id_step > 0 ? o->id_step : 1;

    if (o->shuffle && o->n_starts > 0) {
        draw_ids(o, &w, position, ids);
        return;
    }
    for (int64_t i = 0; i < w.n_samples; i++) {
        const int64_t at = w.first + i;

        ids[i] = (o->shuffle ? permutation[at] : at) * step;
    }
}
