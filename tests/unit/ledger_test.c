/* SPDX-License-Identifier: Apache-2.0 */
/* Decided, stored, told: with a store that refuses when it is told to. */
#include "daemon/ledger.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The fake store: keeps what it was given, answers when told. */
struct written {
    char kind[32], state[32], back[32];
    store_done_fn *done;
    void *ctx;
};
static struct written log_of[32];
static int n_written, n_answered;

void
store_update_job(struct store *store, const struct store_job *job,
                 const struct store_rollback *rollback, int64_t actor_uid,
                 const char *kind, const char *text, store_done_fn *done,
                 void *ctx)
{
    struct written *w = &log_of[n_written++];

    (void)store;
    (void)actor_uid;
    (void)text;
    snprintf(w->back, sizeof(w->back), "%s",
             rollback != NULL ? rollback->cause : "");
    snprintf(w->kind, sizeof(w->kind), "%s", kind);
    snprintf(w->state, sizeof(w->state), "%s", job->view.state);
    w->done = done;
    w->ctx = ctx;
}

static void
answer(int code)
{
    struct written *w = &log_of[n_answered++];
    struct err err;

    err_clear(&err);
    if (code != 0)
        err_set(&err, code, "database or disk is full");
    w->done(w->ctx, code, 1, &err);
}

/* ---- the stage ------------------------------------------------------------*/

static struct {
    uv_loop_t loop;
    struct ledger *ledger;
    struct job *job;
    int n_changed, n_refused, n_gone, n_after;
    enum job_state from;
} t;

static void
on_changed(void *ctx, struct job *job, enum job_state from)
{
    (void)ctx;
    (void)job;
    t.n_changed++;
    t.from = from;
}

static void
on_written(void *ctx, struct job *job)
{
    (void)ctx;
    (void)job;
}

static void
on_refused(void *ctx, struct job *job)
{
    (void)ctx;
    (void)job;
    t.n_refused++;
}

static void
on_gone(void *ctx, struct job *job)
{
    (void)ctx;
    (void)job;
    t.n_gone++;
}

static void
after(void *ctx, struct job *job)
{
    (void)ctx;
    assert_ptr_equal(job, t.job);
    t.n_after++;
}

static int
setup(void **ctx)
{
    const struct ledger_hooks hooks = {on_changed, on_written, on_refused,
                                       on_gone, NULL};
    struct store_job row = {0};

    (void)ctx;
    memset(&t, 0, sizeof(t));
    n_written = n_answered = 0;
    uv_loop_init(&t.loop);
    t.ledger = ledger_create(&t.loop, NULL, &hooks);
    view_init(VIEW_ID_job, &row.view);
    row.view.id = 17;
    row.view.state = "queued";
    row.spec = row.intent = "";
    t.job = job_create(&row, t.ledger);
    return 0;
}

static int
teardown(void **ctx)
{
    (void)ctx;
    ledger_destroy(&t.ledger);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    job_destroy(&t.job);
    return uv_loop_close(&t.loop);
}

static void
go(enum job_state to, int error)
{
    const struct job_change change = {
        .reason = "r", .error = error, .actor_uid = -1, .after = after};

    job_transition(t.job, to, &change);
}

static void
test_ledger_acts_after_the_commit(void **ctx)
{
    (void)ctx;
    go(JOB_STARTING, 0);
    assert_int_equal(t.job->state, JOB_STARTING);
    assert_int_equal(t.job->stored, JOB_QUEUED);
    assert_int_equal(t.n_after, 0);
    assert_int_equal(ledger_pending(t.ledger), 1);
    answer(0);
    assert_int_equal(t.job->stored, JOB_STARTING);
    assert_int_equal(t.n_after, 1);
    assert_int_equal(t.n_changed, 1);
    assert_int_equal(t.from, JOB_QUEUED);
    assert_int_equal(ledger_pending(t.ledger), 0);
}

static void
test_ledger_full_disk_is_tried_again_in_order(void **ctx)
{
    (void)ctx;
    go(JOB_STARTING, 0);
    answer(ERR_NOSPACE);
    assert_int_equal(t.job->stored, JOB_QUEUED);
    assert_int_equal(t.n_refused, 1);
    assert_string_equal(ledger_trouble(t.ledger), "database or disk is full");
    go(JOB_STOPPING, 0); /* waits behind the first */
    assert_int_equal(n_written, 1);
    assert_int_equal(ledger_pending(t.ledger), 2);
    while (n_written < 3)
        uv_run(&t.loop, UV_RUN_ONCE);
    assert_string_equal(log_of[1].kind, "starting");
    assert_string_equal(log_of[2].kind, "stopping");
    answer(0);
    answer(0);
    assert_int_equal(t.job->stored, JOB_STOPPING);
    assert_int_equal(t.n_after, 2);
    assert_string_equal(ledger_trouble(t.ledger), "");
}

/* A rollback is part of the write that says where the job stands now: kept
 * with it while the disk is full, and of no other. */
static void
test_ledger_rollback_is_part_of_its_write(void **ctx)
{
    char cause[] = "by a person";
    const struct store_rollback back = {
        .job = 1, .cause = cause, .change = "", .difference = ""};
    const struct job_change change = {
        .reason = "r", .actor_uid = -1, .rollback = &back};

    (void)ctx;
    go(JOB_STARTING, 0);
    answer(0);
    job_transition(t.job, JOB_QUEUED, &change);
    assert_string_equal(log_of[1].back, "by a person");
    memset(cause, 'x', strlen(cause)); /* whoever asked for it is gone */
    answer(ERR_NOSPACE);
    go(JOB_STARTING, 0);
    while (n_written < 4)
        uv_run(&t.loop, UV_RUN_ONCE);
    assert_string_equal(log_of[2].back, "by a person");
    assert_string_equal(log_of[3].back, "");
    answer(0);
    answer(0);
    assert_int_equal(ledger_pending(t.ledger), 0);
}

static void
test_ledger_final_job_goes_once(void **ctx)
{
    struct view_job view;

    (void)ctx;
    go(JOB_CANCELLED, 0);
    job_view(t.job, &view);
    assert_string_equal(view.state, "queued"); /* nobody is told yet */
    answer(0);
    assert_int_equal(t.n_gone, 1);
    job_view(t.job, &view);
    assert_string_equal(view.state, "cancelled");
    assert_int_equal(view.exit_code, 3);
    assert_string_equal(view.error, "cancelled");
    assert_true(view.end_us > 0);
}

static void
test_ledger_exit_codes(void **ctx)
{
    struct view_job view;

    (void)ctx;
    go(JOB_FAILED, ERR_NUMERICS);
    answer(0);
    job_view(t.job, &view);
    assert_int_equal(view.exit_code, 9);
    assert_string_equal(view.error, "numerics");
}

static void
test_ledger_failed_without_a_code(void **ctx)
{
    struct view_job view;

    (void)ctx;
    go(JOB_FAILED, 0);
    answer(0);
    job_view(t.job, &view);
    assert_int_equal(view.exit_code, 1);
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_ledger_acts_after_the_commit),
        ON_STAGE(test_ledger_full_disk_is_tried_again_in_order),
        ON_STAGE(test_ledger_rollback_is_part_of_its_write),
        ON_STAGE(test_ledger_final_job_goes_once),
        ON_STAGE(test_ledger_exit_codes),
        ON_STAGE(test_ledger_failed_without_a_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
