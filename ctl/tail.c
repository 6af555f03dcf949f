/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 65536

/* The offset of the last `lines` lines of size bytes. A line feed that ends
 * the file ends its last line and begins no other. */
static int
find_lines(int fd, off_t size, int64_t lines, off_t *out)
{
    char chunk[CHUNK];
    off_t end = size;

    *out = 0;
    if (lines == 0) {
        *out = size;
        return 0;
    }
    while (end > 0) {
        size_t n = end < CHUNK ? (size_t)end : CHUNK;
        ssize_t got = pread(fd, chunk, n, end - (off_t)n);
        if (got != (ssize_t)n)
            return -1;
        for (size_t i = n; i-- > 0;) {
            off_t at = end - (off_t)n + (off_t)i;
            if (chunk[i] == '\n' && at != size - 1 && --lines == 0) {
                *out = at + 1;
                return 0;
            }
        }
        end -= (off_t)n;
    }
    return 0;
}

int
tail_open(struct tail *tail, const char *path, int64_t lines, struct err *err)
{
    struct stat st;
    off_t start = 0;

    tail->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (tail->fd < 0 && errno == ENOENT)
        return 0;
    if (tail->fd < 0)
        return err_set_errno(err, errno == EACCES ? ERR_DENIED : ERR_IO, errno,
                             "%s", path);
    if (fstat(tail->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        tail_close(tail);
        return err_set(err, ERR_IO, "%s: not a regular file", path);
    }
    if (lines >= 0 && find_lines(tail->fd, st.st_size, lines, &start) < 0) {
        tail_close(tail);
        return err_set(err, ERR_IO, "%s: it changed while being read", path);
    }
    if (lseek(tail->fd, start, SEEK_SET) < 0) {
        tail_close(tail);
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    }
    return 0;
}

int
tail_copy(struct tail *tail, FILE *to, struct err *err)
{
    char chunk[CHUNK];
    ssize_t n;

    if (tail->fd < 0)
        return 0;
    while ((n = read(tail->fd, chunk, sizeof(chunk))) > 0)
        if (fwrite(chunk, 1, (size_t)n, to) != (size_t)n)
            return err_set_errno(err, ERR_IO, errno, "writing the log");
    if (n < 0)
        return err_set_errno(err, ERR_IO, errno, "reading the log");
    return fflush(to) == 0
               ? 0
               : err_set_errno(err, ERR_IO, errno, "writing the log");
}

void
tail_close(struct tail *tail)
{
    if (tail->fd >= 0)
        close(tail->fd);
    tail->fd = -1;
}
