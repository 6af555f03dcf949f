/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incident_file: a failed iteration on disk, with all that it takes to run it
 * again.
 *
 *   incidents/it000000042-a1/      iteration 42, seen by attempt 1
 *     spec.json            the effective spec
 *     incident.json        counters, seed, scale, policy, shape of the data,
 *                          digest of what the step computed, the diagnosis
 *     weights.safetensors  weights and running statistics before the
 *                          iteration; a hard link where they are kept already
 *     batch.safetensors    "input.0", "target.0", "ids.0" for each
 *                          micro-batch: a row a sample, as they lay in memory
 *     manifest.json        size and xxh3-128 of each file; written last
 *
 * Non-finite numbers keep their bits. Written as a checkpoint is (ckpt.h):
 * ".tmp-NAME", fsync, rename. A directory may be copied anywhere and read
 * there; what is read is hostile until verified. Which incidents stay is
 * incident_keep's business. Used by the thread that runs the step.
 */
#ifndef ENGINE_DIAGNOSE_INCIDENT_FILE_H
#define ENGINE_DIAGNOSE_INCIDENT_FILE_H

#include "engine/data/prefetch.h"
#include "engine/diagnose/incident_record.h"

/* Weights that are kept already. */
struct incident_file_weights {
    char name[INCIDENT_RECORD_NAME_MAX]; /* of the incident */
    char digest[DIGEST_TEXT_BYTES];
    int64_t n_bytes;
};

struct incident_file_args {
    const char *directory; /* ".../incidents", made when missing */
    int64_t attempt;
    const struct spec *spec;
    const struct build_data *data;
    const char *backend, *policy;
    int threads;
    const struct state *state; /* between compute and commit */
    const struct prefetch_window *window;
    float loss;
    const struct event *diagnosis;              /* kind INCIDENT */
    const struct incident_file_weights *linked; /* the same bits; or NULL */
};

struct incident_file_info {
    char name[INCIDENT_RECORD_NAME_MAX];
    enum event_verdict verdict;
    int64_t n_bytes; /* of all but the weights */
    int64_t weights_bytes;
    uint64_t weights_inode; /* 0: no such file */
};

/* The directory's name for the iteration under way. */
void incident_file_format_name(char name[INCIDENT_RECORD_NAME_MAX],
                               const struct state *state, int64_t attempt);

/* What it will take, with a little to spare. */
int64_t incident_file_estimate(const struct incident_file_args *args,
                               int64_t *weights_bytes);

/* 0 with info and weights filled. On any error nothing stays but what a kill
 * leaves. ERR_NOSPACE, ERR_IO, ERR_EXISTS, ERR_NOMEM. */
int incident_file_write(const struct incident_file_args *args,
                        struct incident_file_info *info,
                        struct incident_file_weights *weights, struct err *err);

/* Sizes as they are on disk, and the verdict where it can be read; nothing is
 * verified. ERR_CKPT when there is no such directory. */
int incident_file_look(const char *directory, const char *name,
                       struct incident_file_info *info, struct err *err);

/* ---- reading ------------------------------------------------------------- */

struct incident_file;

/* path: the directory of one incident, of any name. Verifies sizes, checksums
 * and that all fits together: ERR_CKPT names the file at fault, ERR_NOMEM
 * those that are larger than memory. */
int incident_file_open(const char *path, struct incident_file **out,
                       struct err *err);
void incident_file_close(struct incident_file **file);

const struct incident_record *
incident_file_record(const struct incident_file *file);
/* Yours to change before it is compiled; lives as long as the file. */
struct spec *incident_file_spec(struct incident_file *file);
const struct prefetch_window *
incident_file_window(const struct incident_file *file);
/* Samples of the largest micro-batch, and of the last one. */
void incident_file_batch_sizes(const struct incident_file *file, int64_t *full,
                               int64_t *last);

/* Weights and batch against the graph of the model, before memory is made for
 * it: shapes, and token ids that would be looked up outside of a table. */
int incident_file_check(const struct incident_file *file,
                        const struct graph *graph, struct err *err);
/* Fills weights, running statistics, counters, seed and scale. */
int incident_file_load(const struct incident_file *file, struct state *state,
                       struct err *err);
/* All of it: the model of the spec, checked, and a state as it was before the
 * iteration. NULL on an error. */
int incident_file_make_state(const struct incident_file *file,
                             struct state **out, struct err *err);

#endif
