/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt: checkpoints on disk: whole, finite and verified, or not there.
 *
 *   checkpoints/it000000500-a1/
 *     model.safetensors      weights by state_dict name, running statistics,
 *                            num_batches_tracked; metadata says the policy
 *     ema.safetensors        the same with the averaged weights; only there
 *                            where the spec asks for an average
 *     optimizer.safetensors  moments: "momentum.NAME", or "m.NAME" and
 *                            "v.NAME", as the parameter's optimizer has them
 *     state.json             counters, steps of each optimizer, scaler (five
 *                            values), seed, data position, policy, spec hash,
 *                            metric
 *     manifest.json          format version, iteration, size and xxh3-128 of
 *                            each file; written last
 *
 * Written under ".tmp-NAME", each file fsync'd, the manifest last, the
 * directory fsync'd, renamed (never over an existing one), the parent fsync'd.
 * A non-finite value anywhere refuses the checkpoint (ERR_NUMERICS, naming
 * tensor and index). Reading verifies sizes and checksums before anything is
 * taken over. Called between two steps by the thread that owns the state.
 */
#ifndef ENGINE_RUN_CKPT_H
#define ENGINE_RUN_CKPT_H

#include "engine/run/state.h"

#define CKPT_NAME_MAX       64
#define CKPT_FORMAT_VERSION 2
/* Of one optimizer, whose steps are the updates, and without averages. */
#define CKPT_FORMAT_OLDEST 1

struct ckpt_info {
    char name[CKPT_NAME_MAX];
    struct state_counters count;
    int64_t attempt;
    int64_t n_bytes;
    char digest[33]; /* of manifest.json */
    bool has_metric;
    double metric;
    char *policy; /* owned JSON text or NULL */
    uint64_t spec_hash;
};

struct ckpt_write_args {
    const char *directory; /* ".../checkpoints", made when missing */
    int64_t attempt;
    const char *policy; /* JSON text */
    /* JSON text of the changes of policy that led here, for the metadata of
     * the weights; NULL or "": none, it is the run that was submitted. */
    const char *policy_history;
    uint64_t spec_hash;
    bool has_metric;
    double metric;
};

/* 0 and info filled (policy NULL). On any error nothing is left behind but
 * what a kill leaves (".tmp-*", swept by ckpt_sweep). ERR_EXISTS, ERR_NOSPACE,
 * ERR_IO, ERR_NUMERICS, ERR_MISUSE (scaler in mid-step). */
int ckpt_write(const struct state *state, const struct ckpt_write_args *args,
               struct ckpt_info *info, struct err *err);

/* Verifies manifest, sizes and checksums, and fills info. */
int ckpt_verify(const char *directory, const char *name, struct ckpt_info *info,
                struct err *err);

/* Verifies, then loads into state: shapes and names must match exactly
 * (ERR_CKPT names the first that does not). The state is untouched unless all
 * is well. */
int ckpt_read(const char *directory, const char *name, struct state *state,
              struct ckpt_info *info, struct err *err);

void ckpt_info_fini(struct ckpt_info *info);

/* Removes a checkpoint: renamed to ".tmp-" first, so that half a removal is
 * never listed. */
int ckpt_remove(const char *directory, const char *name, struct err *err);

/* Removes leftovers of dead writers. */
void ckpt_sweep(const char *directory);

/* Weights alone from any safetensors file, by name; shapes must match and
 * every parameter must be there, and all running statistics or none (ERR_DATA
 * names the first that is not). */
int ckpt_read_weights(const char *path, struct state *state, struct err *err);

/* What a partial reading came to. Lists name all they can, then count. */
struct ckpt_weights_report {
    int n_loaded;
    int n_missing;  /* of the model, that the file does not have */
    int n_differ;   /* of the same name and another shape */
    int n_unused;   /* of the file, that the model does not have */
    char text[448]; /* one line for a person */
};

/* The same for what fits by name and shape; the rest of the state stays as it
 * is. ERR_DATA when nothing fits, or what fits is not finite. */
int ckpt_read_weights_partial(const char *path, struct state *state,
                              struct ckpt_weights_report *report,
                              struct err *err);

#endif
