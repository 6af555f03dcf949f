/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/reap.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/procfs.h"

struct sweep {
    pid_t leader, self;
    int64_t ended_ticks;
    char mark[PATH_MAX + 32];
    int found;
    reap_known_fn *known;
    void *ctx;
};

void
reap_adopt_orphans(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        log_warn("subreaper");
}

void
reap_signal(pid_t leader, int signal)
{
    if (leader <= 1)
        return;
    /* The group first: its leader may be the one that is gone. Before the
     * worker has made its session there is no such group. */
    if (kill(-leader, signal) != 0)
        kill(leader, signal);
}

static void
look_at(void *ctx, const struct procfs_stat *st)
{
    struct sweep *s = ctx;
    bool ours;

    if (st->pid == s->self || st->pid <= 1)
        return;
    if (st->state == 'Z') {
        /* The dead have no environment to know them by, but an unknown child
         * of ours can only be an orphan. */
        if (st->ppid == s->self && !s->known(s->ctx, st->pid))
            waitpid(st->pid, NULL, WNOHANG);
        return;
    }
    ours = s->leader > 1 && st->start_ticks <= s->ended_ticks &&
           (st->session == s->leader || st->pgrp == s->leader);
    if (!ours)
        ours = procfs_has_env(st->pid, s->mark);
    if (!ours)
        return;
    s->found++;
    kill(st->pid, SIGKILL);
}

int
reap_sweep(pid_t leader, int64_t ended_ticks, const char *attempt_dir,
           reap_known_fn *known, void *ctx)
{
    struct sweep s = {.leader = leader,
                      .self = getpid(),
                      .ended_ticks = ended_ticks,
                      .known = known,
                      .ctx = ctx};

    snprintf(s.mark, sizeof(s.mark), REAP_MARK "=%s", attempt_dir);
    procfs_each(look_at, &s);
    return s.found;
}
