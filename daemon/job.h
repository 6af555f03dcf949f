/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job: a job that is not final, in memory, and the one door to its states.
 *
 * Belongs to the table of jobs (jobs.h), on the loop's thread.
 * job_transition() is the only way to another state: it checks the table of
 * edges (job_states.def), hands row and event to the ledger, logs one line;
 * whatever acts on the new state waits for the commit. Two states are kept:
 * `state` is decided, `stored` is committed, and clients are told the latter.
 * Leaves processes and sockets to supervisor.c and control.c.
 */
#ifndef DAEMON_JOB_H
#define DAEMON_JOB_H

#include "daemon/store.h"

enum job_state {
#define STATE(id, name, final, doc) JOB_##id,
#define EDGE(from, to, why)
#include "daemon/job_states.def"
#undef STATE
#undef EDGE
    JOB_STATE_COUNT
};

const char *job_state_name(enum job_state state);
enum job_state job_state_parse(const char *name); /* JOB_STATE_COUNT: none */
bool job_state_is_final(enum job_state state);
bool job_edge_is_legal(enum job_state from, enum job_state to);

/* What a person asked for and is under way; survives a restart. */
enum job_intent {
    JOB_INTENT_NONE,
    JOB_INTENT_PAUSE,
    JOB_INTENT_CANCEL,
    JOB_INTENT_ROLLBACK,
    JOB_INTENT_COUNT
};
const char *job_intent_name(enum job_intent intent);
enum job_intent job_intent_parse(const char *name);

#define JOB_SPEED_POINTS 16

struct ledger;
struct worker;

/* How the checkpoint to go back to was asked for. */
enum job_goal {
    JOB_GOAL_NAMED, /* this one and no other */
    JOB_GOAL_LAST,  /* the last one, whichever that is */
    JOB_GOAL_BEST
};

struct job {
    unsigned magic;
    enum job_state state, stored;
    enum job_intent intent;
    /* What is or will be in the table. Its strings are owned: see
     * job_set_text(). */
    struct store_job row;
    int error;             /* enum err_code behind a final state */
    int64_t not_before_ms; /* monotonic; no start before it */
    int64_t queued_us;     /* wall clock: since when it waits, as far as this
                              daemon knows */
    int writes;            /* handed to the ledger, not yet committed */
    int64_t write_no;      /* of the latest transition committed */
    struct {
        bool known; /* the counters and the name are set */
        int64_t iteration, updates, skips;
        char name[64];
        enum job_goal asked_for; /* of one that goes, the next is taken */
        int64_t skip_batches;    /* windows to pass over from there */
        char *old_changes, *old_windows; /* owned: of the row before */
        double old_scale;
    } rollback;            /* the goal of the one under way */
    struct worker *worker; /* borrowed from supervisor; NULL = none */
    struct ledger *ledger; /* borrowed */
    struct {
        int64_t at_ms, iteration;
    } speed[JOB_SPEED_POINTS]; /* a ring of when which iteration was seen */
    int n_speed;
    int64_t n_evaluations; /* seen by this daemon */
    int64_t last_started;  /* the attempt that has said so */
};

/* A copy of row with strings of its own. NULL: no memory. */
struct job *job_create(const struct store_job *row, struct ledger *ledger);
void job_destroy(struct job **job);

/* Sets a string of job->row ("" for NULL): job_set_text(&job->row.view.reason,
 * "..."). Without memory the old text stays. */
void job_set_text(const char **field, const char *value);

/* What clients see: the committed state, the directory, the exit code. Strings
 * are borrowed from the job. */
void job_view(const struct job *job, struct view_job *out);

/* After the commit, on the loop's thread. */
typedef void job_after_fn(void *ctx, struct job *job);

struct job_change {
    const char *reason;  /* a sentence, goes to the row and the event */
    int error;           /* final states: enum err_code */
    int64_t actor_uid;   /* -1 = the daemon itself */
    job_after_fn *after; /* NULL = nothing */
    void *ctx;
    const struct store_rollback *rollback; /* that it carries out, written with
                                              it; NULL = none */
};

/* An edge that is not in the table is a program error. */
void job_transition(struct job *job, enum job_state to,
                    const struct job_change *change);
/* The row changed but not the state (intent, target, priority). kind: the
 * event's. */
void job_update(struct job *job, const char *kind,
                const struct job_change *change);

/* Takes live numbers out of an event that was stored. */
void job_apply_event(struct job *job, const struct event *event,
                     int64_t now_ms);

#endif
