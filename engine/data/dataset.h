/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dataset: one split of the data, checked and in memory.
 *
 * Opens the files of a spec_source with the process's own rights, checks
 * format, sizes, counts and labels before the first step, and fills batches:
 * input as f32 in the engine's layout (images channels last), normalised, or
 * as i32 token ids; targets as i32 class ids or f32. Read-only after opening,
 * so any thread may fill batches at the same time. Inputs stay of the file's
 * dtype until a batch is filled.
 */
#ifndef ENGINE_DATA_DATASET_H
#define ENGINE_DATA_DATASET_H

#include "engine/data/augment.h"
#include "engine/graph/build.h"
#include "proto/spec.h"

struct dataset;

/*
 * The first axis counts samples. Without it, a sample is by the array's rank:
 *   1  [N]           one feature
 *   2  [N, K]        K features; CSV: a row's columns but the targets
 *   3  IDX: [N, H, W] an image of one channel; others: [N, L, C], row-major
 *   4  [N, C, H, W]  an image
 * Elements u8 of an IDX file are pixels: v / 255, as torchvision's ToTensor;
 * all others are taken as they are. Then (x - mean) / std per channel (axis C,
 * K or L's C). Non-finite inputs are let through: training names them.
 *
 * A sample of tokens or text is a window: sequence_length ids from a start, its
 * targets the ids that follow each. Its id is the start, counted from the first
 * token of the source's part; n_samples is how many fit side by side.
 */
struct dataset_options {
    int64_t sequence_length; /* tokens, text */
    bool to_half;            /* CSV: warn of inputs infinite in float16 */
    /* Class targets: integers >= 0 (in floating files too) or ignore_index;
     * dataset_check_classes() knows the upper end. [N] or [N, 1], or for each
     * part of a sample: [N, T], [N, H, W]. What the source's mask leaves out
     * becomes ignore_index, -100 without one. */
    bool target_is_class;
    bool has_ignore_index;
    int64_t ignore_index;
    const double *mean, *std; /* borrowed during the call */
    int n_normalize;
    struct augment_options augment; /* images only */
};

/* ERR_DATA or ERR_IO with a sentence that names file and place. */
int dataset_open(const struct spec_source *source,
                 const struct dataset_options *options, struct dataset **out,
                 struct err *err);
void dataset_destroy(struct dataset **dataset);

int64_t dataset_n_samples(const struct dataset *d);
/* What is not wrong but should be known, "FILE: row 5 ...", or NULL. */
const char *dataset_warning(const struct dataset *d);
/* For struct order: from one sample's id to the next one's, side by side, and
 * how many ids there are to draw from (0: ids are those of n_samples). */
int64_t dataset_id_step(const struct dataset *d);
int64_t dataset_n_starts(const struct dataset *d);
/* Shapes for build_graph(). IDX images (N,H,W) are one channel: 1,H,W. */
void dataset_describe(const struct dataset *d, struct build_data *out);
/* Labels against the model's number of classes: ERR_DATA "train-labels...:
 * row 3 (sample 2) value 3, allowed 0..2", with a hint when they look one-based. */
int dataset_check_classes(const struct dataset *d, int64_t n_classes,
                          struct err *err);

/* Token ids (nothing to check with other data) against the rows of the
 * embedding that they go into. */
int dataset_check_tokens(const struct dataset *d, int64_t vocabulary,
                         struct err *err);

/* Writes n samples (ids[0 .. n-1]) to input (f32, or i32 tokens) and target
 * (i32 or f32) and returns the number of elements that count for the loss:
 * class ids that are not ignored, or target elements. With a key, images are
 * augmented as the options ask for, outside of the image black before it is
 * normalized; NULL: never. */
int64_t dataset_fill(const struct dataset *d, const int64_t *ids, int64_t n,
                     const struct augment_key *key, void *input, void *target);
/* Counts what dataset_fill would return, without filling. */
int64_t dataset_count(const struct dataset *d, const int64_t *ids, int64_t n);

#endif
