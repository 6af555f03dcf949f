/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/target.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void
target_name(const char *job, const char *other, const char *suffix,
            char out[NAME_MAX + 1])
{
    const size_t room = NAME_MAX - strlen(suffix) - sizeof(".tmp-XXXXXX");
    size_t n = 0;

    assert(strlen(suffix) < 64);
    for (; *job != '\0' && n < room; job++) {
        const unsigned char c = (unsigned char)*job;
        const bool bad =
            c == '/' || iscntrl(c) || (n == 0 && (c == '.' || c == '-'));
        out[n++] = bad ? '_' : (char)c;
    }
    out[n] = '\0';
    snprintf(out + n, NAME_MAX + 1 - n, "%s%s", n > 0 ? "" : other, suffix);
}

bool
target_is_stdout(const struct target *t)
{
    return strcmp(t->path, "-") == 0;
}

static int
refuse_existing(const struct target *t, struct err *err)
{
    return err_set(err, ERR_EXISTS, "%s exists already; --force replaces it",
                   t->path);
}

int
target_refuse(const struct target *t, int errnum, struct err *err)
{
    return err_set_errno(err,
                         errnum == ENOSPC   ? ERR_NOSPACE
                         : errnum == EACCES ? ERR_DENIED
                                            : ERR_IO,
                         errnum, "%s",
                         target_is_stdout(t) ? "standard output" : t->path);
}

int
target_open(struct target *t, const char *path, bool force, struct err *err)
{
    t->fd = -1;
    t->force = force;
    t->temporary[0] = '\0';
    if (strlen(path) >= sizeof(t->path))
        return err_set(err, ERR_USAGE, "--to: longer than a path may be");
    strcpy(t->path, path);
    if (target_is_stdout(t)) {
        t->fd = STDOUT_FILENO;
        return 0;
    }
    if (!force && access(t->path, F_OK) == 0)
        return refuse_existing(t, err);
    snprintf(t->temporary, sizeof(t->temporary), "%s.tmp-XXXXXX", t->path);
    t->fd = mkostemp(t->temporary, O_CLOEXEC);
    if (t->fd < 0) {
        t->temporary[0] = '\0';
        return target_refuse(t, errno, err);
    }
    return 0;
}

int
target_commit(struct target *t, struct err *err)
{
    const mode_t mask = umask(0);
    int rc = 0;

    umask(mask);
    assert(t->fd >= 0);
    if (target_is_stdout(t))
        return 0;
    if (fchmod(t->fd, 0666 & ~mask) < 0 || fsync(t->fd) < 0)
        rc = target_refuse(t, errno, err);
    close(t->fd);
    t->fd = -1;
    if (rc == 0 && renameat2(AT_FDCWD, t->temporary, AT_FDCWD, t->path,
                             t->force ? 0 : RENAME_NOREPLACE) < 0)
        rc = errno == EEXIST ? refuse_existing(t, err)
                             : target_refuse(t, errno, err);
    if (rc == 0)
        t->temporary[0] = '\0';
    return rc;
}

void
target_abandon(struct target *t)
{
    if (target_is_stdout(t))
        return;
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    if (t->temporary[0] != '\0')
        unlink(t->temporary);
    t->temporary[0] = '\0';
}
