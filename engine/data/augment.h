/* SPDX-License-Identifier: Apache-2.0 */
/*
 * augment: how an image of a training batch is moved, as torchvision does it.
 *
 * RandomCrop(size, padding) and then RandomHorizontalFlip(p). Pure arithmetic:
 * what happens to a sample is a function of seed, data position, micro-batch
 * and index in it, so a replay, a resume and any thread see the same images.
 * Knows no pixels; dataset_fill moves them.
 */
#ifndef ENGINE_DATA_AUGMENT_H
#define ENGINE_DATA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

struct augment_options {
    int64_t crop_padding; /* black pixels on each side; 0: no crop */
    double flip_p;        /* 0: no flip */
};

struct augment_key {
    uint64_t seed;
    int64_t position;     /* of the window in the data */
    uint32_t micro_batch; /* in the window */
};

struct augment_choice {
    /* Where the crop begins in the padded image: 0 .. 2 x crop_padding. */
    int64_t top, left;
    bool flip; /* what was cropped, left to right */
};

bool augment_is_on(const struct augment_options *options);
/* Sample `index` of the micro-batch. */
struct augment_choice augment_choose(const struct augment_options *options,
                                     const struct augment_key *key,
                                     int64_t index);

#endif
