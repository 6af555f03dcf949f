/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/export.h"
#include "ctl/format.h"
#include "ctl/target.h"
#include "ctl/weights.h"

#define CHUNK (1024 * 1024)

/* What was changed up to the attempt that wrote the checkpoint. */
struct past {
    const char *checkpoint;
    int64_t attempt; /* that wrote it; 0: not known */
    bool changed;
    char difference[1024];
};

struct copy {
    struct weights weights;
    struct target target;
    struct past past;
};

static int
copy_bytes(int from, int to, int64_t *bytes)
{
    char *chunk = malloc(CHUNK);
    ssize_t n = -1;

    *bytes = 0;
    while (chunk != NULL && (n = read(from, chunk, CHUNK)) > 0) {
        for (ssize_t done = 0; done < n;) {
            ssize_t wrote = write(to, chunk + done, (size_t)(n - done));
            if (wrote < 0 && errno != EINTR) {
                free(chunk);
                return -1;
            }
            done += wrote > 0 ? wrote : 0;
        }
        *bytes += n;
    }
    free(chunk);
    return n == 0 ? 0 : -1;
}

static int
copy_checkpoint(struct copy *c, int64_t *bytes, struct err *err)
{
    const char *path = c->weights.path;
    const int from = open(path, O_RDONLY | O_CLOEXEC);
    int rc = 0;

    if (from < 0)
        return err_set_errno(err, errno == EACCES ? ERR_DENIED : ERR_IO, errno,
                             "%s", path);
    if (copy_bytes(from, c->target.fd, bytes) < 0)
        rc = target_refuse(&c->target, errno, err);
    close(from);
    return rc == 0 ? target_commit(&c->target, err) : rc;
}

/* ---- what they are of -----------------------------------------------------*/

static int
find_attempt(void *ctx, const void *view, struct err *err)
{
    const struct view_checkpoint *c = view;
    struct past *past = ctx;

    (void)err;
    if (strcmp(c->name, past->checkpoint) == 0)
        past->attempt = c->attempt;
    return 0;
}

static int
add_change(void *ctx, const void *view, struct err *err)
{
    const struct view_attempt *a = view;
    struct past *past = ctx;
    const size_t n = strlen(past->difference);

    (void)err;
    if (!a->policy_changed || a->attempt > past->attempt)
        return 0;
    past->changed = true;
    snprintf(past->difference + n, sizeof(past->difference) - n, "%s%s",
             n > 0 && a->difference[0] != '\0' ? ", " : "", a->difference);
    return 0;
}

/* Of the checkpoint, not of the job: an earlier one knows nothing of a later
 * change. */
static int
read_past(struct session *s, const struct export_job *job, struct copy *c,
          struct err *err)
{
    struct view_job_ref ref;
    struct view_query query;
    int rc;

    if (!job->view->policy_changed)
        return 0;
    view_init(VIEW_ID_query, &query);
    query.job = job->ref;
    query.all_lines = true;
    c->past.checkpoint = c->weights.name;
    rc = session_many(s, MESSAGE_ID_checkpoints, &query, find_attempt, &c->past,
                      err);
    view_init(VIEW_ID_job_ref, &ref);
    ref.job = job->ref;
    if (rc == 0)
        rc = session_many(s, MESSAGE_ID_attempts, &ref, add_change, &c->past,
                          err);
    return rc;
}

/* Whoever takes the weights along is told that not one policy made them. */
static void
say_what_changed(const struct session *s, const struct copy *c,
                 const struct view_job *job)
{
    if (!c->past.changed)
        return;
    session_say(s,
                "job %" PRId64 " changed its policy before that checkpoint%s%s;"
                " \"trainctl lineage %" PRId64 "\" has the story",
                job->id, c->past.difference[0] != '\0' ? ": " : "",
                c->past.difference, job->id);
}

static void
say_what_was_copied(const struct session *s, const struct copy *c,
                    const struct export_job *job, int64_t bytes)
{
    char size[FORMAT_MAX];

    format_bytes(bytes, size, sizeof(size));
    if (!target_is_stdout(&c->target))
        session_tell(s, "%s", c->target.path);
    session_say(s, "%sweights of job %s at checkpoint %s, %s",
                c->weights.ema ? "averaged " : "", job->ref, c->weights.name,
                size);
    say_what_changed(s, c, job->view);
}

int
export_weights(struct session *s, const struct export_job *job, struct err *err)
{
    struct copy *c = calloc(1, sizeof(*c));
    char name[NAME_MAX + 1];
    int64_t bytes = 0;
    int rc;

    if (c == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    target_name(job->view->name, "model", ".safetensors", name);
    c->weights.ema = args_flag(s->args, "ema");
    rc = weights_find(s, job->ref, args_value(s->args, "checkpoint"),
                      &c->weights, err);
    if (rc == 0)
        rc = read_past(s, job, c, err);
    if (rc == 0)
        rc = target_open(&c->target, job->to != NULL ? job->to : name,
                         args_flag(s->args, "force"), err);
    if (rc == 0 && target_is_stdout(&c->target) && isatty(STDOUT_FILENO))
        rc = err_set(err, ERR_USAGE, "weights do not go to a terminal");
    else if (rc == 0)
        rc = copy_checkpoint(c, &bytes, err);
    if (rc == 0)
        say_what_was_copied(s, c, job, bytes);
    target_abandon(&c->target);
    free(c);
    return rc;
}
