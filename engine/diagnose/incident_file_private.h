/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incident_file_private: a kept incident in memory, between the file that
 * reads it and the one that holds its parts against each other.
 *
 * Private to incident_file_read.c, which fills and frees it, and
 * incident_file_check.c, which only looks. No file is touched here.
 */
#ifndef ENGINE_DIAGNOSE_INCIDENT_FILE_PRIVATE_H
#define ENGINE_DIAGNOSE_INCIDENT_FILE_PRIVATE_H

#include "engine/data/safetensors.h"
#include "engine/diagnose/incident_file.h"

#define INCIDENT_FILE_SPEC    "spec.json"
#define INCIDENT_FILE_SELF    "incident.json"
#define INCIDENT_FILE_WEIGHTS "weights.safetensors"
#define INCIDENT_FILE_BATCH   "batch.safetensors"

struct incident_file {
    struct incident_manifest manifest;
    struct incident_record record; /* owns */
    struct spec *spec;             /* owned */
    char *bytes[INCIDENT_RECORD_N_FILES];
    size_t len[INCIDENT_RECORD_N_FILES];
    struct safetensors *weights, *tensors; /* owned; borrow bytes */
    struct prefetch_window window;
    struct prefetch_batch *batch; /* owned, as the window's */
    void *block;                  /* owned: what the batches point into */
    int64_t *ids;                 /* owned */
};

/* Elements of one sample's input. */
int64_t incident_file_check_elems(const struct build_data *data);

/* Before the files are read: do they fit into memory? */
int incident_file_check_memory(const struct incident_manifest *manifest,
                               struct err *err);
/* Names and policy; once record and spec are there. */
int incident_file_check_record(const struct incident_file *file,
                               struct err *err);
/* How many micro-batches there are, and elements that count; last of all. */
int incident_file_check_window(const struct incident_file *file,
                               struct err *err);

#endif
