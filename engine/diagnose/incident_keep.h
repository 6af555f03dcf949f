/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incident_keep: which incidents are kept on disk, and which have to go.
 *
 * Holds to diagnose.keep and diagnose.keep_bytes, over all attempts of a job;
 * a file of weights that several incidents link to counts once. When there is
 * no room for a new one, the oldest of verdict scale_overflow goes first (they
 * are normal), then the oldest; each removal is an event. One that is larger
 * than all the room is not kept, and nothing goes for it. What cannot be
 * written is a warning, never the end of a run. Used by the loop, between
 * step_compute() and step_commit().
 */
#ifndef ENGINE_DIAGNOSE_INCIDENT_KEEP_H
#define ENGINE_DIAGNOSE_INCIDENT_KEEP_H

#include "engine/diagnose/incident_file.h"
#include "engine/run/report.h"

struct incident_keep;

/* directory: ".../incidents", copied. Sweeps what dead writers left and looks
 * at what is there. keep 0: keeps nothing, removes nothing. */
int incident_keep_create(const char *directory, int64_t keep,
                         int64_t keep_bytes, struct incident_keep **out,
                         struct err *err);
void incident_keep_destroy(struct incident_keep **keep);

struct incident_keep_result {
    char name[INCIDENT_RECORD_NAME_MAX]; /* "": it is not kept */
    int64_t n_bytes;                     /* of the directory */
    struct err failure;                  /* why it could not be written */
};

/* args->directory and args->linked are filled in here. Negative only when an
 * event cannot be recorded. */
int incident_keep_put(struct incident_keep *keep,
                      const struct incident_file_args *args,
                      const struct report *report,
                      struct incident_keep_result *result, struct err *err);

#endif
