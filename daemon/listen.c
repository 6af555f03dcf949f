/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int
make_socket(struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        err_set_errno(err, ERR_IO, errno, "control socket");
    return fd;
}

/* Does a daemon answer at the address? ERR_AGAIN if so; 0 when the socket is
 * stale and may be removed. */
static int
probe(const struct sockaddr_un *addr, struct err *err)
{
    struct stat st;
    int fd, rc;

    if (lstat(addr->sun_path, &st) != 0)
        return errno == ENOENT
                   ? 0
                   : err_set_errno(err, ERR_IO, errno, "%s", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_CONFIG,
                       "%s: something that is no socket is there; it is left "
                       "alone",
                       addr->sun_path);
    fd = make_socket(err);
    if (fd < 0)
        return ERR_IO;
    rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
    if (rc == 0 || errno == EAGAIN)
        rc = err_set(err, ERR_AGAIN, "%s: another daemon answers there",
                     addr->sun_path);
    else if (errno == ECONNREFUSED || errno == ENOENT)
        rc = 0;
    else
        rc = err_set_errno(err, ERR_IO, errno, "%s", addr->sun_path);
    close(fd);
    return rc;
}

/* bind under a mask that lets nobody in before mode and group are right. */
static int
bind_closed(int fd, const struct sockaddr_un *addr)
{
    mode_t mask = umask(0177);
    int rc = bind(fd, (const struct sockaddr *)addr, sizeof(*addr));
    int saved = errno;

    umask(mask);
    errno = saved;
    return rc;
}

static int
bind_over_stale(int fd, const struct sockaddr_un *addr, struct err *err)
{
    int rc;

    if (bind_closed(fd, addr) == 0)
        return 0;
    if (errno != EADDRINUSE)
        return err_set_errno(err, ERR_IO, errno, "%s", addr->sun_path);
    rc = probe(addr, err);
    if (rc != 0)
        return rc;
    if (unlink(addr->sun_path) != 0 && errno != ENOENT)
        return err_set_errno(err, ERR_IO, errno, "%s", addr->sun_path);
    if (bind_closed(fd, addr) != 0)
        return err_set_errno(err, ERR_IO, errno, "%s", addr->sun_path);
    return 0;
}

static int
set_rights(const struct listen_options *o, struct err *err)
{
    gid_t gid = (gid_t)-1;

    if (o->group[0] != '\0') {
        const struct group *group = getgrnam(o->group);

        if (group == NULL)
            return err_set(err, ERR_CONFIG,
                           "control.group: there is no group %s; "
                           "\"groupadd --system %s\" makes it",
                           o->group, o->group);
        gid = group->gr_gid;
    }
    if (gid != (gid_t)-1 && lchown(o->path, (uid_t)-1, gid) != 0)
        return err_set_errno(err, ERR_CONFIG, errno, "%s: group %s", o->path,
                             o->group);
    if (chmod(o->path, o->mode) != 0)
        return err_set_errno(err, ERR_IO, errno, "%s", o->path);
    return 0;
}

int
listen_open(const struct listen_options *o, struct listen *out, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    int rc;

    memset(out, 0, sizeof(*out));
    out->fd = -1;
    /* libuv would cut it in silence. */
    if (strlen(o->path) >= sizeof(addr.sun_path))
        return err_set(err, ERR_CONFIG,
                       "%s: a socket's path has at most %zu bytes", o->path,
                       sizeof(addr.sun_path) - 1);
    strcpy(addr.sun_path, o->path);
    strcpy(out->path, o->path);
    out->fd = make_socket(err);
    if (out->fd < 0)
        return ERR_IO;
    rc = bind_over_stale(out->fd, &addr, err);
    if (rc == 0 && lstat(o->path, &st) != 0)
        rc = err_set_errno(err, ERR_IO, errno, "%s", o->path);
    if (rc == 0) {
        out->dev = st.st_dev;
        out->ino = st.st_ino;
        out->mtime = st.st_mtim;
        rc = set_rights(o, err);
        if (rc != 0)
            listen_remove(out);
    }
    if (rc != 0) {
        close(out->fd);
        out->fd = -1;
    }
    return rc;
}

static int
choose_fd(const char *names, int n)
{
    int i = 0;

    if (names == NULL)
        return 0;
    for (const char *p = names; i < n; i++) {
        size_t len = strcspn(p, ":");

        if (len == 3 && strncmp(p, "ctl", 3) == 0)
            return i;
        if (p[len] == '\0')
            break;
        p += len + 1;
    }
    return 0;
}

int
listen_inherit(struct listen *out, struct err *err)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    struct sockaddr_un addr;
    socklen_t len = sizeof(addr);
    int n = 0, rc = 0;

    memset(out, 0, sizeof(*out));
    out->fd = -1;
    if (pid != NULL && fds != NULL && atol(pid) == (long)getpid())
        n = atoi(fds);
    if (n > 0) {
        int fd = 3 + choose_fd(getenv("LISTEN_FDNAMES"), n);

        for (int i = 3; i < 3 + n; i++)
            fcntl(i, F_SETFD, FD_CLOEXEC);
        memset(&addr, 0, sizeof(addr));
        if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0 ||
            addr.sun_family != AF_UNIX) {
            rc = err_set(err, ERR_CONFIG,
                         "descriptor %d of the service manager is no Unix "
                         "socket",
                         fd);
        } else {
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
            memcpy(out->path, addr.sun_path, sizeof(out->path));
            out->path[sizeof(out->path) - 1] = '\0';
            out->fd = fd;
            out->inherited = true;
        }
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return rc;
}

void
listen_remove(const struct listen *l)
{
    struct stat st;

    if (l->inherited || l->path[0] == '\0')
        return;
    if (lstat(l->path, &st) == 0 && st.st_dev == l->dev &&
        st.st_ino == l->ino && st.st_mtim.tv_sec == l->mtime.tv_sec &&
        st.st_mtim.tv_nsec == l->mtime.tv_nsec)
        unlink(l->path);
}
