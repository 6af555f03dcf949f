/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/link.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG_PAUSE_MS 20 /* the daemon's queue of connections is full */

struct link {
    int fd, interrupt_fd;
    char path[LINK_PATH_BYTES];
    int64_t timeout_ms;
    bool greeted, refused;
    struct client *client; /* owned */
};

int64_t
link_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- where the socket is -------------------------------------------------*/

__attribute__((format(printf, 2, 3))) static int
add_path(struct link_paths *paths, const char *fmt, ...)
{
    va_list ap;

    assert(paths->n < LINK_MAX_PATHS);
    va_start(ap, fmt);
    int len = vsnprintf(paths->path[paths->n], LINK_PATH_BYTES, fmt, ap);
    va_end(ap);
    if (len <= 0 || len >= LINK_PATH_BYTES)
        return -1;
    paths->n++;
    return 0;
}

static bool
is_own_directory(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid();
}

static void
add_user_paths(struct link_paths *paths)
{
    const char *run = getenv("XDG_RUNTIME_DIR"), *tmp = getenv("TMPDIR");
    char directory[LINK_PATH_BYTES];

    if (run != NULL && run[0] == '/' && is_own_directory(run))
        add_path(paths, "%s/traind/ctl.sock", run);
    if (tmp == NULL || tmp[0] != '/')
        tmp = "/tmp";
    int len = snprintf(directory, sizeof(directory), "%s/traind-%u", tmp,
                       (unsigned)geteuid());
    if (len < LINK_PATH_BYTES && is_own_directory(directory))
        add_path(paths, "%s/ctl.sock", directory);
}

int
link_search(const char *socket, struct link_paths *paths, struct err *err)
{
    const char *named = socket;

    paths->n = 0;
    if (named == NULL)
        named = getenv("TRAIND_SOCKET");
    if (named != NULL && named[0] != '\0') {
        if (add_path(paths, "%s", named) < 0)
            return err_set(err, ERR_USAGE,
                           "%s: longer than the %d bytes of a socket's path",
                           named, LINK_PATH_BYTES - 1);
        return 0;
    }
    if (geteuid() == 0)
        add_path(paths, "/run/traind/ctl.sock");
    add_user_paths(paths);
    if (geteuid() != 0)
        add_path(paths, "/run/traind/ctl.sock");
    return 0;
}

/* ---- connecting ----------------------------------------------------------*/

/* Waits for the descriptor; 1 ready, 0 deadline passed, ERR_CANCELLED. */
static int
wait_ready(int fd, short events, int interrupt_fd, int64_t deadline_ms,
           struct err *err)
{
    struct pollfd p[2] = {{fd, events, 0}, {interrupt_fd, POLLIN, 0}};

    for (;;) {
        int64_t left = -1;
        if (deadline_ms >= 0) {
            left = deadline_ms - link_now_ms();
            left = left < 0 ? 0 : left > 1000000 ? 1000000 : left;
        }
        int n = poll(p, 2, (int)left); /* a negative fd is ignored */
        if (n < 0 && errno != EINTR)
            return err_set_errno(err, ERR_IO, errno, "poll");
        if (n > 0 && p[1].revents != 0)
            return err_set(err, ERR_CANCELLED, "interrupted");
        if (n > 0)
            return 1;
        if (n == 0 && left >= 0 && deadline_ms <= link_now_ms())
            return 0;
    }
}

/* A connected socket, or -1 with errno; a local connect never blocks for
 * longer than the backlog is full. */
static int
connect_path(const char *path, int64_t deadline_ms)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    while (connect(fd, (const struct sockaddr *)&address, sizeof(address)) <
           0) {
        int saved = errno;
        if (saved == EAGAIN && link_now_ms() < deadline_ms) {
            poll(NULL, 0, BACKLOG_PAUSE_MS);
            continue;
        }
        if (saved == EINTR)
            continue;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

/* "no daemon: /run/...: No such file; ...", as long as it fits. */
static void
add_attempt(char *tried, size_t size, const char *path, int errnum)
{
    size_t len = strlen(tried);

    snprintf(tried + len, size - len, "%s%s: %s", len > 0 ? "; " : "", path,
             errnum == EAGAIN ? "its queue of connections is full"
                              : strerror(errnum));
}

static int
connect_any(const struct link_paths *paths, struct link *link,
            int64_t deadline_ms, struct err *err)
{
    char tried[LINK_MAX_PATHS * (LINK_PATH_BYTES + 48)] = "";
    bool denied = false;

    for (int i = 0; i < paths->n; i++) {
        link->fd = connect_path(paths->path[i], deadline_ms);
        if (link->fd >= 0) {
            memcpy(link->path, paths->path[i], LINK_PATH_BYTES);
            return 0;
        }
        denied = denied || errno == EACCES || errno == EPERM;
        add_attempt(tried, sizeof(tried), paths->path[i], errno);
    }
    if (denied)
        return err_set(err, ERR_DENIED,
                       "the daemon's socket is not for you: "
                       "%s",
                       tried);
    return err_set(err, ERR_UNREACHABLE,
                   "no daemon answers (%s); start one "
                   "with \"traind --user\", or name its socket with --socket",
                   tried);
}

static int
await_hello(struct link *link, int64_t deadline_ms, struct err *err)
{
    enum client_news news = CLIENT_NOTHING;
    int rc = link_wait(link, deadline_ms, &news, err);

    if (rc == ERR_TIMEOUT)
        return link_silent(link, err);
    if (rc < 0)
        return err_prefix(err, "%s", link->path);
    if (news != CLIENT_HELLO)
        return err_set(err, ERR_PROTO, "%s: no hello came first", link->path);
    link->greeted = true;
    return 0;
}

int
link_open(const struct link_options *options, struct link **out,
          struct err *err)
{
    int64_t deadline_ms = link_now_ms() + options->timeout_ms;
    struct link *link = calloc(1, sizeof(*link));
    struct link_paths paths;
    int rc;

    *out = NULL;
    if (link == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    link->fd = -1;
    link->interrupt_fd = options->interrupt_fd;
    link->timeout_ms = options->timeout_ms;
    rc = link_search(options->socket, &paths, err);
    if (rc < 0)
        goto out;
    link->client = client_create();
    if (link->client == NULL) {
        rc = err_set(err, ERR_NOMEM, "out of memory");
        goto out;
    }
    rc = connect_any(&paths, link, deadline_ms, err);
    if (rc == 0)
        rc = await_hello(link, deadline_ms, err);
out:
    if (rc < 0)
        link_close(&link);
    *out = link;
    return rc;
}

void
link_close(struct link **link)
{
    if (*link == NULL)
        return;
    if ((*link)->fd >= 0)
        close((*link)->fd);
    client_destroy(&(*link)->client);
    free(*link);
    *link = NULL;
}

struct client *
link_client(struct link *link)
{
    return link->client;
}

const char *
link_path(const struct link *link)
{
    return link->path;
}

int64_t
link_timeout_ms(const struct link *link)
{
    return link->timeout_ms;
}

void
link_set_refused(struct link *link, bool refused)
{
    link->refused = refused;
}

bool
link_was_refused(const struct link *link)
{
    return link->refused;
}

/* ---- moving bytes --------------------------------------------------------*/

static int
went_away(const struct link *link, struct err *err)
{
    if (!link->greeted)
        return err_set(err, ERR_UNREACHABLE,
                       "the daemon closed the connection "
                       "before it said hello");
    return err_set(err, ERR_UNREACHABLE,
                   "the daemon at %s closed the "
                   "connection before its answer was complete",
                   link->path);
}

static int
send_pending(struct link *link, struct err *err)
{
    size_t n = 0;
    const void *bytes = client_pending(link->client, &n);

    if (n == 0)
        return 0;
    ssize_t sent = send(link->fd, bytes, n, MSG_NOSIGNAL);
    if (sent >= 0)
        client_sent(link->client, (size_t)sent);
    else if (errno == EPIPE || errno == ECONNRESET)
        return 0; /* what it said before it left is still to be read */
    else if (errno != EAGAIN && errno != EINTR)
        return err_set_errno(err, ERR_IO, errno, "%s", link->path);
    return 0;
}

static int
receive(struct link *link, struct err *err)
{
    char bytes[65536];
    ssize_t n = recv(link->fd, bytes, sizeof(bytes), 0);

    if (n > 0)
        return client_feed(link->client, bytes, (size_t)n, err);
    if (n == 0 || errno == ECONNRESET)
        return went_away(link, err);
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    return err_set_errno(err, ERR_IO, errno, "%s", link->path);
}

int
link_wait(struct link *link, int64_t deadline_ms, enum client_news *news,
          struct err *err)
{
    for (;;) {
        size_t n = 0;
        *news = client_poll(link->client);
        if (*news != CLIENT_NOTHING)
            return 0;
        client_pending(link->client, &n);
        short events = (short)(POLLIN | (n > 0 ? POLLOUT : 0));
        int rc =
            wait_ready(link->fd, events, link->interrupt_fd, deadline_ms, err);
        if (rc == 0)
            return ERR_TIMEOUT;
        if (rc > 0)
            rc = send_pending(link, err);
        if (rc == 0)
            rc = receive(link, err);
        if (rc < 0)
            return rc;
    }
}

int
link_silent(const struct link *link, struct err *err)
{
    return err_set(err, ERR_UNREACHABLE,
                   "the daemon at %s accepts but did not "
                   "answer within %.3g s; its log says more, --timeout waits "
                   "longer",
                   link->path, (double)link->timeout_ms / 1000);
}
