/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control: the listening control socket and the table of its connections.
 *
 * Accepts, bounds how many there are (in all, and of one user), looks at their
 * clocks, and hands requests on. Loop's thread; never blocks.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "daemon/listen.h"
#include "daemon/session.h"

struct control;

struct control_options {
    struct session_options session;
    int max_clients;
    const char *admin_group; /* borrowed for good */
};

/* Takes the bound descriptor of `listen` over, and removes its file at the
 * end. hooks: `closed` is control's own business and ignored. */
int control_open(const struct control_options *options,
                 const struct listen *listen, const struct session_hooks *hooks,
                 struct control **out, struct err *err);
/* How many are connected. */
int control_clients(const struct control *control);
/* Closes every connection and the socket. */
void control_close(struct control **control);

#endif
