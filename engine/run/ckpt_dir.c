/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/ckpt_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/failpoint.h"

#define TMP_NAME_MAX (CKPT_DIR_NAME_MAX + sizeof(CKPT_DIR_TMP))

static int
refuse(struct err *err, int errnum, const char *what)
{
    const bool full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;

    return err_set_errno(err, full ? ERR_NOSPACE : ERR_IO, errnum, "%s", what);
}

/* A test's place to die or to break. */
static int
pass(const char *failpoint, const char *what, struct err *err)
{
    const int errnum = failpoint_hit(failpoint);

    return errnum == 0 ? 0 : refuse(err, errnum, what);
}

/* ---- names -------------------------------------------------------------- */

void
ckpt_dir_format_name(char name[CKPT_DIR_NAME_MAX], int64_t iteration,
                     int64_t attempt)
{
    snprintf(name, CKPT_DIR_NAME_MAX, "it%09" PRId64 "-a%" PRId64, iteration,
             attempt);
}

bool
ckpt_dir_parse_name(const char *name, int64_t *iteration, int64_t *attempt)
{
    char again[CKPT_DIR_NAME_MAX];
    int n = 0;

    if (strlen(name) >= sizeof(again) ||
        sscanf(name, "it%18" SCNd64 "-a%18" SCNd64 "%n", iteration, attempt,
               &n) != 2 ||
        name[n] != '\0' || *iteration < 0 || *attempt < 0)
        return false;
    /* Signs, spaces and odd zeros do not survive this. */
    ckpt_dir_format_name(again, *iteration, *attempt);
    return strcmp(name, again) == 0;
}

static void
format_tmp(char tmp[TMP_NAME_MAX], const char *name)
{
    snprintf(tmp, TMP_NAME_MAX, CKPT_DIR_TMP "%s", name);
}

/* ---- directories -------------------------------------------------------- */

int
ckpt_dir_open(const char *directory, bool make, struct err *err)
{
    int fd;

    if (make && mkdir(directory, 0777) < 0 && errno != EEXIST)
        return refuse(err, errno, directory);
    fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? refuse(err, errno, directory) : fd;
}

int
ckpt_dir_check_space(int parent, int64_t n_bytes, struct err *err)
{
    struct statvfs st;
    int64_t free_bytes;

    /* Some file systems do not say. */
    if (fstatvfs(parent, &st) < 0 || st.f_blocks == 0 ||
        __builtin_mul_overflow(st.f_bavail, st.f_frsize, &free_bytes))
        return 0;
    if (free_bytes >= n_bytes)
        return 0;
    return err_set(err, ERR_NOSPACE,
                   "no space left: %" PRId64 " bytes are needed, %" PRId64
                   " are free",
                   n_bytes, free_bytes);
}

/* Files first, then the directory. Nothing in a checkpoint has directories in
 * it; what a stranger put there stays, and with it the directory. */
static void
remove_tree(int parent, const char *name)
{
    const int fd =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        unlinkat(parent, name, 0);
        return;
    }
    while ((e = readdir(dir)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(fd, e->d_name, 0);
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

int
ckpt_dir_begin(int parent, const char *name, struct err *err)
{
    char tmp[TMP_NAME_MAX];
    struct stat st;
    int fd;

    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(err, ERR_EXISTS, "exists already");
    format_tmp(tmp, name);
    remove_tree(parent, tmp);
    if (mkdirat(parent, tmp, 0777) < 0)
        return refuse(err, errno, tmp);
    fd = openat(parent, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? refuse(err, errno, tmp) : fd;
}

/* Never over something that is there, not even an empty directory. */
static int
rename_new(int parent, const char *from, const char *to)
{
    struct stat st;

    if (renameat2(parent, from, parent, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* The file system does not know the flag. */
    if (fstatat(parent, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(parent, from, parent, to);
}

int
ckpt_dir_commit(int parent, int dir, const char *name, struct err *err)
{
    char tmp[TMP_NAME_MAX];
    int rc;

    format_tmp(tmp, name);
    if (fsync(dir) < 0)
        return refuse(err, errno, tmp);
    rc = pass("ckpt.before_rename", tmp, err);
    if (rc < 0)
        return rc;
    if (rename_new(parent, tmp, name) < 0)
        return errno == EEXIST ? err_set(err, ERR_EXISTS, "exists already")
                               : refuse(err, errno, name);
    rc = pass("ckpt.after_rename", name, err);
    if (rc == 0 && fsync(parent) < 0)
        rc = refuse(err, errno, name);
    if (rc < 0) /* it may not outlive a power cut: it was never there */
        ckpt_dir_remove(parent, name, NULL);
    return rc;
}

void
ckpt_dir_abandon(int parent, const char *name)
{
    char tmp[TMP_NAME_MAX];

    format_tmp(tmp, name);
    remove_tree(parent, tmp);
}

int
ckpt_dir_remove(int parent, const char *name, struct err *err)
{
    char tmp[TMP_NAME_MAX];

    format_tmp(tmp, name);
    remove_tree(parent, tmp);
    if (renameat(parent, name, parent, tmp) < 0)
        return errno == ENOENT
                   ? err_set(err, ERR_NOTFOUND, "%s: not found", name)
                   : refuse(err, errno, name);
    fsync(parent);
    if (failpoint_hit("ckpt.half_remove") == 0)
        remove_tree(parent, tmp);
    return 0;
}

void
ckpt_dir_sweep(int parent)
{
    const int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, CKPT_DIR_TMP, strlen(CKPT_DIR_TMP)) == 0)
            remove_tree(parent, e->d_name);
    closedir(dir);
}

/* ---- files -------------------------------------------------------------- */

int
ckpt_dir_create_file(int dir, const char *file, int64_t n_bytes,
                     struct err *err)
{
    const int fd = openat(
        dir, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

    if (fd < 0)
        return refuse(err, errno, file);
    /* A full disk is better known before the work than after it. */
    if (n_bytes > 0 && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, n_bytes) < 0 &&
        (errno == ENOSPC || errno == EDQUOT)) {
        const int errnum = errno;

        close(fd);
        return refuse(err, errnum, file);
    }
    return fd;
}

int
ckpt_dir_finish_file(int fd, const char *file, struct err *err)
{
    int rc = pass("ckpt.before_fsync", file, err);

    if (rc == 0 && fsync(fd) < 0)
        rc = refuse(err, errno, file);
    if (close(fd) < 0 && rc == 0)
        rc = refuse(err, errno, file);
    return rc;
}

int
ckpt_dir_write_file(int dir, const char *file, const char *text,
                    struct err *err)
{
    size_t n = strlen(text);
    int rc = 0, fd;

    fd = ckpt_dir_create_file(dir, file, (int64_t)n, err);
    if (fd < 0)
        return fd;
    while (n > 0 && rc == 0) {
        const ssize_t done = write(fd, text, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            rc = refuse(err, errno, file);
        } else {
            text += done;
            n -= (size_t)done;
        }
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return ckpt_dir_finish_file(fd, file, err);
}

/* What is missing or of the wrong kind is a damaged checkpoint; a disk that
 * does not answer is not. */
static int
refuse_read(struct err *err, int errnum, const char *file)
{
    const bool damaged = errnum == ENOENT || errnum == ENOTDIR ||
                         errnum == ELOOP || errnum == EISDIR;

    return err_set_errno(err, damaged ? ERR_CKPT : ERR_IO, errnum, "%s", file);
}

int
ckpt_dir_open_one(int parent, const char *name, struct err *err)
{
    int64_t iteration, attempt;
    int fd;

    if (!ckpt_dir_parse_name(name, &iteration, &attempt))
        return err_set(err, ERR_CKPT, "%.80s: not the name of a checkpoint",
                       name);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? refuse_read(err, errno, name) : fd;
}

static int
read_fd(int fd, const char *file, char **bytes, size_t *len, struct err *err)
{
    struct stat st;
    size_t done = 0, size;

    if (fstat(fd, &st) < 0)
        return refuse_read(err, errno, file);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_CKPT, "%s: not a regular file", file);
    size = (size_t)st.st_size;
    *bytes = aligned_alloc(64, size / 64 * 64 + 64);
    if (*bytes == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory for %zu bytes", file,
                       size);
    while (done < size) {
        const ssize_t got = read(fd, *bytes + done, size - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse_read(err, errno, file);
        if (got == 0)
            return err_set(err, ERR_CKPT, "%s: became shorter while read",
                           file);
        done += (size_t)got;
    }
    (*bytes)[size] = '\0';
    *len = size;
    return 0;
}

int
ckpt_dir_read_file(int dir, const char *file, char **bytes, size_t *len,
                   struct err *err)
{
    const int fd =
        openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int rc;

    *bytes = NULL;
    if (fd < 0)
        return refuse_read(err, errno, file);
    rc = read_fd(fd, file, bytes, len, err);
    close(fd);
    if (rc < 0) {
        free(*bytes);
        *bytes = NULL;
    }
    return rc;
}
