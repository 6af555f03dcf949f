/* SPDX-License-Identifier: Apache-2.0 */
/* Watching: wait, follow. */
#include "daemon/command.h"

#include <string.h>

void
command_wait(struct daemon *d, struct request *request,
             const struct command_target *target)
{
    const char *until = request->args.wait.until;
    struct waiters_ask ask = {
        .kind = WAITERS_UNTIL, .job = target->id, .until = JOB_STATE_COUNT};

    if (until[0] != '\0' && strcmp(until, "final") != 0) {
        ask.until = job_state_parse(until);
        if (ask.until == JOB_STATE_COUNT) {
            command_refuse(request, ERR_USAGE,
                           "\"%.60s\" is neither final nor a state", until);
            return;
        }
    }
    if (target->live == NULL || target->live->stored == ask.until ||
        job_state_is_final(target->live->stored))
        request_reply(request, &target->view, 1, false);
    else
        waiters_add(&d->waiters, &ask, request);
}

void
command_follow(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    if (target->live == NULL || job_state_is_final(target->live->stored))
        request_reply(request, &target->view, 1, false);
    else
        subscribe_add(&d->subscribe, request, target->live);
}
