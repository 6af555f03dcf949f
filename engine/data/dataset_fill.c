/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "engine/data/dataset.h"
#include "engine/data/dataset_private.h"

/* Elements converted at a time, on the stack. */
#define BLOCK 1024

/* One channel of pixels; step is 1, or the number of channels (channels
 * last). */
static void
fill_pixels(const uint8_t *from, int64_t n, const float *table, int64_t step,
            float *out)
{
    if (step == 1) {
        for (int64_t i = 0; i < n; i++)
            out[i] = table[from[i]];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i * step] = table[from[i]];
}

static void
normalize(const struct dataset *d, int64_t channel, float *x, int64_t n)
{
    float mean, std;

    if (d->n_normalize == 0)
        return;
    mean = d->mean[d->n_normalize > 1 ? channel : 0];
    std = d->std[d->n_normalize > 1 ? channel : 0];
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / std;
}

/* One channel of an image, from its plane to every n_channels-th element. */
static void
fill_plane(const struct dataset *d, int64_t at, int64_t channel, float *out)
{
    float block[BLOCK];

    for (int64_t i = 0; i < d->channel_elems; i += BLOCK) {
        const int64_t left = d->channel_elems - i;
        const int64_t n = left < BLOCK ? left : BLOCK;
        float *to = out + i * d->n_channels + channel;

        array_to_f32(&d->input, at + i, n, block);
        normalize(d, channel, block, n);
        for (int64_t k = 0; k < n; k++)
            to[k * d->n_channels] = block[k];
    }
}

/* Samples whose elements lie as the engine wants them. */
static void
fill_straight(const struct dataset *d, int64_t at, float *out)
{
    array_to_f32(&d->input, at, d->sample_elems, out);
    if (d->n_normalize <= 1) {
        normalize(d, 0, out, d->sample_elems);
        return;
    }
    for (int64_t i = 0; i < d->sample_elems; i += d->n_channels)
        for (int64_t c = 0; c < d->n_channels; c++)
            out[i + c] = (out[i + c] - d->mean[c]) / d->std[c];
}

static void
fill_pixel_sample(const struct dataset *d, int64_t at, float *out)
{
    const uint8_t *from = (const uint8_t *)d->input.data + at;
    const int64_t table_step = d->n_normalize > 1 ? 256 : 0;

    if (d->channels_last && d->n_normalize <= 1) {
        fill_pixels(from, d->sample_elems, d->table, 1, out);
        return;
    }
    if (d->channels_last) { /* a table for each feature */
        for (int64_t i = 0; i < d->sample_elems; i++)
            out[i] = d->table[i % d->n_channels * 256 + from[i]];
        return;
    }
    for (int64_t c = 0; c < d->n_channels; c++)
        fill_pixels(from + c * d->channel_elems, d->channel_elems,
                    d->table + c * table_step, d->n_channels, out + c);
}

/* n values of a plane of the file from element at on, step apart in out. */
static void
fill_run(const struct dataset *d, int64_t channel, int64_t at, int64_t n,
         int64_t step, float *out)
{
    const int64_t table = d->n_normalize > 1 ? channel * 256 : 0;
    float block[BLOCK];

    for (int64_t i = 0; i < n; i++) {
        if (d->is_pixel) {
            const uint8_t *from = d->input.data;

            out[i * step] = d->table[table + from[at + i]];
            continue;
        }
        if (i % BLOCK == 0) {
            const int64_t m = n - i < BLOCK ? n - i : BLOCK;

            array_to_f32(&d->input, at + i, m, block);
            normalize(d, channel, block, m);
        }
        out[i * step] = block[i % BLOCK];
    }
}

/* The value of a black pixel, which is 0 before it is normalized. */
static float
black(const struct dataset *d, int64_t channel)
{
    float x = 0;

    if (d->is_pixel)
        return d->table[d->n_normalize > 1 ? channel * 256 : 0];
    normalize(d, channel, &x, 1);
    return x;
}

/* Column x of the crop is column x + shift of the image, black outside. */
static void
fill_moved_row(const struct dataset *d, int64_t channel, int64_t row_at,
               int64_t shift, int64_t step, float *out)
{
    const int64_t width = d->dim[2];
    const int64_t begin = shift < 0 ? -shift : 0;
    const int64_t end = shift > 0 ? width - shift : width;
    const float none = black(d, channel);

    for (int64_t x = 0; x < width; x++)
        if (row_at < 0 || x < begin || x >= end)
            out[x * step] = none;
    if (row_at >= 0 && begin < end)
        fill_run(d, channel, row_at + begin + shift, end - begin, step,
                 out + begin * step);
}

/* An image, cropped out of its padded self and maybe flipped. */
static void
fill_moved(const struct dataset *d, int64_t id,
           const struct augment_choice *choice, float *out)
{
    const int64_t height = d->dim[1], width = d->dim[2];
    const int64_t step = choice->flip ? -d->n_channels : d->n_channels;
    const int64_t down = choice->top - d->augment.crop_padding;

    if (choice->flip)
        out += (width - 1) * d->n_channels;
    for (int64_t c = 0; c < d->n_channels; c++)
        for (int64_t y = 0; y < height; y++) {
            const int64_t from = y + down;
            const bool inside = from >= 0 && from < height;
            const int64_t plane = id * d->sample_elems + c * d->channel_elems;

            fill_moved_row(d, c, inside ? plane + from * width : -1,
                           choice->left - d->augment.crop_padding, step,
                           out + y * width * d->n_channels + c);
        }
}

static void
fill_input(const struct dataset *d, int64_t id, float *out)
{
    const int64_t at = id * d->sample_elems;

    if (d->is_pixel) {
        fill_pixel_sample(d, at, out);
    } else if (d->channels_last) {
        fill_straight(d, at, out);
    } else {
        for (int64_t c = 0; c < d->n_channels; c++)
            fill_plane(d, at + c * d->channel_elems, c, out);
    }
}

static int64_t
count_labels(const struct dataset *d, const int32_t *label)
{
    int64_t n_count = d->target_elems;

    if (!d->has_ignore_index)
        return n_count;
    for (int64_t i = 0; i < d->target_elems; i++)
        n_count -= label[i] == d->ignore_index ? 1 : 0;
    return n_count;
}

/* Returns how many of them count. */
static int64_t
fill_target(const struct dataset *d, int64_t id, int64_t i, void *target)
{
    const int64_t n = d->target_elems;
    const int32_t *label;

    if (!d->target_is_class) {
        array_to_f32(&d->target, id * n, n, (float *)target + i * n);
        return n;
    }
    label = d->label + id * n;
    memcpy((int32_t *)target + i * n, label, (size_t)n * sizeof(*label));
    return count_labels(d, label);
}

static int64_t
fill_tokens(const struct dataset *d, const int64_t *ids, int64_t n,
            int32_t *input, int32_t *target)
{
    const int64_t length = d->sample_elems;
    int64_t n_count = 0;

    for (int64_t i = 0; i < n; i++)
        n_count += tokens_window(&d->tokens, ids[i], length, input + i * length,
                                 target + i * length);
    return n_count;
}

static int64_t
count_tokens(const struct dataset *d, const int64_t *ids, int64_t n)
{
    int64_t n_count = 0;

    for (int64_t i = 0; i < n; i++)
        n_count +=
            tokens_window(&d->tokens, ids[i], d->sample_elems, NULL, NULL);
    return n_count;
}

int64_t
dataset_fill(const struct dataset *d, const int64_t *ids, int64_t n,
             const struct augment_key *key, void *input, void *target)
{
    const bool moved = key != NULL && augment_is_on(&d->augment);
    int64_t n_count = 0;

    if (d->is_tokens)
        return fill_tokens(d, ids, n, input, target);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = ids[i];

        assert(id >= 0 && id < d->n_samples);
        float *out = (float *)input + i * d->sample_elems;
        if (moved) {
            const struct augment_choice choice =
                augment_choose(&d->augment, key, i);

            fill_moved(d, id, &choice, out);
        } else {
            fill_input(d, id, out);
        }
        n_count += fill_target(d, id, i, target);
    }
    return n_count;
}

int64_t
dataset_count(const struct dataset *d, const int64_t *ids, int64_t n)
{
    int64_t n_count = 0;

    if (d->is_tokens)
        return count_tokens(d, ids, n);
    if (!d->target_is_class)
        return n * d->target_elems;
    for (int64_t i = 0; i < n; i++) {
        assert(ids[i] >= 0 && ids[i] < d->n_samples);
        n_count += count_labels(d, d->label + ids[i] * d->target_elems);
    }
    return n_count;
}
