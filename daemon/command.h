/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command: from a client's request to its handler.
 *
 * Decodes the arguments where that is still to do, finds the job that they
 * name (in memory or in the store), checks the right that messages.def asks
 * for, and calls the handler, one for each verb, by a table made from
 * messages.def. A handler owns the request from then on. Handlers live in
 * command_*.c by area.
 */
#ifndef DAEMON_COMMAND_H
#define DAEMON_COMMAND_H

#include "daemon/daemon.h"
#include "daemon/request.h"

/* The job that a request is about; borrowed during the call. */
struct command_target {
    int64_t id;
    struct job *live;     /* not final; NULL: in the store only */
    struct view_job view; /* what may be told */
};

#define COMMAND_PRIORITY_MOST 1000000

/* target is NULL for verbs that anybody may use. */
typedef void command_fn(struct daemon *d, struct request *request,
                        const struct command_target *target);

/* Decodes the arguments of a request of the control socket and runs it. */
void command_handle(struct daemon *d, struct request *request);
/* The arguments are there already: another door's. */
void command_run(struct daemon *d, struct request *request);

/* For what waited for the store: true when the daemon is being taken apart;
 * the request is gone then. */
bool command_is_over(const struct daemon *d, struct request *request);

/* Answers with a sentence; consumes the request. */
void command_refuse(struct request *request, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define COMMAND_DECLARE_CONTROL(name) command_fn command_##name;
#define COMMAND_DECLARE_ORDER(name)
#define COMMAND_DECLARE_REPORT(name)
#define MESSAGE(name, number, flow, right, request, reply, shape, doc)         \
    COMMAND_DECLARE_##flow(name)
#include "proto/messages.def"
#undef MESSAGE

#endif
