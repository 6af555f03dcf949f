/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobdir.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

void
jobdir_path(char *out, const char *state_dir, int64_t job)
{
    int n = snprintf(out, JOBDIR_MAX, "%s/jobs/%" PRId64, state_dir, job);

    assert(n > 0 && n < JOBDIR_MAX);
}

void
jobdir_attempt_path(char *out, const char *job_dir, int64_t attempt,
                    const char *file)
{
    int n = snprintf(out, JOBDIR_MAX, "%s/attempts/%" PRId64 "%s%s", job_dir,
                     attempt, file[0] != '\0' ? "/" : "", file);

    assert(n > 0 && n < JOBDIR_MAX);
}

void
jobdir_checkpoint_path(char *out, const char *job_dir, const char *name)
{
    int n = snprintf(out, JOBDIR_MAX, "%s/checkpoints/%s", job_dir, name);

    assert(n > 0 && n < JOBDIR_MAX);
}

/* A directory below `parent`, made when missing; its descriptor. */
static int
enter(int parent, const char *name, mode_t mode,
      const struct jobdir_owner *owner, int *fd, struct err *err)
{
    bool made = mkdirat(parent, name, 0700) == 0;

    if (!made && errno != EEXIST)
        return err_set_errno(err, errno == ENOSPC ? ERR_NOSPACE : ERR_IO, errno,
                             "%s", name);
    *fd = openat(parent, name, DIR_FLAGS);
    if (*fd < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", name);
    if (made && owner->change && fchown(*fd, owner->uid, owner->gid) != 0)
        return err_set_errno(err, ERR_IO, errno, "%s: owner", name);
    /* fchmod: the umask has no say. */
    if (made && fchmod(*fd, mode) != 0)
        return err_set_errno(err, ERR_IO, errno, "%s: mode", name);
    return 0;
}

static int
make_parents(const char *path, struct err *err)
{
    char part[JOBDIR_MAX];
    int n = snprintf(part, sizeof(part), "%s", path);

    if (n >= (int)sizeof(part))
        return err_set(err, ERR_CONFIG, "%s: path too long", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return err_set_errno(err, ERR_IO, errno, "%s", part);
        *slash = '/';
    }
    return 0;
}

int
jobdir_init(const char *state_dir, bool shared, struct err *err)
{
    const struct jobdir_owner nobody = {0};
    int state = -1, jobs = -1, rc;
    struct stat st;

    rc = make_parents(state_dir, err);
    if (rc == 0)
        rc = enter(AT_FDCWD, state_dir, shared ? 0711 : 0700, &nobody, &state,
                   err);
    if (rc == 0 && (fstat(state, &st) != 0 || st.st_uid != geteuid()))
        rc =
            err_set(err, ERR_CONFIG, "%s: belongs to uid %d, traind runs as %d",
                    state_dir, (int)st.st_uid, (int)geteuid());
    if (rc == 0 && (st.st_mode & 022) != 0)
        rc = err_set(err, ERR_CONFIG, "%s: others may write to it (mode %04o)",
                     state_dir, st.st_mode & 07777);
    if (rc == 0)
        rc = enter(state, "jobs", shared ? 0711 : 0700, &nobody, &jobs, err);
    if (jobs >= 0)
        close(jobs);
    if (state >= 0)
        close(state);
    return rc;
}

static int
write_spec(int dir, const char *spec, const struct jobdir_owner *owner,
           struct err *err)
{
    int fd =
        openat(dir, "spec.json",
               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t len = strlen(spec);
    int rc = 0;

    if (fd < 0)
        return err_set_errno(err, ERR_IO, errno, "spec.json");
    if (write(fd, spec, len) != (ssize_t)len)
        rc = err_set_errno(err, errno == ENOSPC ? ERR_NOSPACE : ERR_IO, errno,
                           "spec.json");
    /* The submitter may read it; only the daemon may change it. */
    if (rc == 0 && owner->change &&
        (fchown(fd, (uid_t)-1, owner->gid) != 0 || fchmod(fd, 0640) != 0))
        rc = err_set_errno(err, ERR_IO, errno, "spec.json: owner");
    /* The next attempt writes it anew; half of one would stay for ever. */
    if (rc != 0)
        unlinkat(dir, "spec.json", 0);
    close(fd);
    return rc;
}

int
jobdir_make(const char *job_dir, int64_t attempt, const char *spec,
            const struct jobdir_owner *owner, struct err *err)
{
    const struct jobdir_owner daemon = {0};
    int job = -1, attempts = -1, dir = -1, checkpoints = -1, rc;
    mode_t pass = owner->change ? 0711 : 0700;
    char name[32];

    snprintf(name, sizeof(name), "%" PRId64, attempt);
    rc = enter(AT_FDCWD, job_dir, owner->change ? 0755 : 0700, &daemon, &job,
               err);
    if (rc == 0 && faccessat(job, "spec.json", F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        rc = write_spec(job, spec, owner, err);
    if (rc == 0)
        rc = enter(job, "attempts", pass, &daemon, &attempts, err);
    if (rc == 0)
        rc = enter(attempts, name, 0700, owner, &dir, err);
    if (rc == 0)
        rc = enter(job, "checkpoints", 0700, owner, &checkpoints, err);
    if (rc != 0)
        err_prefix(err, "%s", job_dir);
    if (checkpoints >= 0)
        close(checkpoints);
    if (dir >= 0)
        close(dir);
    if (attempts >= 0)
        close(attempts);
    if (job >= 0)
        close(job);
    return rc;
}

/* A checkpoint holds files only; a directory in it is not ours and stays. */
static int
empty_directory(int fd, struct err *err)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    int rc = 0;

    if (dir == NULL) {
        close(fd);
        return err_set_errno(err, ERR_IO, errno, "checkpoint");
    }
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) != 0)
            rc = err_set_errno(err, ERR_IO, errno, "%s", entry->d_name);
    }
    closedir(dir);
    return rc;
}

int
jobdir_remove_checkpoint(const char *job_dir, const char *name, struct err *err)
{
    char path[JOBDIR_MAX], hidden[128];
    int parent, fd, rc = 0;

    jobdir_checkpoint_path(path, job_dir, "");
    snprintf(hidden, sizeof(hidden), ".tmp-%s", name);
    assert(strchr(name, '/') == NULL && name[0] != '.');
    parent = open(path, DIR_FLAGS);
    if (parent < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    /* First out of sight, so that half a removal is never taken for one. */
    if (renameat(parent, name, parent, hidden) != 0 && errno != ENOENT)
        rc = err_set_errno(err, ERR_IO, errno, "%s%s", path, name);
    fd = rc == 0 ? openat(parent, hidden, DIR_FLAGS) : -1;
    if (fd >= 0)
        rc = empty_directory(fd, err);
    if (fd >= 0 && rc == 0 && unlinkat(parent, hidden, AT_REMOVEDIR) != 0)
        rc = err_set_errno(err, ERR_IO, errno, "%s%s", path, hidden);
    close(parent);
    return rc;
}
