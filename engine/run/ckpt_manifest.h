/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ckpt_manifest: manifest.json and state.json as text and as structs.
 *
 * Private to ckpt. Printing is a function of the struct alone, so the same
 * state gives the same bytes, and a file that is not exactly what printing
 * would give is damaged. Reading is strict: every key, no other key. Numbers
 * come back as the same bits; 64-bit unsigned ones are strings. No I/O.
 */
#ifndef ENGINE_RUN_CKPT_MANIFEST_H
#define ENGINE_RUN_CKPT_MANIFEST_H

#include "engine/base/digest.h"
#include "engine/run/ckpt.h"

enum ckpt_manifest_file {
    CKPT_MANIFEST_MODEL,
    CKPT_MANIFEST_EMA, /* the only one that may be absent */
    CKPT_MANIFEST_OPTIMIZER,
    CKPT_MANIFEST_STATE,
    CKPT_MANIFEST_N_FILES
};

const char *ckpt_manifest_file_name(enum ckpt_manifest_file file);

#define CKPT_MANIFEST_NAME "manifest.json"

struct ckpt_manifest {
    int format; /* CKPT_FORMAT_OLDEST to CKPT_FORMAT_VERSION */
    char name[CKPT_NAME_MAX];
    int64_t attempt, iteration, updates, skips;
    struct {
        bool here;
        int64_t n_bytes;
        char digest[DIGEST_TEXT_BYTES];
    } file[CKPT_MANIFEST_N_FILES];
};

/* malloc'd; NULL: no memory, or a string that is no UTF-8. */
char *ckpt_manifest_print(const struct ckpt_manifest *m);
int ckpt_manifest_parse(const char *text, size_t len, struct ckpt_manifest *out,
                        struct err *err);

/* state.json. */
struct ckpt_record {
    int format;
    int64_t attempt;
    struct state_counters count;
    int n_optim; /* format 1: one, whose steps are the updates */
    int64_t optim_steps[SPEC_MAX_OPTIMIZERS];
    uint64_t seed;
    int64_t batches_tracked;
    struct scaler scaler; /* five values and enabled */
    bool has_metric;
    double metric;
    uint64_t spec_hash;
    char *policy; /* owned after parsing, borrowed for printing */
};

char *ckpt_manifest_print_record(const struct ckpt_record *r);
int ckpt_manifest_parse_record(const char *text, size_t len,
                               struct ckpt_record *out, struct err *err);

#endif
