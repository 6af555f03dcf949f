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
HISTORY(guards)
HISTORY(rollbacks)

void
command_attempts(struct daemon *d, struct request *request,
                 const struct command_target *target)
{
    struct view_query all;

    view_init(VIEW_ID_query, &all);
    store_query(d->store, MESSAGE_ID_attempts, target->id, &all, on_rows,
                request);
}

/* ---- one incident ---------------------------------------------------------*/

static void
on_incident(void *ctx, int rc, const void *items, int n, bool more,
            const struct err *err)
{
    struct request *request = ctx;

    if (rc == 0 && n == 0)
        command_refuse(request, ERR_NOTFOUND, "the incident is gone");
    else
        on_rows(ctx, rc, items, n, more, err);
}

void
command_incident(struct daemon *d, struct request *request,
                 const struct command_target *target)
{
    (void)target; /* whoever may see its job has been let in */
    store_find_incident(d->store, request->args.incident_ref.incident,
                        on_incident, request);
}

/* ---- what happened ------------------------------------------------------- */

void
command_events(struct daemon *d, struct request *request,
               const struct command_target *target)
{
    (void)target;
    store_query_events(d->store,
                       request->peer.admin ? -1 : (int64_t)request->peer.uid,
                       &request->args.events_query, on_rows, request);
}

/* ---- the store itself -----------------------------------------------------*/

void
command_fsck(struct daemon *d, struct request *request,
             const struct command_target *target)
{
    (void)target;
    store_fsck(d->store, on_rows, request);
}
