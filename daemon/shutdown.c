/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/shutdown.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#include "daemon/flow.h"
#include "daemon/ledger.h"
#include "daemon/log.h"

#define CHECK_MS   20
#define EXTEND_MS  2000
#define TROUBLE_MS 3000
#define SLACK_MS   20000 /* beyond the graces: sweeping, storing */

struct shutdown {
    struct daemon *d;
    shutdown_fn *done;
    uv_signal_t signals[3];
    uv_timer_t check;
    int n_asked, n_handles;
    int64_t deadline_ms, extended_ms;
    bool told;
};

static int64_t
now_ms(const struct shutdown *s)
{
    return (int64_t)uv_now(s->d->loop);
}

static void
finish(struct shutdown *s)
{
    if (s->told)
        return;
    s->told = true;
    uv_timer_stop(&s->check);
    s->done(s->d);
}

static void
on_check(uv_timer_t *timer)
{
    struct shutdown *s = timer->data;
    struct daemon *d = s->d;
    int workers = supervisor_count(d->supervisor);

    if (workers == 0 && d->background == 0 && ledger_pending(d->ledger) == 0) {
        finish(s);
        return;
    }
    /* The dead can wait for the next start, if the database cannot be written
     * to now. */
    if (supervisor_count_alive(d->supervisor) == 0 &&
        ledger_trouble(d->ledger)[0] != '\0') {
        if (s->deadline_ms > now_ms(s) + TROUBLE_MS)
            s->deadline_ms = now_ms(s) + TROUBLE_MS;
    }
    if (now_ms(s) >= s->deadline_ms) {
        log_errx("going down with %d workers and %d writes under way; the next "
                 "start settles them",
                 workers, ledger_pending(d->ledger));
        flow_hurry(d, true);
        finish(s);
        return;
    }
    if (now_ms(s) - s->extended_ms >= EXTEND_MS) {
        s->extended_ms = now_ms(s);
        notify_send(&d->notify,
                    "EXTEND_TIMEOUT_USEC=10000000\nSTATUS=Stopping %d jobs",
                    workers);
    }
}

static void
begin(struct shutdown *s)
{
    struct daemon *d = s->d;

    s->deadline_ms = now_ms(s) + d->conf.daemon_shutdown_grace +
                     d->conf.jobs_kill_grace + SLACK_MS;
    notify_send(&d->notify, "STOPPING=1\nSTATUS=Stopping %d jobs",
                supervisor_count(d->supervisor));
    flow_drain(d);
    uv_timer_start(&s->check, on_check, 1, CHECK_MS);
}

static void
on_signal(uv_signal_t *handle, int number)
{
    struct shutdown *s = handle->data;

    if (number == SIGHUP) {
        log_info("SIGHUP: the configuration is read at the start only");
        return;
    }
    s->n_asked++;
    log_info("SIG%s: %s", number == SIGTERM ? "TERM" : "INT",
             s->n_asked == 1   ? "going down"
             : s->n_asked == 2 ? "in a hurry: no more checkpoints"
                               : "workers are killed");
    if (s->n_asked == 1)
        begin(s);
    else
        flow_hurry(s->d, s->n_asked > 2);
}

struct shutdown *
shutdown_create(struct daemon *d, shutdown_fn *done)
{
    static const int numbers[3] = {SIGTERM, SIGINT, SIGHUP};
    struct shutdown *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->d = d;
    s->done = done;
    uv_timer_init(d->loop, &s->check);
    s->check.data = s;
    s->n_handles = 4;
    for (int i = 0; i < 3; i++) {
        uv_signal_init(d->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_signal, numbers[i]);
    }
    return s;
}

static void
on_closed(uv_handle_t *handle)
{
    struct shutdown *s = handle->data;

    if (--s->n_handles == 0)
        free(s);
}

void
shutdown_destroy(struct shutdown **sp)
{
    struct shutdown *s = *sp;

    if (s == NULL)
        return;
    *sp = NULL;
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&s->signals[i], on_closed);
    uv_close((uv_handle_t *)&s->check, on_closed);
}
