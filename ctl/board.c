/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/board.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* TensorBoard reads files whose names hold this, in the order of the names. */
#define MARK   "tfevents"
#define PREFIX "events.out." MARK "."
#define HIDDEN ".export-"

/* ---- names ---------------------------------------------------------------*/

static void
file_name(const struct board *b, int64_t attempt, bool hidden,
          char name[BOARD_NAME_MAX])
{
    snprintf(name, BOARD_NAME_MAX, "%s%010" PRId64 "%s",
             hidden ? HIDDEN : PREFIX, attempt, b->suffix);
}

static bool
is_own(const struct board *b, const char *name)
{
    const size_t n = strlen(name), tail = strlen(b->suffix);

    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 && n > tail &&
           strcmp(name + n - tail, b->suffix) == 0;
}

static int
refuse(const struct board *b, const char *name, struct err *err)
{
    const int errnum = errno;

    return err_set_errno(err,
                         errnum == ENOSPC   ? ERR_NOSPACE
                         : errnum == EACCES ? ERR_DENIED
                                            : ERR_IO,
                         errnum, "%s%s%s", b->dir, name[0] != '\0' ? "/" : "",
                         name);
}

static int
refuse_file(const struct board *b, const char *name, struct err *err)
{
    if (is_own(b, name))
        return err_set(err, ERR_EXISTS,
                       "%s holds an export of this job already (%s); --force "
                       "replaces it",
                       b->dir, name);
    return err_set(err, ERR_EXISTS,
                   "%s holds event files of something else (%s); give each "
                   "export a directory of its own",
                   b->dir, name);
}

/* ---- the directory -------------------------------------------------------*/

/* A name that board_commit() or a live board writes anew. */
static bool
is_written(const struct board *b, const char *name)
{
    char written[BOARD_NAME_MAX];

    for (int i = 0; i < b->n_attempts; i++) {
        file_name(b, b->attempts[i], false, written);
        if (strcmp(written, name) == 0)
            return true;
    }
    return false;
}

typedef int file_fn(struct board *b, const char *name, struct err *err);

static int
refuse_others(struct board *b, const char *name, struct err *err)
{
    return b->force && is_own(b, name) ? 0 : refuse_file(b, name, err);
}

static int
remove_earlier(struct board *b, const char *name, struct err *err)
{
    if (!is_own(b, name) || is_written(b, name))
        return 0;
    return unlinkat(b->dir_fd, name, 0) < 0 ? refuse(b, name, err) : 0;
}

static int
each_event_file(struct board *b, file_fn *fn, struct err *err)
{
    const int fd = openat(b->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    int rc = 0;

    if (dir == NULL) {
        rc = refuse(b, "", err);
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0 && (entry = readdir(dir)) != NULL)
        if (strstr(entry->d_name, MARK) != NULL)
            rc = fn(b, entry->d_name, err);
    closedir(dir);
    return rc;
}

/* The lock goes with the process. Where a file system has none, the look at
 * what is there has to do. */
static int
lock_directory(struct board *b, struct err *err)
{
    b->dir_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->dir_fd < 0)
        return refuse(b, "", err);
    if (flock(b->dir_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(err, ERR_AGAIN,
                       "%s: another trainctl is exporting to it; give each "
                       "export a directory of its own",
                       b->dir);
    return 0;
}

int
board_open(struct board *b, const char *dir, int64_t job, bool live, bool force,
           struct err *err)
{
    int rc;

    *b = (struct board){.dir_fd = -1, .fd = -1, .live = live, .force = force};
    if (strlen(dir) >= sizeof(b->dir))
        return err_set(err, ERR_USAGE, "--to: longer than a path may be");
    strcpy(b->dir, dir);
    snprintf(b->suffix, sizeof(b->suffix), ".traind-job-%" PRId64, job);
    b->made_dir = mkdir(dir, 0777) == 0;
    if (!b->made_dir && errno != EEXIST)
        return refuse(b, "", err);
    rc = lock_directory(b, err);
    if (rc == 0)
        rc = each_event_file(b, refuse_others, err);
    if (rc == 0 && live)
        rc = each_event_file(b, remove_earlier, err);
    return rc;
}

/* ---- files ---------------------------------------------------------------*/

static int
end_file(struct board *b, struct err *err)
{
    char name[BOARD_NAME_MAX];
    int rc = 0;

    if (b->fd < 0)
        return 0;
    file_name(b, b->attempts[b->n_attempts - 1], false, name);
    rc = board_flush(b, err);
    if (rc == 0 && fsync(b->fd) < 0)
        rc = refuse(b, name, err);
    close(b->fd);
    b->fd = -1;
    return rc;
}

static bool
add_attempt(struct board *b, int64_t attempt)
{
    int64_t *more =
        realloc(b->attempts, (size_t)(b->n_attempts + 1) * sizeof(*more));

    if (more == NULL)
        return false;
    b->attempts = more;
    b->attempts[b->n_attempts++] = attempt;
    return true;
}

int
board_begin(struct board *b, int64_t attempt, int64_t t_us, int64_t step,
            struct err *err)
{
    const double wall_time = (double)t_us / 1e6;
    char name[BOARD_NAME_MAX];
    int rc = end_file(b, err);

    if (rc < 0)
        return rc;
    assert(b->n_attempts == 0 || b->attempts[b->n_attempts - 1] < attempt);
    file_name(b, attempt, !b->live, name);
    b->fd = openat(b->dir_fd, name,
                   O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                       (b->live ? O_EXCL : O_TRUNC),
                   0666);
    if (b->fd < 0)
        return refuse(b, name, err);
    if (!add_attempt(b, attempt)) {
        unlinkat(b->dir_fd, name, 0);
        close(b->fd);
        b->fd = -1;
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    tfevents_put_version(&b->events, wall_time);
    tfevents_put_start(&b->events, wall_time, step);
    return board_flush(b, err);
}

void
board_put(struct board *b, int64_t t_us, int64_t step,
          const struct tfevents_scalar *scalars, int n)
{
    assert(b->fd >= 0);
    tfevents_put_scalars(&b->events, (double)t_us / 1e6, step, scalars, n);
}

int
board_flush(struct board *b, struct err *err)
{
    return b->fd < 0 ? 0 : tfevents_write(&b->events, b->fd, b->dir, err);
}

int
board_commit(struct board *b, struct err *err)
{
    char hidden[BOARD_NAME_MAX], name[BOARD_NAME_MAX];
    int rc = end_file(b, err);

    if (rc == 0 && !b->live)
        rc = each_event_file(b, remove_earlier, err);
    for (int i = 0; rc == 0 && !b->live && i < b->n_attempts; i++) {
        file_name(b, b->attempts[i], true, hidden);
        file_name(b, b->attempts[i], false, name);
        if (renameat(b->dir_fd, hidden, b->dir_fd, name) < 0)
            rc = refuse(b, name, err);
    }
    b->committed = rc == 0;
    return rc;
}

void
board_close(struct board *b)
{
    char hidden[BOARD_NAME_MAX];

    if (b->fd >= 0)
        close(b->fd);
    for (int i = 0; !b->live && !b->committed && i < b->n_attempts; i++) {
        file_name(b, b->attempts[i], true, hidden);
        unlinkat(b->dir_fd, hidden, 0);
    }
    if (b->made_dir && !b->committed)
        rmdir(b->dir); /* unless something is in it */
    if (b->dir_fd >= 0)
        close(b->dir_fd);
    free(b->attempts);
    tfevents_fini(&b->events);
    *b = (struct board){.dir_fd = -1, .fd = -1};
}
