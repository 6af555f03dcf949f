/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/logcap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
shift_pieces(int dir, const char *file, int pieces)
{
    char from[64], to[64];

    for (int i = pieces - 1; i >= 1; i--) {
        snprintf(from, sizeof(from), "%s.%d", file, i);
        snprintf(to, sizeof(to), "%s.%d", file, i + 1);
        renameat(dir, from, dir, to);
    }
}

/* The last piece of the file becomes FILE.1, owned by whoever owns it. */
static int
copy_tail(int dir, int fd, const char *file, const struct stat *st,
          int64_t piece_bytes)
{
    off_t at = st->st_size > piece_bytes ? st->st_size - piece_bytes : 0;
    char name[64];
    int out, rc = 0;

    snprintf(name, sizeof(name), "%s.1", file);
    unlinkat(dir, name, 0);
    out = openat(dir, name,
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (out < 0)
        return -1;
    while (rc == 0 && at < st->st_size) {
        ssize_t n =
            copy_file_range(fd, &at, out, NULL, (size_t)(st->st_size - at), 0);

        if (n <= 0)
            rc = -1;
    }
    if (st->st_uid != geteuid() && fchown(out, st->st_uid, st->st_gid) != 0)
        rc = -1;
    close(out);
    return rc;
}

static void
write_marker(int fd, const struct stat *st)
{
    char marker[128];
    int n = snprintf(marker, sizeof(marker),
                     "[traind: %lld bytes of output moved to the older piece "
                     "or dropped]\n",
                     (long long)st->st_size);

    /* A marker that does not fit is no reason to stop. */
    if (write(fd, marker, (size_t)n) < 0)
        errno = 0;
}

int
logcap_check(const char *attempt_dir, const char *file, int64_t piece_bytes,
             int pieces, struct err *err)
{
    int dir, fd, rc = 0;
    struct stat st;

    dir = open(attempt_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", attempt_dir);
    if (fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode) || st.st_size <= piece_bytes) {
        close(dir);
        return 0;
    }
    fd = openat(dir, file,
                O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        rc = err_set_errno(err, ERR_IO, errno, "%s/%s", attempt_dir, file);
    } else if (!S_ISREG(st.st_mode) || st.st_nlink != 1) {
        /* A second name would be one that somebody gave to a file of others,
         * for us to cut it. */
        rc = err_set(err, ERR_IO, "%s/%s: not a regular file with one name",
                     attempt_dir, file);
    } else {
        if (pieces > 0) {
            shift_pieces(dir, file, pieces);
            /* Without room for the copy the file is cut all the same. */
            copy_tail(dir, fd, file, &st, piece_bytes);
        }
        if (ftruncate(fd, 0) != 0)
            rc = err_set_errno(err, ERR_IO, errno, "%s/%s", attempt_dir, file);
        else
            write_marker(fd, &st);
    }
    if (fd >= 0)
        close(fd);
    close(dir);
    return rc;
}
