/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset_private: what dataset.c opens and dataset_fill.c reads.
 *
 * Private to these two. Everything here is written while opening and read-only
 * afterwards.
 */
#ifndef ENGINE_DATA_DATASET_PRIVATE_H
#define ENGINE_DATA_DATASET_PRIVATE_H

#include "engine/data/array.h"
#include "engine/data/dataset.h"
#include "engine/data/tokens.h"

struct dataset {
    char *input_path, *target_path; /* owned: names for sentences */
    char *warning;                  /* owned, or NULL */
    int64_t n_samples;

    bool is_tokens; /* of these alone: input, target and labels are none */
    struct tokens tokens;

    struct array input;
    int rank; /* of a sample */
    int64_t dim[TENSOR_MAX_RANK - 1];
    int64_t sample_elems;
    int64_t n_channels, channel_elems; /* image: C and H x W; else C and 1 */
    bool channels_last;                /* already so in the file */
    bool is_pixel;                     /* u8 of an IDX file */
    struct augment_options augment;
    int n_normalize;   /* 0, 1 or n_channels */
    float *mean, *std; /* owned, n_normalize of them */
    float *table;      /* owned: pixel -> value, 256 a channel or 256 for all */

    bool target_is_class, has_ignore_index;
    int64_t ignore_index;
    int32_t *label;       /* owned; target_elems a sample, when classes */
    struct array target;  /* otherwise */
    bool has_target;      /* read along with the input */
    int64_t target_elems; /* of a sample */
    int target_rank;
    int64_t target_dim[TENSOR_MAX_RANK - 1];
};

#endif
