/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/adopt.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/checkpoints.h"
#include "daemon/jobdir.h"
#include "daemon/log.h"
#include "proto/codec.h"

#define MANIFEST_MAX 65536
#define ENTRIES_MAX  16384 /* looked at; a job keeps far fewer */
#define DIR_FLAGS    (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct search {
    struct daemon *d;
    struct job *job;
    adopt_fn *done;
    void *ctx;
};

static void
on_stored(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct daemon *d = ctx;

    (void)id;
    d->background--;
    if (rc != 0)
        log_errx("checkpoint not listed: %s", err->msg);
}

static int64_t
total_bytes(int dir)
{
    int again = openat(dir, ".", DIR_FLAGS);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    int64_t bytes = 0;
    struct dirent *entry;
    struct stat st;

    if (list == NULL) {
        if (again >= 0)
            close(again);
        return 0;
    }
    while ((entry = readdir(list)) != NULL)
        if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            bytes += st.st_size;
    closedir(list);
    return bytes;
}

/* The manifest has the names of a checkpoint's fields; what else is in it is
 * not ours. */
static bool
read_manifest(int dir, struct view_checkpoint *c, struct codec_doc **doc)
{
    int fd = openat(dir, "manifest.json",
                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    char *text = malloc(MANIFEST_MAX);
    ssize_t n = -1;
    struct stat st;
    struct err err;
    bool ok = false;

    if (fd >= 0 && text != NULL && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = read(fd, text, MANIFEST_MAX);
    if (n > 0 && n < MANIFEST_MAX) {
        ok = codec_read_view(text, (size_t)n, VIEW_ID_checkpoint, c, doc,
                             &err) == 0;
        c->t_us =
            (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    }
    if (fd >= 0)
        close(fd);
    free(text);
    return ok;
}

static bool
adopt_one(struct search *s, int parent, const char *name)
{
    int64_t iteration, attempt;
    struct view_checkpoint c;
    struct codec_doc *doc = NULL;
    bool ok = false;
    int dir;

    if (!checkpoints_parse_name(name, &iteration, &attempt) ||
        attempt != s->job->row.view.attempt)
        return false;
    dir = openat(parent, name, DIR_FLAGS);
    if (dir < 0)
        return false;
    ok = read_manifest(dir, &c, &doc) && c.iteration == iteration &&
         c.skips >= 0 && c.skips <= iteration &&
         c.updates == iteration - c.skips;
    if (ok) {
        c.job = s->job->row.view.id;
        c.name = name;
        c.attempt = attempt;
        c.live = true;
        c.cause = event_checkpoint_cause_name(EVENT_CHECKPOINT_PERIODIC);
        c.bytes = total_bytes(dir);
        log_info("job %" PRId64 ": checkpoint %s is whole but was never told "
                 "of; listed",
                 c.job, name);
        s->d->background++;
        store_adopt_checkpoint(s->d->store, &c, on_stored, s->d);
        if (iteration >= s->job->row.view.checkpoint_iteration) {
            job_set_text(&s->job->row.view.checkpoint, name);
            s->job->row.view.checkpoint_iteration = iteration;
        }
    }
    codec_doc_close(&doc);
    close(dir);
    return ok;
}

static void
on_gathered(void *ctx, int rc, const struct checkpoints *known,
            const struct err *err)
{
    struct search *s = ctx;
    char path[JOBDIR_MAX];
    struct dirent *entry;
    DIR *list;
    int n = 0, seen = 0;

    jobdir_checkpoint_path(path, s->job->row.view.directory, "");
    list = opendir(path);
    if (rc != 0)
        log_errx("job %" PRId64 ": checkpoints: %s", s->job->row.view.id,
                 err->msg);
    /* The directory is the submitter's: it may hold anything. */
    while (rc == 0 && list != NULL && seen++ < ENTRIES_MAX &&
           (entry = readdir(list)) != NULL)
        if (checkpoints_find_name(known, entry->d_name) == NULL)
            n += adopt_one(s, dirfd(list), entry->d_name);
    if (list != NULL)
        closedir(list);
    s->done(s->ctx, n);
    free(s);
}

void
adopt_checkpoints(struct daemon *d, struct job *job, adopt_fn *done, void *ctx)
{
    struct search *s = calloc(1, sizeof(*s));

    assert(s != NULL);
    s->d = d;
    s->job = job;
    s->done = done;
    s->ctx = ctx;
    checkpoints_gather(d->store, job->row.view.id, on_gathered, s);
}
