/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t
read_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");

    if (usec == NULL || (pid != NULL && atol(pid) != (long)getpid()))
        return 0;
    /* At half of what the manager waits for, and never a busy loop. */
    return strtoll(usec, NULL, 10) / 2000 > 10 ? strtoll(usec, NULL, 10) / 2000
                                               : 10;
}

void
notify_open(struct notify *n)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path == NULL ? 0 : strlen(path);

    memset(n, 0, sizeof(*n));
    n->fd = -1;
    n->watchdog_ms = read_watchdog_ms();
    if (len > 1 && len < sizeof(n->addr.sun_path) &&
        (path[0] == '/' || path[0] == '@')) {
        n->addr.sun_family = AF_UNIX;
        memcpy(n->addr.sun_path, path, len);
        if (path[0] == '@')
            n->addr.sun_path[0] = '\0';
        /* The length counts: an abstract name may hold NULs. */
        n->addr_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
        n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void
notify_close(struct notify *n)
{
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}

void
notify_send(const struct notify *n, const char *fmt, ...)
{
    char text[1024];
    int saved = errno;
    va_list ap;

    if (n->fd < 0)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    /* A full or vanished socket is the manager's affair. */
    if (sendto(n->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
               (const struct sockaddr *)&n->addr, n->addr_len) < 0)
        errno = 0;
    errno = saved;
}
