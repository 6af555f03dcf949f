/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt_tensors: a state as named tensors, and back.
 *
 * Private to ckpt. Lists what the safetensors files hold, in state_dict
 * names: weights (or their averages), running statistics and a
 * num_batches_tracked for each "*.running_mean", and moments under the names
 * that their optimizers give them.
 * Says whether anything is not finite, and copies opened files into a state of
 * exactly the same tensors. Lists borrow from the state.
 */
#ifndef ENGINE_RUN_CKPT_TENSORS_H
#define ENGINE_RUN_CKPT_TENSORS_H

#include "engine/data/safetensors.h"
#include "engine/run/ckpt.h"

struct ckpt_tensors {
    struct safetensors_entry *entry; /* owned; data borrowed from the state */
    char **name;                     /* owned: names made for the list */
    int n, n_names;
    int64_t n_bytes;
};

/* weights: a block of the state, its weights or their average. */
int ckpt_tensors_list_model(const struct state *state, const float *weights,
                            struct ckpt_tensors *out, struct err *err);
int ckpt_tensors_list_optimizer(const struct state *state,
                                struct ckpt_tensors *out, struct err *err);
void ckpt_tensors_fini(struct ckpt_tensors *tensors);

/* ERR_NUMERICS "NAME[i,j] is nan" for the first value of a float tensor that
 * is not finite. */
int ckpt_tensors_check_finite(const struct safetensors_entry *e,
                              struct err *err);
int ckpt_tensors_check_file_finite(const struct safetensors *file,
                                   struct err *err);

/* The file holds these tensors and no others, of the same dtype and shape:
 * ERR_CKPT names the first that is not so. */
int ckpt_tensors_match(const struct ckpt_tensors *tensors,
                       const struct safetensors *file, struct err *err);
/* After a match: copies the floating tensors to where the list points. */
void ckpt_tensors_load(const struct ckpt_tensors *tensors,
                       const struct safetensors *file, struct state *state);

#endif
