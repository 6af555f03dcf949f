/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/weights.h"

#define CHUNK (1024 * 1024)

struct export
{
    const char *ref;
    struct weights weights;
    char target[PATH_MAX];
    bool force;
};

/* ---- copying -------------------------------------------------------------*/

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

/* Into a nameless or temporary file beside the target, then to its name: a
 * reader sees the old file or the whole new one. */
static int
copy_to_file(struct export *x, int from, int64_t *bytes, struct err *err)
{
    char temporary[PATH_MAX + 16];
    int to, rc = 0;

    snprintf(temporary, sizeof(temporary), "%s.tmp-XXXXXX", x->target);
    to = mkostemp(temporary, O_CLOEXEC);
    if (to < 0)
        return err_set_errno(err, errno == EACCES ? ERR_DENIED : ERR_IO, errno,
                             "%s", temporary);
    mode_t mask = umask(0);
    umask(mask);
    if (copy_bytes(from, to, bytes) < 0 || fchmod(to, 0666 & ~mask) < 0 ||
        fsync(to) < 0)
        rc = err_set_errno(err, errno == ENOSPC ? ERR_NOSPACE : ERR_IO, errno,
                           "%s", x->target);
    close(to);
    if (rc == 0 && renameat2(AT_FDCWD, temporary, AT_FDCWD, x->target,
                             x->force ? 0 : RENAME_NOREPLACE) < 0)
        rc = errno == EEXIST
                 ? err_set(err, ERR_EXISTS,
                           "%s exists already; --force "
                           "replaces it",
                           x->target)
                 : err_set_errno(err, ERR_IO, errno, "%s", x->target);
    if (rc < 0)
        unlink(temporary);
    return rc;
}

static int
copy_checkpoint(struct session *s, struct export *x, struct err *err)
{
    bool to_stdout = strcmp(x->target, "-") == 0;
    char size[FORMAT_MAX];
    int64_t bytes = 0;
    int from, rc = 0;

    if (to_stdout && isatty(STDOUT_FILENO))
        return err_set(err, ERR_USAGE, "weights do not go to a terminal");
    if (!to_stdout && !x->force && access(x->target, F_OK) == 0)
        return err_set(err, ERR_EXISTS,
                       "%s exists already; --force replaces "
                       "it",
                       x->target);
    from = open(x->weights.path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return err_set_errno(err, errno == EACCES ? ERR_DENIED : ERR_IO, errno,
                             "%s", x->weights.path);
    if (!to_stdout)
        rc = copy_to_file(x, from, &bytes, err);
    else if (copy_bytes(from, STDOUT_FILENO, &bytes) < 0)
        rc = err_set_errno(err, ERR_IO, errno, "standard output");
    close(from);
    if (rc < 0)
        return rc;
    format_bytes(bytes, size, sizeof(size));
    if (!to_stdout)
        session_tell(s, "%s", x->target);
    session_say(s, "%sweights of job %s at checkpoint %s, %s",
                x->weights.ema ? "averaged " : "", x->ref, x->weights.name,
                size);
    return 0;
}

/* Whoever takes the weights along is told that not one policy made them. */
static void
say_what_changed(const struct session *s, const struct view_job *job)
{
    if (!job->policy_changed)
        return;
    session_say(s,
                "job %" PRId64 " changed its policy on the way%s%s; "
                "\"trainctl lineage %" PRId64 "\" has the story",
                job->id, job->difference[0] != '\0' ? ": " : "",
                job->difference, job->id);
}

/* NAME.safetensors, NAME as a file name of the working directory. */
static void
default_target(struct export *x, const char *name)
{
    size_t n = 0;

    for (; *name != '\0' && n < NAME_MAX - 24; name++) {
        unsigned char c = (unsigned char)*name;
        bool bad = c == '/' || iscntrl(c) || (n == 0 && (c == '.' || c == '-'));
        x->target[n++] = bad ? '_' : (char)c;
    }
    strcpy(x->target + n, n > 0 ? ".safetensors" : "model.safetensors");
}

static int
run_export(struct session *s, struct err *err)
{
    struct export *x = calloc(1, sizeof(*x));
    struct call_held_job held = {0};
    const char *which = args_value(s->args, "checkpoint");
    const char *target = args_value(s->args, "to");
    char id[24], *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    if (x == NULL && rc == 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = session_job(s, ref, &held, err);
    if (rc < 0)
        goto out;
    snprintf(id, sizeof(id), "%" PRId64, held.job.id);
    x->ref = id;
    x->force = args_flag(s->args, "force");
    x->weights.ema = args_flag(s->args, "ema");
    if (target == NULL)
        default_target(x, held.job.name);
    else if (strlen(target) >= PATH_MAX)
        rc = err_set(err, ERR_USAGE, "--to: longer than a path may be");
    else
        strcpy(x->target, target);
    if (rc == 0)
        rc = weights_find(s, x->ref, which, &x->weights, err);
    if (rc == 0)
        rc = copy_checkpoint(s, x, err);
    if (rc == 0)
        say_what_changed(s, &held.job);
out:
    call_held_job_fini(&held);
    free(x);
    free(ref);
    return rc;
}

const struct cmd cmd_export = {
    .name = "export",
    .synopsis = "JOB",
    .doc = "copy a checkpoint's weights to a safetensors file",
    .detail = "Copies with your rights. The default is the last checkpoint, to "
              "NAME.safetensors in the working directory.",
    .options =
        (const struct args_option[]){
            WEIGHTS_OPTION,
            WEIGHTS_EMA_OPTION,
            {"to", 0, "FILE", "the file, or - for standard output"},
            {"force", 0, NULL, "replace a file that is there"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_export,
};
