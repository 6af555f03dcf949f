/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store: what the daemon remembers, in SQLite.
 *
 * Owns a thread with the one writing connection (WAL, synchronous FULL; group
 * commit every 250 ms, at once for what is marked urgent) and a thread with a
 * read-only connection for queries. All functions are called on the loop's
 * thread; arguments are copied, callbacks come on the loop's thread after the
 * commit. Path ":memory:" keeps everything in memory, for tests. Never stores
 * a half: one call is one transaction's part. NaN is a NULL value and a flag.
 */
#ifndef DAEMON_STORE_H
#define DAEMON_STORE_H

#include "proto/err.h"
#include "proto/event.h"
#include "proto/message.h"
#include "proto/view.h"

#include <uv.h>

struct store;

/* Who counts what the store does; on the loop's thread, before the answers. */
struct store_commit {
    double seconds;              /* that the commit took */
    int64_t db_bytes, wal_bytes; /* after it; -1: unknown */
};
typedef void store_commit_fn(void *ctx, const struct store_commit *commit);
/* A call that failed, by one of store_troubles. */
typedef void store_trouble_fn(void *ctx, int code);
struct store_watch {
    store_commit_fn *commit;   /* NULL: nobody counts */
    store_trouble_fn *trouble; /* likewise */
    void *ctx;
};
/* What SQLite refuses a call for, 0 at the end. Other codes say that a call
 * made no sense: no such job, a state that is final. */
extern const int store_troubles[];

struct store_options {
    const char *path;
    int64_t commit_interval_ms; /* 250 */
    bool allow_network_fs;      /* else NFS, SMB, Lustre are refused */
    int64_t keep_metrics;       /* rows of each level of a job; 0 = all */
    int64_t ballast_bytes;      /* room kept for a full disk; 0 = none */
    int64_t fs_magic_override;  /* tests: pretend statfs said this; 0 = ask */
    struct store_watch watch;
};

/* Opens, migrates (user_version; a newer schema is ERR_CONFIG; a corrupt file
 * is ERR_IO and left alone), starts the threads. */
int store_open(const struct store_options *options, uv_loop_t *loop,
               struct store **out, struct err *err);
/* Commits what is queued, ends the threads; no callback comes after. */
void store_close(struct store **store);
/* Text of a warning found at opening ("" if none): odd file system. */
const char *store_warning(const struct store *store);

/* ---- what a job is in the table -------------------------------------------*/

#define STORE_FROM_START (-1)

/* A row of table job. `view` is what clients see; the rest is ours. */
struct store_job {
    struct view_job view;
    const char *spec;
    const char *idempotency_key; /* "" = none */
    const char *origin;
    const char *intent;        /* "", pause, cancel, rollback: under way */
    int64_t resume_checkpoint; /* rollback target for the next attempt; 0 =
                                    newest good one, or STORE_FROM_START */
    const char *changes;       /* JSON list of spec fragments, in order */
    const char *skip_windows;  /* JSON list: data position, how many, ... */
    double start_scale;    /* loss scale for the next attempt; NaN: as it was */
    int64_t lost_attempts; /* workers that died in a row without progress */
    /* Of the latest attempt. */
    int64_t pid, start_ticks;
    const char *boot_id;
    int64_t events_offset, events_seq; /* stored so far */
};

/* ---- start: synchronous, before the loop runs -----------------------------*/

/* Calls fn for each job that is not final, by id. */
typedef void store_job_fn(void *ctx, const struct store_job *job);
int store_load_jobs(struct store *store, store_job_fn *fn, void *ctx,
                    struct err *err);

/* How many final jobs there are, by state, of those that have any. */
typedef void store_count_fn(void *ctx, const char *state, int64_t n);
int store_count_final(struct store *store, store_count_fn *fn, void *ctx,
                      struct err *err);

/* ---- writes ---------------------------------------------------------------*/

/* rc 0 or negative; id: of the new row where there is one. */
typedef void store_done_fn(void *ctx, int rc, int64_t id,
                           const struct err *err);

/* A new job in state queued; urgent. done's id is the job's. With an
 * idempotency key that this uid used before, the old job's id comes back
 * (rc ERR_EXISTS) and nothing is stored. */
void store_insert_job(struct store *store, const struct store_job *job,
                      store_done_fn *done, void *ctx);
struct store_rollback {
    int64_t job, attempt; /* attempt: that is left */
    int64_t uid;          /* who asked; -1: a guard */
    int64_t checkpoint;   /* 0: the start */
    int64_t from_iteration;
    const char *cause;      /* "by a person", or the guard's sentence */
    const char *change;     /* spec fragment, or "" */
    const char *difference; /* the same as a sentence */
    bool policy_changed;
};
/* Rewrites the row (all but spec, key, origin, submit time) and appends one
 * row to table event saying so, and the rollback that it is part of (NULL:
 * none): all or nothing; urgent. `kind` and `text` are the event's. */
void store_update_job(struct store *store, const struct store_job *job,
                      const struct store_rollback *rollback, int64_t actor_uid,
                      const char *kind, const char *text, store_done_fn *done,
                      void *ctx);

struct store_attempt {
    int64_t job, attempt, pid, start_ticks;
    const char *boot_id, *device;
    const char *cause;  /* "": a start or a mere continuation */
    const char *change; /* spec fragment that came with it, or "" */
};
void store_begin_attempt(struct store *store, const struct store_attempt *a,
                         store_done_fn *done, void *ctx);
void store_end_attempt(struct store *store, int64_t job, int64_t attempt,
                       const char *state, const char *obituary,
                       store_done_fn *done, void *ctx);

/* Stores a run of whole lines of events.jsonl (each ends in '\n') that begins
 * at `offset` of the file. Lines at or below the stored seq are passed over,
 * so a repeat stores nothing twice. EVENT_STARTED marks the rows of earlier
 * attempts beyond its iteration as not live, and EVENT_CHECKPOINT makes a row
 * of table checkpoint. A line that does not parse is recorded as a warning
 * event. done's id is the new offset. urgent: commit now. */
void store_ingest(struct store *store, int64_t job, int64_t attempt,
                  int64_t offset, const char *lines, size_t len, bool urgent,
                  store_done_fn *done, void *ctx);

/* A committed directory that no event told of. */
void store_adopt_checkpoint(struct store *store,
                            const struct view_checkpoint *c,
                            store_done_fn *done, void *ctx);
/* state: good, bad, pruned. */
void store_mark_checkpoint(struct store *store, int64_t checkpoint,
                           const char *state, store_done_fn *done, void *ctx);

/* ---- reads ----------------------------------------------------------------*/

/* items: n structs of the view that `what` replies with, borrowed during the
 * call; more: cut at the page limit (1000 rows unless thinned). */
typedef void store_rows_fn(void *ctx, int rc, const void *items, int n,
                           bool more, const struct err *err);

/* what: MESSAGE_ID_metrics, scale, skips, incidents, evaluations, checkpoints,
 * attempts, guards or rollbacks. query->job is ignored; thinning keeps each group's extremes and
 * every skip's count. Sees everything that was queued before it. */
void store_query(struct store *store, enum message_id what, int64_t job,
                 const struct view_query *query, store_rows_fn *done,
                 void *ctx);
/* Jobs by id, all or not final only, of one uid or of all (-1). */
void store_list_jobs(struct store *store, int64_t uid,
                     const struct view_list *list, store_rows_fn *done,
                     void *ctx);
/* One job, final or not: items is one struct store_job; n 0 = no such. */
void store_find_job(struct store *store, int64_t id, store_rows_fn *done,
                    void *ctx);
/* Latest job of uid, by name when name is not NULL; items: store_job. */
void store_find_latest(struct store *store, int64_t uid, const char *name,
                       store_rows_fn *done, void *ctx);

/* One incident by its number: items is one struct view_incident; n 0 = none. */
void store_find_incident(struct store *store, int64_t id, store_rows_fn *done,
                         void *ctx);
/* Everything that is not as it should be: items are struct view_finding. Runs
 * on the reader's connection; rows that are being written do not count. */
void store_fsck(struct store *store, store_rows_fn *done, void *ctx);

/* Events in order: items are struct view_event. uid: of that one's jobs and
 * deeds only; -1: of all. */
void store_query_events(struct store *store, int64_t uid,
                        const struct view_events_query *query,
                        store_rows_fn *done, void *ctx);
/* Number of the last event that is committed. Does not wait. */
int64_t store_last_event(const struct store *store);

/* ---- tokens ---------------------------------------------------------------*/

#define STORE_TOKEN_HASH 65 /* 64 hexadecimal digits */
struct store_token {
    int64_t id, uid, created_us, expires_us, revoked_us, last_used_us;
    const char *user, *name;
    const char *hash; /* SHA-256 of the secret, which is nowhere */
    unsigned scopes;
    bool admin; /* an administrator made it */
};
/* At the start, as store_load_jobs(). */
typedef void store_token_fn(void *ctx, const struct store_token *token);
int store_load_tokens(struct store *store, store_token_fn *fn, void *ctx,
                      struct err *err);
/* A new row and an event that says so; done's id is the token's. */
void store_insert_token(struct store *store, const struct store_token *token,
                        store_done_fn *done, void *ctx);
/* Also with an event, by whoever did it. */
void store_revoke_token(struct store *store, int64_t id, int64_t revoked_us,
                        int64_t actor_uid, store_done_fn *done, void *ctx);
void store_use_token(struct store *store, int64_t id, int64_t last_used_us);

/* Calls that have not been answered yet. */
int store_backlog(const struct store *store);

/* A round trip through the writer's thread: for the watchdog. */
void store_ping(struct store *store, store_done_fn *done, void *ctx);

#endif
