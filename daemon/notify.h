/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify: what the service manager is told (sd_notify(3) without libsystemd).
 *
 * Takes $NOTIFY_SOCKET and $WATCHDOG_USEC out of the environment at open, so
 * that no child speaks for the daemon. Every send is one datagram that may get
 * lost; the daemon never stops because of it. Owns one socket.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

struct notify {
    int fd; /* -1: nobody listens */
    struct sockaddr_un addr;
    socklen_t addr_len;
    int64_t watchdog_ms; /* how often WATCHDOG=1 is due; 0 = never */
};

void notify_open(struct notify *notify);
void notify_close(struct notify *notify);

/* Lines KEY=value, joined by '\n'. */
void notify_send(const struct notify *notify, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
