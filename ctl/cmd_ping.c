/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/session.h"

static int
run_ping(struct session *s, struct err *err)
{
    struct view_none args;
    struct view_pong pong;
    char up[FORMAT_MAX];
    int rc = session_link(s, err);
    int64_t asked_ms = link_now_ms();

    view_init(VIEW_ID_none, &args);
    if (rc == 0)
        rc = session_one(s, MESSAGE_ID_ping, &args, &pong, err);
    if (rc < 0)
        return rc;
    if (!output_is_text(&s->out))
        return session_put_result(s, VIEW_ID_pong, &pong, err);
    format_duration((double)pong.uptime_s, up, sizeof(up));
    session_tell(s,
                 "traind %s answers within %" PRId64 " ms: pid %" PRId64
                 ", up %s, %" PRId64 " running, %" PRId64 " queued",
                 pong.version, link_now_ms() - asked_ms + 1, pong.pid, up,
                 pong.running, pong.queued);
    session_say(s, "socket %s", link_path(s->link));
    if (pong.http[0] != '\0')
        session_say(s, "dashboard %s", pong.http);
    return 0;
}

const struct cmd cmd_ping = {
    .name = "ping",
    .synopsis = "",
    .doc = "ask whether the daemon is there",
    .run = run_ping,
};
