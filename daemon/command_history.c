/* SPDX-License-Identifier: Apache-2.0 */
/* History: what the store keeps of a job, page by page. */
#include "daemon/command.h"

static void
on_rows(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    struct request *request = ctx;

    if (rc != 0)
        request_refuse(request, err, NULL);
    else
        request_reply(request, items, n, more);
}

static void
answer(struct daemon *d, struct request *request,
       const struct command_target *target)
{
    store_query(d->store, request->message, target->id, &request->args.query,
                on_rows, request);
}

#define HISTORY(name)                                                          \
    void command_##name(struct daemon *d, struct request *request,             \
                        const struct command_target *target)                   \
    {                                                                          \
        answer(d, request, target);                                            \
    }

HISTORY(metrics)
HISTORY(scale)
HISTORY(skips)
HISTORY(incidents)
HISTORY(evaluations)
HISTORY(checkpoints)

void
command_attempts(struct daemon *d, struct request *request,
                 const struct command_target *target)
{
    struct view_query all;

    view_init(VIEW_ID_query, &all);
    store_query(d->store, MESSAGE_ID_attempts, target->id, &all, on_rows,
                request);
}
