/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/retry.h"

#include <inttypes.h>

bool
retry_is_worth(int code)
{
    return code == ERR_UNREACHABLE || code == ERR_AGAIN || code == ERR_IO;
}

void
retry_forget(struct retry *retry)
{
    *retry = (struct retry){0};
}

static void
tell(struct retry *retry, struct session *s, const struct err *err)
{
    if (!retry->told)
        session_say(s, "%s; trying again", err->msg);
    retry->told = true;
}

int
retry_link(struct retry *retry, struct session *s, int64_t deadline_ms,
           struct err *err)
{
    int rc;

    tell(retry, s, err);
    do {
        link_close(&s->link);
        int64_t pause_ms =
            retry->pause_ms > 0 ? retry->pause_ms : RETRY_FIRST_MS;
        if (deadline_ms >= 0) {
            int64_t left_ms = deadline_ms - link_now_ms();
            if (left_ms <= 0)
                return ERR_TIMEOUT;
            pause_ms = pause_ms < left_ms ? pause_ms : left_ms;
        }
        retry->pause_ms =
            pause_ms * 2 < RETRY_MAX_MS ? pause_ms * 2 : RETRY_MAX_MS;
        rc = session_sleep(s, pause_ms, err);
        if (rc == 0)
            rc = session_link(s, err);
    } while (rc < 0 && retry_is_worth(rc));
    return rc;
}

int
retry_await_job(struct session *s, int64_t job, int64_t deadline_ms,
                struct call_held_job *out, struct err *err)
{
    struct retry retry = {0};
    struct view_wait args;
    struct view_job view;
    char ref[24];

    snprintf(ref, sizeof(ref), "%" PRId64, job);
    view_init(VIEW_ID_wait, &args);
    args.job = ref;
    for (;;) {
        int rc = session_link(s, err);
        if (rc == 0)
            rc = call_one_by(s->link, MESSAGE_ID_wait, &args, deadline_ms,
                             &view, err);
        if (rc == 0 && view.exit_code >= 0)
            return call_hold_job(out, &view, err);
        if (rc == 0) /* it answered because it is going away */
            err_set(err, ERR_UNREACHABLE, "the daemon stopped waiting");
        else if (!retry_is_worth(rc))
            return rc;
        rc = retry_link(&retry, s, deadline_ms, err);
        if (rc == ERR_TIMEOUT)
            return err_set(err, ERR_TIMEOUT, "timed out");
        if (rc < 0)
            return rc;
    }
}
