/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/augment.h"

#include <assert.h>

#include "kernels/philox.h"

bool
augment_is_on(const struct augment_options *options)
{
    return options->crop_padding > 0 || options->flip_p > 0;
}

/* 0 .. n - 1; no value is likelier than another by more than n / 2^32. */
static int64_t
scale(uint32_t word, int64_t n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

struct augment_choice
augment_choose(const struct augment_options *options,
               const struct augment_key *key, int64_t index)
{
    const int64_t n = 2 * options->crop_padding + 1;
    uint32_t word[4];

    assert(index >= 0 && index <= UINT32_MAX);
    assert(options->crop_padding >= 0 && n <= INT32_MAX);
    philox_words(key->seed, PHILOX_STREAM_AUGMENT, (uint64_t)key->position,
                 key->micro_batch, (uint32_t)index, word);
    return (struct augment_choice){
        .top = scale(word[0], n),
        .left = scale(word[1], n),
        .flip = (double)philox_uniform(word[2]) < options->flip_p,
    };
}
