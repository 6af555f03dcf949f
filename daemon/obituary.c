/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/obituary.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BACK_OFF_MS     200
#define BACK_OFF_MAX_MS 5000

/* ---- the sentence ---------------------------------------------------------*/

static void
write_signal(const struct obituary_facts *f, char *out, size_t size)
{
    const char *name = sigabbrev_np(f->signal);
    char word[16];

    if (name == NULL)
        snprintf(word, sizeof(word), "%d", f->signal);
    else
        snprintf(word, sizeof(word), "SIG%s", name);
    if (f->why_killed[0] != '\0')
        snprintf(out, size, "worker %" PRId64 " was ended by %s: %s", f->pid,
                 word, f->why_killed);
    else if (f->killed_by_us == f->signal)
        snprintf(out, size,
                 "worker %" PRId64 " did not obey and was ended by %s", f->pid,
                 word);
    else if (f->signal == SIGKILL)
        snprintf(out, size,
                 "worker %" PRId64 " was killed by SIGKILL, not by traind: "
                 "out of memory, or a person",
                 f->pid);
    else
        snprintf(out, size, "worker %" PRId64 " died of %s", f->pid, word);
}

static void
write_finished(const struct obituary_facts *f, char *out, size_t size)
{
    switch (f->outcome) {
    case EVENT_OUTCOME_COMPLETED:
        snprintf(out, size, "worker %" PRId64 " trained to the end", f->pid);
        break;
    case EVENT_OUTCOME_STOPPED:
        snprintf(out, size, "worker %" PRId64 " stopped as it was told",
                 f->pid);
        break;
    case EVENT_OUTCOME_PAUSED:
    case EVENT_OUTCOME_GO_BACK:
        snprintf(out, size, "worker %" PRId64 " was stopped by a guard: %s",
                 f->pid, f->text);
        break;
    case EVENT_OUTCOME_FAILED:
        snprintf(out, size, "worker %" PRId64 " ended with an error: %s",
                 f->pid, f->text[0] != '\0' ? f->text : err_line(f->error));
        break;
    }
}

void
obituary_write(const struct obituary_facts *f, char *out, size_t size)
{
    if (f->start_error[0] != '\0')
        snprintf(out, size, "worker could not be started: %s", f->start_error);
    else if (f->finished)
        write_finished(f, out, size);
    else if (f->pid == 0)
        snprintf(out, size, "the worker had not been started yet");
    else if (!f->status_known)
        snprintf(out, size,
                 "worker %" PRId64 " was lost with an earlier daemon; how it "
                 "ended is unknown",
                 f->pid);
    else if (f->signal != 0)
        write_signal(f, out, size);
    else
        snprintf(out, size,
                 "worker %" PRId64 " exited with status %d and reported no "
                 "outcome",
                 f->pid, f->exit_code);
}

/* ---- the word -------------------------------------------------------------*/

const char *
obituary_category_name(enum obituary_category category)
{
    switch (category) {
    case OBITUARY_COMPLETED: return "completed";
    case OBITUARY_STOPPED: return "stopped";
    case OBITUARY_PAUSED: return "paused";
    case OBITUARY_GO_BACK: return "go_back";
    case OBITUARY_FAILED: return "failed";
    case OBITUARY_DIED: return "died";
    case OBITUARY_KILLED: return "killed";
    case OBITUARY_LOST: return "lost";
    case OBITUARY_UNSTARTED: return "unstarted";
    case OBITUARY_CATEGORY_COUNT: break;
    }
    return "unknown";
}

enum obituary_category
obituary_categorize(const struct obituary_facts *f)
{
    static const enum obituary_category told[] = {
        [EVENT_OUTCOME_COMPLETED] = OBITUARY_COMPLETED,
        [EVENT_OUTCOME_STOPPED] = OBITUARY_STOPPED,
        [EVENT_OUTCOME_FAILED] = OBITUARY_FAILED,
        [EVENT_OUTCOME_PAUSED] = OBITUARY_PAUSED,
        [EVENT_OUTCOME_GO_BACK] = OBITUARY_GO_BACK};

    if (f->pid == 0 || f->start_error[0] != '\0')
        return OBITUARY_UNSTARTED;
    if (f->finished)
        return told[f->outcome];
    if (!f->status_known)
        return OBITUARY_LOST;
    return f->killed_by_us != 0 ? OBITUARY_KILLED : OBITUARY_DIED;
}

/* ---- the verdict ----------------------------------------------------------*/

static void
set_reason(struct obituary_verdict *v, const char *head, const char *obituary)
{
    snprintf(v->reason, sizeof(v->reason), "%.90s%s%.415s", head,
             head[0] != '\0' && obituary[0] != '\0' ? ": " : "", obituary);
}

static void
judge_intent(const struct obituary_circumstances *c, const char *obituary,
             struct obituary_verdict *v)
{
    v->clear_intent = true;
    switch (c->intent) {
    case JOB_INTENT_CANCEL:
        v->state = JOB_CANCELLED;
        v->error = ERR_CANCELLED;
        set_reason(v, "cancelled", "");
        break;
    case JOB_INTENT_PAUSE:
        v->state = JOB_PAUSED;
        set_reason(v, "paused", obituary);
        break;
    case JOB_INTENT_ROLLBACK:
        v->state = JOB_QUEUED;
        set_reason(v, "goes back to a checkpoint", "");
        break;
    case JOB_INTENT_NONE:
    case JOB_INTENT_COUNT: break;
    }
}

static int64_t
back_off_ms(int64_t lost)
{
    int64_t ms = BACK_OFF_MS;

    while (--lost > 0 && ms < BACK_OFF_MAX_MS)
        ms *= 2;
    return ms < BACK_OFF_MAX_MS ? ms : BACK_OFF_MAX_MS;
}

/* Not the job's fault, nor the worker's: no room for its files, or it could
 * not write down how it ended. Such ends do not count, for a full disk must
 * not use up the whole queue. */
static bool
was_no_room(const struct obituary_facts *f)
{
    return f->start_code == ERR_NOSPACE ||
           (f->status_known && f->signal == 0 && f->pid != 0 &&
            f->exit_code == err_exit_code(ERR_NOSPACE));
}

/* Nobody asked for this end. */
static void
judge_loss(const struct obituary_facts *f,
           const struct obituary_circumstances *c, const char *obituary,
           struct obituary_verdict *v)
{
    bool unknown = !f->status_known && f->pid != 0;

    if (was_no_room(f) && c->requeue) {
        v->state = JOB_QUEUED;
        v->back_off_ms = BACK_OFF_MAX_MS;
        set_reason(v, "is tried again", obituary);
        return;
    }
    v->lost_attempts = c->progress ? 1 : c->lost_attempts + 1;
    if (!c->requeue) {
        v->state = JOB_INTERRUPTED;
        v->error = ERR_INTERRUPTED;
        set_reason(v, "not queued again (jobs.requeue_on_restart)", obituary);
    } else if (v->lost_attempts > c->max_lost_attempts) {
        char head[96];

        v->state = unknown ? JOB_INTERRUPTED : JOB_FAILED;
        v->error = unknown ? ERR_INTERRUPTED : ERR_FAILED;
        snprintf(head, sizeof(head),
                 "%" PRId64 " workers in a row without a new checkpoint",
                 v->lost_attempts);
        set_reason(v, v->lost_attempts > 1 ? head : "", obituary);
    } else {
        v->state = JOB_QUEUED;
        /* Lost with a daemon: that was not the worker's fault. */
        v->back_off_ms = unknown ? 0 : back_off_ms(v->lost_attempts);
        set_reason(v, "goes on from its last checkpoint", obituary);
    }
}

/* A guard gave up this line. A pause that a person wanted is made all the
 * same; a rollback of a person goes before a guard's. */
static void
judge_go_back(const struct obituary_facts *f,
              const struct obituary_circumstances *c,
              struct obituary_verdict *v)
{
    char head[96];

    v->clear_intent = true;
    if (c->guard_rollbacks >= c->max_guard_rollbacks) {
        v->state = JOB_FAILED;
        v->error = ERR_NUMERICS;
        snprintf(head, sizeof(head),
                 "%" PRId64 " rollbacks by guards, guard.max_rollbacks is "
                 "%" PRId64,
                 c->guard_rollbacks, c->max_guard_rollbacks);
        set_reason(v, head, f->text);
    } else if (c->no_way_back[0] != '\0') {
        v->state = JOB_FAILED;
        v->error = c->go_back_error;
        set_reason(v, "a guard asks for what cannot be done", c->no_way_back);
    } else {
        v->go_back = true;
        v->state = c->intent == JOB_INTENT_PAUSE ? JOB_PAUSED : JOB_QUEUED;
        set_reason(v, "goes back", f->text);
    }
}

static bool
wants_back(const struct obituary_facts *f,
           const struct obituary_circumstances *c)
{
    return f->finished && f->outcome == EVENT_OUTCOME_GO_BACK &&
           (c->intent == JOB_INTENT_NONE || c->intent == JOB_INTENT_PAUSE);
}

static void
judge_finished(const struct obituary_facts *f,
               const struct obituary_circumstances *c, const char *obituary,
               struct obituary_verdict *v)
{
    if (f->outcome == EVENT_OUTCOME_COMPLETED) {
        v->state = JOB_COMPLETED;
        v->clear_intent = true;
        set_reason(v, "", "");
    } else if (f->outcome == EVENT_OUTCOME_FAILED &&
               c->intent != JOB_INTENT_ROLLBACK) {
        /* The truth before the wish: it failed before it was stopped. */
        v->state = JOB_FAILED;
        v->error = f->error != 0 ? f->error : ERR_FAILED;
        v->clear_intent = true;
        set_reason(v, "", f->text[0] != '\0' ? f->text : err_line(v->error));
    } else if (wants_back(f, c)) {
        judge_go_back(f, c, v);
    } else if (f->outcome == EVENT_OUTCOME_PAUSED &&
               (c->intent == JOB_INTENT_NONE ||
                c->intent == JOB_INTENT_PAUSE)) {
        v->state = JOB_PAUSED;
        v->clear_intent = true;
        set_reason(v, "", f->text);
    } else if (c->intent != JOB_INTENT_NONE) {
        judge_intent(c, "", v);
    } else if (c->shutdown) {
        v->state = JOB_QUEUED;
        set_reason(v, "stopped when the daemon went down", "");
    } else {
        judge_loss(f, c, obituary, v);
    }
}

static const char *
name_attempt_state(const struct obituary_facts *f)
{
    if (f->finished)
        return event_outcome_name(f->outcome);
    return f->status_known || f->pid == 0 ? "died" : "lost";
}

void
obituary_judge(const struct obituary_facts *f,
               const struct obituary_circumstances *c,
               struct obituary_verdict *v)
{
    char obituary[ERR_SENTENCE_MAX];

    memset(v, 0, sizeof(*v));
    v->lost_attempts = c->progress ? 0 : c->lost_attempts;
    v->attempt_state = name_attempt_state(f);
    obituary_write(f, obituary, sizeof(obituary));
    if (f->finished) {
        judge_finished(f, c, obituary, v);
    } else if (c->intent != JOB_INTENT_NONE) {
        judge_intent(c, obituary, v);
    } else if (f->pid == 0 && f->start_error[0] == '\0') {
        v->state = JOB_QUEUED;
        set_reason(v, "stopped before it started", "");
    } else if (c->shutdown) {
        v->state = JOB_QUEUED;
        set_reason(v, "stopped when the daemon went down", obituary);
    } else {
        judge_loss(f, c, obituary, v);
    }
}
