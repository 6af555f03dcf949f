/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/retry.h"
#include "ctl/tail.h"

#define LOOK_MS   200 /* between looks at the files */
#define ASK_EVERY 5   /* looks between questions to the daemon */
#define MAX_FILES 2

/* The files of one attempt that are shown, and where each goes. */
struct logs {
    struct session *s;
    const char *ref;
    const char *stream; /* NULL: stdout and stderr, each to its own */
    int64_t tail_lines; /* -1 = all */
    int64_t attempt;    /* shown now; 0 = none */
    bool pinned;        /* --attempt */
    bool final;         /* nothing more will come */
    struct {
        struct tail tail;
        char path[PATH_MAX];
        FILE *to;
    } file[MAX_FILES];
    int n_files;
};

static int
add_file(struct logs *logs, const char *path, FILE *to, struct err *err)
{
    assert(logs->n_files < MAX_FILES);
    logs->file[logs->n_files].tail.fd = -1;
    logs->file[logs->n_files].to = to;
    if (strlen(path) >= PATH_MAX)
        return err_set(err, ERR_PROTO, "the log's path is too long");
    strcpy(logs->file[logs->n_files].path, path);
    logs->n_files++;
    return 0;
}

/* <job>/attempts/3/stdout to <job>/attempts/<attempt>/stdout. */
static int
change_attempt(char *path, int64_t attempt, struct err *err)
{
    char moved[PATH_MAX];
    char *name = strrchr(path, '/');

    if (name == NULL || name == path)
        return err_set(err, ERR_PROTO, "%s: no log's path", path);
    *name++ = '\0';
    char *number = strrchr(path, '/');
    if (number == NULL)
        return err_set(err, ERR_PROTO, "%s: no log's path", path);
    *number = '\0';
    if (snprintf(moved, sizeof(moved), "%s/%" PRId64 "/%s", path, attempt,
                 name) >= (int)sizeof(moved))
        return err_set(err, ERR_PROTO, "the log's path is too long");
    strcpy(path, moved);
    return 0;
}

static int
choose_files(struct logs *logs, const struct view_paths *paths, struct err *err)
{
    FILE *out = logs->s->out.f;

    logs->n_files = 0;
    if (logs->stream == NULL) {
        int rc = add_file(logs, paths->stdout_path, out, err);
        return rc < 0 ? rc : add_file(logs, paths->stderr_path, stderr, err);
    }
    if (strcmp(logs->stream, "stdout") == 0)
        return add_file(logs, paths->stdout_path, out, err);
    if (strcmp(logs->stream, "stderr") == 0)
        return add_file(logs, paths->stderr_path, out, err);
    if (strcmp(logs->stream, "events") == 0)
        return add_file(logs, paths->events_path, out, err);
    return err_set(err, ERR_USAGE, "--stream %s: stdout, stderr or events",
                   logs->stream);
}

static int
copy_files(struct logs *logs, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < logs->n_files; i++) {
        if (logs->file[i].tail.fd < 0)
            rc = tail_open(&logs->file[i].tail, logs->file[i].path,
                           logs->tail_lines, err);
        if (rc == 0)
            rc = tail_copy(&logs->file[i].tail, logs->file[i].to, err);
    }
    return rc;
}

static void
close_files(struct logs *logs)
{
    for (int i = 0; i < logs->n_files; i++)
        tail_close(&logs->file[i].tail);
    logs->n_files = 0;
}

/* From one attempt to the next: the old one is read to its end first. */
static int
leave_attempt(struct logs *logs, int64_t next, struct err *err)
{
    int rc = copy_files(logs, err);

    session_say(logs->s, "-- attempt %" PRId64 " --", next);
    logs->tail_lines = -1;
    return rc;
}

/* Where the files of the attempt asked for, or of the latest, are: the first
 * time, and whenever a new one has begun. */
static int
find_files(struct logs *logs, struct err *err)
{
    struct view_job_ref args;
    struct view_paths paths;
    int rc;

    view_init(VIEW_ID_job_ref, &args);
    args.job = logs->ref;
    rc = session_one(logs->s, MESSAGE_ID_paths, &args, &paths, err);
    if (rc < 0 || paths.attempt == 0)
        return rc;
    bool same = logs->pinned || paths.attempt == logs->attempt;
    if (logs->n_files > 0 && same)
        return 0;
    if (logs->n_files > 0)
        rc = leave_attempt(logs, paths.attempt, err);
    close_files(logs);
    if (rc == 0)
        rc = choose_files(logs, &paths, err);
    if (!logs->pinned)
        logs->attempt = paths.attempt;
    for (int i = 0; rc == 0 && logs->pinned && i < logs->n_files; i++)
        rc = change_attempt(logs->file[i].path, logs->attempt, err);
    return rc;
}

/* Asks whether more can come. The end is decided before the last look at the
 * files, so that nothing written before it is missed. */
static int
ask_state(struct logs *logs, struct err *err)
{
    struct call_held_job held = {0};
    int rc = session_job(logs->s, logs->ref, &held, err);

    if (rc == 0)
        logs->final = held.job.exit_code >= 0 ||
                      (logs->pinned && held.job.attempt > logs->attempt);
    call_held_job_fini(&held);
    return rc == 0 ? find_files(logs, err) : rc;
}

static int
follow_logs(struct logs *logs, struct err *err)
{
    struct retry retry = {0};
    int rc = 0;

    for (int look = 0; rc == 0; look++) {
        if (look % ASK_EVERY == 0) {
            rc = ask_state(logs, err);
            if (rc < 0 && retry_is_worth(rc))
                rc = retry_link(&retry, logs->s, -1, err);
            else if (rc == 0)
                retry_forget(&retry);
        }
        if (rc == 0)
            rc = copy_files(logs, err);
        if (rc == 0 && logs->final)
            break;
        if (rc == 0)
            rc = session_sleep(logs->s, LOOK_MS, err);
    }
    return rc;
}

static int
show_logs(struct logs *logs, struct err *err)
{
    int rc = find_files(logs, err);
    bool any = false;

    if (rc == 0 && logs->n_files == 0) {
        session_say(logs->s, "job %s has not begun, so there is no log",
                    logs->ref);
        return 0;
    }
    if (rc == 0)
        rc = copy_files(logs, err);
    for (int i = 0; i < logs->n_files; i++)
        any = any || logs->file[i].tail.fd >= 0;
    if (rc == 0 && !any)
        return err_set(err, ERR_NOTFOUND, "%s: no such log",
                       logs->file[0].path);
    return rc;
}

static int
run_logs(struct session *s, struct err *err)
{
    struct logs *logs = calloc(1, sizeof(*logs)); /* paths are large */
    struct call_held_job held = {0};
    char id[24], *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    if (logs == NULL && rc == 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc < 0)
        goto out;
    logs->s = s;
    logs->stream = args_value(s->args, "stream");
    logs->pinned = args_value(s->args, "attempt") != NULL;
    rc = args_i64(s->args, "tail", -1, 0, INT64_MAX, &logs->tail_lines, err);
    if (rc == 0)
        rc = args_i64(s->args, "attempt", 0, 1, 1000000, &logs->attempt, err);
    if (rc == 0)
        rc = session_job(s, ref, &held, err); /* "@" for good */
    if (rc < 0)
        goto out;
    snprintf(id, sizeof(id), "%" PRId64, held.job.id);
    logs->ref = id;
    rc = args_flag(s->args, "follow") ? follow_logs(logs, err)
                                      : show_logs(logs, err);
out:
    if (logs != NULL)
        close_files(logs);
    call_held_job_fini(&held);
    free(logs);
    free(ref);
    return rc;
}

const struct cmd cmd_logs = {
    .name = "logs",
    .synopsis = "JOB",
    .doc = "what the worker wrote",
    .detail = "Opens the files itself, with your rights. Without --stream the "
              "worker's standard output goes to standard output and its "
              "standard error to standard error. --follow goes on from attempt "
              "to attempt until the job is final.",
    .options =
        (const struct args_option[]){
            {"stream", 0, "WHICH", "stdout, stderr or events"},
            {"attempt", 0, "N", "of attempt N; default the latest"},
            {"tail", 0, "N", "begin N lines before the end"},
            {"follow", 'f', NULL, "go on until the job is final"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_logs,
};
