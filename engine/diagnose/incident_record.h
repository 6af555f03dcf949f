/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incident_record: incident.json and manifest.json of a kept incident.
 *
 * Private to incident_file and incident_keep. As text and as structs; what is
 * read must be exactly what would be written, so every byte has a meaning.
 * Floating numbers that bits hang on are hex bits, 64-bit unsigned ones are
 * strings. What a hostile file can say is bounded here. No I/O.
 */
#ifndef ENGINE_DIAGNOSE_INCIDENT_RECORD_H
#define ENGINE_DIAGNOSE_INCIDENT_RECORD_H

#include "engine/base/digest.h"
#include "engine/graph/build.h"
#include "engine/run/state.h"
#include "proto/codec.h"

#define INCIDENT_RECORD_FORMAT    1
#define INCIDENT_RECORD_NAME_MAX  64
#define INCIDENT_RECORD_MAX_BYTES (1024 * 1024) /* of each of the two */
#define INCIDENT_RECORD_MANIFEST  "manifest.json"

enum incident_record_file {
    INCIDENT_RECORD_SPEC,
    INCIDENT_RECORD_SELF,
    INCIDENT_RECORD_WEIGHTS,
    INCIDENT_RECORD_BATCH,
    INCIDENT_RECORD_N_FILES
};

const char *incident_record_file_name(enum incident_record_file file);

struct incident_manifest {
    char name[INCIDENT_RECORD_NAME_MAX];
    struct {
        int64_t n_bytes;
        char digest[DIGEST_TEXT_BYTES];
    } file[INCIDENT_RECORD_N_FILES];
};

/* malloc'd; NULL: no memory. */
char *incident_record_print_manifest(const struct incident_manifest *m);
int incident_record_parse_manifest(const char *text, size_t len,
                                   struct incident_manifest *out,
                                   struct err *err);

/* The iteration that failed, and what was found out about it. */
struct incident_record {
    char name[INCIDENT_RECORD_NAME_MAX];
    int64_t attempt;
    struct state_counters count; /* before it */
    int64_t batches_tracked;
    uint64_t seed;
    float scale;
    int64_t growth_tracker;
    const char *backend, *policy; /* borrowed for printing, of doc after
                                     parsing */
    int threads;
    struct build_data data;
    int64_t n_batches, n_count; /* of the window; elements that count */
    float loss;
    char digest[DIGEST_TEXT_BYTES]; /* step_digest */
    struct event diagnosis;         /* kind INCIDENT; borrows as above */
    struct codec_doc *doc;          /* owned after parsing */
    char *text;                     /* owned after parsing */
};

char *incident_record_print(const struct incident_record *r);
int incident_record_parse(const char *text, size_t len,
                          struct incident_record *out, struct err *err);
void incident_record_fini(struct incident_record *r);

#endif
