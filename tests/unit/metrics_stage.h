/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_stage: a registry, jobs, and a clock that stands still.
 *
 * For tests of the daemon's figures only: tells the registry what a daemon
 * would, and looks at the scrape that comes of it.
 */
#ifndef TESTS_UNIT_METRICS_STAGE_H
#define TESTS_UNIT_METRICS_STAGE_H

#include "daemon/metrics.h"

#define METRICS_STAGE_S INT64_C(1000000) /* a second of its clock */

extern struct metrics_stage {
    struct metrics *m;
    struct metrics_live live; /* what a scrape will see */
    struct jobs jobs;
    int64_t now_us;
    char *text; /* of the last scrape */
} metrics_stage;

/* For cmocka. */
int metrics_stage_setup(void **ctx);
int metrics_stage_teardown(void **ctx);

struct job *metrics_stage_add_job(int64_t id, const char *name,
                                  const char *state);
/* It is in that state, and the database knows. */
void metrics_stage_change(struct job *job, enum job_state stored);

/* An event of its worker, after so many updates and skips. */
void metrics_stage_tell(struct job *job, struct event e, int64_t updates,
                        int64_t skips);
void metrics_stage_tell_start(struct job *job, int64_t updates, int64_t skips);
void metrics_stage_tell_step(struct job *job, int64_t updates, int64_t skips,
                             bool skipped);
void metrics_stage_tell_scale(struct job *job, enum event_scale_cause cause,
                              double from, double to, int64_t updates,
                              int64_t skips);
void metrics_stage_tell_incident(struct job *job, enum event_trigger trigger,
                                 enum event_verdict verdict, int64_t updates,
                                 int64_t skips);
void metrics_stage_tell_end(struct job *job, enum event_outcome outcome);

void metrics_stage_scrape(enum metrics_format format);
/* A whole line of the last scrape; a word that is not in it. */
void metrics_stage_expect(const char *line);
void metrics_stage_expect_none(const char *word);

#endif
