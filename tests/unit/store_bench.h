/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_bench: a store on a real file, and scripted events to feed it.
 *
 * For the store's tests only: owns a directory, a loop and what the last
 * callback said. Every helper fails the test itself when the store refuses.
 */
#ifndef TESTS_UNIT_STORE_BENCH_H
#define TESTS_UNIT_STORE_BENCH_H

#include "daemon/store.h"

struct store_bench {
    uv_loop_t loop;
    char dir[64], path[128];
    struct store *store;
    /* of the last callback */
    int calls, rc;
    int64_t id;
    char msg[ERR_SENTENCE_MAX];
    /* copies of rows */
    struct view_metric metric[64];
    struct view_scale scale[64];
    struct view_checkpoint checkpoint[64];
    char name[64][64], label[64][64];
    struct store_job job;
    int n;
    bool more;
    void *seen;           /* a test's own */
    int64_t keep_metrics; /* of the next opening */
};

struct store_bench_script {
    char text[65536];
    size_t len;
    int64_t seq, iteration, updates, skips;
};

/* The store on b->path; close it before opening it again. */
void store_bench_open(struct store_bench *b);
void store_bench_close(struct store_bench *b);

/* For cmocka: a fresh bench in *state over a directory of its own. */
int store_bench_setup(void **state);
int store_bench_teardown(void **state);

/* A store_done_fn that keeps what it was told; ctx is the bench. */
void store_bench_on_done(void *ctx, int rc, int64_t id, const struct err *err);

/* Turns the loop until one more callback came. */
void store_bench_settle(struct store_bench *b);

/* A queued job of uid 1000; insert it for its number. */
struct store_job store_bench_make_job(const char *name);
int64_t store_bench_insert_job(struct store_bench *b, const char *name);
void store_bench_begin_attempt(struct store_bench *b, int64_t job,
                               int64_t attempt);

/* Events as a worker writes them, each a line at the end of the script. */
void store_bench_put_event(struct store_bench_script *s, struct event *e);
void store_bench_put_started(struct store_bench_script *s, const char *from,
                             const char *policy);
void store_bench_put_step(struct store_bench_script *s, double loss,
                          bool skipped);
void store_bench_put_measured(struct store_bench_script *s, const char *name,
                              double metric, bool best);
void store_bench_put_checkpoint(struct store_bench_script *s, const char *name,
                                bool best);

/* Stores the whole script as bytes 0 .. of an attempt's events. */
void store_bench_ingest(struct store_bench *b, int64_t job, int64_t attempt,
                        const struct store_bench_script *s);

#endif
