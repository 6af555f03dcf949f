/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int
refuse_held(int fd, const char *path, struct err *err)
{
    char body[256];
    ssize_t n = pread(fd, body, sizeof(body) - 1, 0);

    body[n > 0 ? n : 0] = '\0';
    body[strcspn(body, "\n")] = '\0';
    return err_set(err, ERR_AGAIN, "%s: another traind holds it%s%s%s", path,
                   body[0] != '\0' ? " (" : "", body,
                   body[0] != '\0' ? ")" : "");
}

static int
write_body(int fd, const char *path, struct err *err)
{
    time_t now = time(NULL);
    char body[256], when[64];
    struct tm tm;

    localtime_r(&now, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z", &tm);
    snprintf(body, sizeof(body), "pid %d, since %s, version %s\n",
             (int)getpid(), when, TRAIND_VERSION);
    /* A full disk must not keep the daemon from starting: the body is for
     * people only. */
    if (ftruncate(fd, 0) != 0 && errno != ENOSPC)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    if (pwrite(fd, body, strlen(body), 0) < 0 && errno != ENOSPC)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    return 0;
}

int
lock_acquire(const char *state_dir, int *fdp, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    int fd, rc = 0;

    *fdp = -1;
    if (snprintf(path, sizeof(path), "%s/lock", state_dir) >= PATH_MAX)
        return err_set(err, ERR_CONFIG, "%s: path too long", state_dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
              0600);
    if (fd < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = err_set(err, ERR_IO, "%s: not a regular file", path);
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK
                 ? refuse_held(fd, path, err)
                 : err_set_errno(err, ERR_IO, errno, "%s", path);
    else
        rc = write_body(fd, path, err);
    if (rc != 0)
        close(fd);
    else
        *fdp = fd;
    return rc;
}

void
lock_release(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
