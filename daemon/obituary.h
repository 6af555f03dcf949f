/* SPDX-License-Identifier: Apache-2.0 */
/*
 * obituary: how a worker ended and what becomes of its job.
 *
 * Pure: the facts that supervisor.c and reconcile.c gathered go in, one
 * sentence and one verdict come out. An outcome is believed only from a
 * FINISHED event of that attempt; an exit status alone never makes a job
 * completed.
 */
#ifndef DAEMON_OBITUARY_H
#define DAEMON_OBITUARY_H

#include "daemon/job.h"

struct obituary_facts {
    int64_t pid;            /* 0: there never was a process */
    bool status_known;      /* waited for it ourselves */
    int exit_code;          /* if it exited */
    int signal;             /* 0 = it exited */
    int killed_by_us;       /* last signal that we sent, 0 = none */
    const char *why_killed; /* "" or a sentence's part: "no sign of life ..." */
    const char *start_error; /* what the exec helper said, "" = nothing */
    int start_code;          /* enum err_code of it */
    bool finished;           /* a FINISHED event was stored */
    enum event_outcome outcome;
    int error;                        /* enum err_code of it */
    const char *text;                 /* of it */
    const struct rollback_wish *wish; /* of GO_BACK: what for; see rollback.h */
};

void obituary_write(const struct obituary_facts *facts, char *out, size_t size);

/* The same in one word, for counting. */
enum obituary_category {
    OBITUARY_COMPLETED,
    OBITUARY_STOPPED,   /* as it was told */
    OBITUARY_PAUSED,    /* by a guard */
    OBITUARY_GO_BACK,   /* a guard asks for a rollback */
    OBITUARY_FAILED,    /* reported an error */
    OBITUARY_DIED,      /* by a signal not ours, or without an outcome */
    OBITUARY_KILLED,    /* by us: it was silent, did not obey, broke rules */
    OBITUARY_LOST,      /* with an earlier daemon */
    OBITUARY_UNSTARTED, /* the worker's program never ran */
    OBITUARY_CATEGORY_COUNT
};
enum obituary_category obituary_categorize(const struct obituary_facts *facts);
const char *obituary_category_name(enum obituary_category category);

struct obituary_circumstances {
    enum job_state state;
    enum job_intent intent;
    bool shutdown;         /* the daemon is going down (or went) */
    bool progress;         /* this attempt made a checkpoint */
    int64_t lost_attempts; /* before this one */
    int64_t max_lost_attempts;
    bool requeue; /* jobs.requeue_on_restart, or not a restart */
    /* Of an outcome GO_BACK: how many there were, how many the spec allows,
     * and why what the guard asks for cannot be done ("": it can). */
    int64_t guard_rollbacks, max_guard_rollbacks;
    int go_back_error; /* enum err_code */
    const char *no_way_back;
};

struct obituary_verdict {
    enum job_state state;
    int error; /* final states */
    bool clear_intent;
    bool go_back;          /* as the guard asked */
    int64_t lost_attempts; /* from now on */
    int64_t back_off_ms;   /* wait so long before the next attempt */
    char reason[ERR_SENTENCE_MAX];
    const char *attempt_state; /* for the attempt's row */
};

void obituary_judge(const struct obituary_facts *facts,
                    const struct obituary_circumstances *c,
                    struct obituary_verdict *out);

#endif
