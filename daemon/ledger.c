/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/log.h"

#define LEDGER_MAGIC 0x4c454447u
#define RETRY_MS     1000

struct entry {
    struct entry *next; /* among those that wait for another try */
    struct ledger *ledger;
    struct job *job;
    bool transition;
    enum job_state to;
    int64_t number;
    int64_t actor_uid;
    char *kind, *text;           /* owned */
    struct store_rollback *back; /* owned, with its strings; NULL: none */
    job_after_fn *after;
    void *ctx;
};

struct ledger {
    unsigned magic;
    struct store *store; /* borrowed */
    struct ledger_hooks hooks;
    uv_timer_t retry;
    struct entry *refused, **refused_tail;
    int pending, in_store;
    int64_t next_number;
    char trouble[ERR_SENTENCE_MAX];
    bool dying;
};

static void
entry_destroy(struct entry *e)
{
    free(e->kind);
    free(e->text);
    if (e->back != NULL) {
        free((void *)(uintptr_t)e->back->cause);
        free((void *)(uintptr_t)e->back->change);
        free((void *)(uintptr_t)e->back->difference);
    }
    free(e->back);
    free(e);
}

static struct store_rollback *
copy_rollback(const struct store_rollback *from)
{
    struct store_rollback *to = calloc(1, sizeof(*to));

    assert(to != NULL);
    *to = *from;
    to->cause = strdup(from->cause);
    to->change = strdup(from->change);
    to->difference = strdup(from->difference);
    assert(to->cause != NULL && to->change != NULL && to->difference != NULL);
    return to;
}

static void
release_ledger(struct ledger *ledger)
{
    ledger->magic = 0;
    free(ledger);
}

static void on_written(void *ctx, int rc, int64_t id, const struct err *err);

static void
hand_over(struct entry *e)
{
    e->ledger->in_store++;
    store_update_job(e->ledger->store, &e->job->row, e->back, e->actor_uid,
                     e->kind, e->text, on_written, e);
}

static void
on_retry(uv_timer_t *timer)
{
    struct ledger *ledger = timer->data;
    struct entry *e = ledger->refused;

    ledger->refused = NULL;
    ledger->refused_tail = &ledger->refused;
    while (e != NULL) {
        struct entry *next = e->next;

        hand_over(e);
        e = next;
    }
}

static void
keep_for_retry(struct entry *e, const struct err *err)
{
    struct ledger *ledger = e->ledger;

    if (strcmp(ledger->trouble, err->msg) != 0)
        log_errx("job %" PRId64 ": not written: %s; trying again",
                 e->job->row.view.id, err->msg);
    memcpy(ledger->trouble, err->msg, sizeof(ledger->trouble));
    e->next = NULL;
    *ledger->refused_tail = e;
    ledger->refused_tail = &e->next;
    if (!uv_is_active((uv_handle_t *)&ledger->retry))
        uv_timer_start(&ledger->retry, on_retry, RETRY_MS, 0);
}

/* The committed state moves on; an older write that was tried again later
 * carries the newest row and must not turn it back. */
static void
commit_transition(struct entry *e)
{
    struct job *job = e->job;
    enum job_state from = job->stored;

    if (!e->transition || e->number < job->write_no)
        return;
    job->write_no = e->number;
    job->stored = e->to;
    e->ledger->hooks.changed(e->ledger->hooks.ctx, job, from);
}

static void
on_written(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct entry *e = ctx;
    struct ledger *ledger = e->ledger;
    struct job *job = e->job;

    (void)id;
    assert(ledger->magic == LEDGER_MAGIC);
    ledger->in_store--;
    /* ERR_STATE: a later write made it final already; this one is history. */
    if (rc != 0 && rc != ERR_STATE) {
        keep_for_retry(e, err);
        ledger->hooks.refused(ledger->hooks.ctx, job);
        return;
    }
    if (ledger->trouble[0] != '\0')
        log_info("job %" PRId64 ": written after all", job->row.view.id);
    ledger->trouble[0] = '\0';
    ledger->pending--;
    job->writes--;
    commit_transition(e);
    ledger->hooks.written(ledger->hooks.ctx, job);
    if (e->after != NULL)
        e->after(e->ctx, job);
    entry_destroy(e);
    if (job->writes == 0 && job_state_is_final(job->stored))
        ledger->hooks.gone(ledger->hooks.ctx, job);
}

void
ledger_write(struct ledger *ledger, struct job *job, bool transition,
             const char *kind, const struct job_change *change)
{
    struct entry *e = calloc(1, sizeof(*e));

    assert(ledger->magic == LEDGER_MAGIC && !ledger->dying);
    /* A decision that cannot be written down must not be acted upon. */
    assert(e != NULL);
    e->ledger = ledger;
    e->job = job;
    e->transition = transition;
    e->to = job->state;
    e->number = ++ledger->next_number;
    e->actor_uid = change->actor_uid;
    e->kind = strdup(kind);
    e->text = strdup(change->reason != NULL ? change->reason : "");
    assert(e->kind != NULL && e->text != NULL);
    if (change->rollback != NULL)
        e->back = copy_rollback(change->rollback);
    e->after = change->after;
    e->ctx = change->ctx;
    ledger->pending++;
    job->writes++;
    if (ledger->refused == NULL) {
        hand_over(e);
        return;
    }
    /* Behind those that wait already: order is part of the record. */
    *ledger->refused_tail = e;
    ledger->refused_tail = &e->next;
}

int
ledger_pending(const struct ledger *ledger)
{
    return ledger->pending;
}

const char *
ledger_trouble(const struct ledger *ledger)
{
    return ledger->trouble;
}

struct ledger *
ledger_create(uv_loop_t *loop, struct store *store,
              const struct ledger_hooks *hooks)
{
    struct ledger *ledger = calloc(1, sizeof(*ledger));

    if (ledger == NULL)
        return NULL;
    ledger->magic = LEDGER_MAGIC;
    ledger->store = store;
    ledger->hooks = *hooks;
    ledger->refused_tail = &ledger->refused;
    uv_timer_init(loop, &ledger->retry);
    ledger->retry.data = ledger;
    return ledger;
}

static void
on_closed(uv_handle_t *handle)
{
    release_ledger(handle->data);
}

void
ledger_destroy(struct ledger **ledgerp)
{
    struct ledger *ledger = *ledgerp;

    if (ledger == NULL)
        return;
    assert(ledger->magic == LEDGER_MAGIC);
    *ledgerp = NULL;
    ledger->dying = true;
    while (ledger->refused != NULL) {
        struct entry *e = ledger->refused;

        ledger->refused = e->next;
        entry_destroy(e);
    }
    uv_close((uv_handle_t *)&ledger->retry, on_closed);
}
