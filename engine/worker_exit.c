/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_exit.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_STOPPED 75

int
worker_exit_code(const struct event *finished)
{
    assert(finished->kind == EVENT_FINISHED);
    switch (finished->u.finished.outcome) {
    case EVENT_OUTCOME_COMPLETED: return 0;
    case EVENT_OUTCOME_STOPPED:
    case EVENT_OUTCOME_PAUSED:
    case EVENT_OUTCOME_GO_BACK: return EXIT_STOPPED;
    case EVENT_OUTCOME_FAILED: break;
    }
    return err_exit_code(finished->u.finished.error);
}

static char *
format(int64_t attempt, const struct event *e)
{
    json_t *o = json_pack(
        "{s:I,s:s,s:s,s:s,s:i,s:I,s:I,s:I}", "attempt", (json_int_t)attempt,
        "outcome", event_outcome_name(e->u.finished.outcome), "error",
        err_name(e->u.finished.error), "text", e->u.finished.text, "exit_code",
        worker_exit_code(e), "iteration", (json_int_t)e->iteration, "updates",
        (json_int_t)e->updates, "skips", (json_int_t)e->skips);
    char *text = o != NULL ? json_dumps(o, JSON_COMPACT) : NULL;

    json_decref(o);
    return text;
}

static int
write_whole(const char *path, const char *text, struct err *err)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    const size_t len = strlen(text);
    int rc = 0;

    if (fd < 0)
        return err_set_errno(err, ERR_IO, errno, "%s", path);
    const ssize_t n = write(fd, text, len);
    if (n >= 0 && (size_t)n < len)
        errno = ENOSPC;
    if (n < 0 || (size_t)n < len || fsync(fd) < 0)
        rc = err_set_errno(err, ERR_IO, errno, "%s", path);
    close(fd);
    return rc;
}

int
worker_exit_write(const char *directory, int64_t attempt,
                  const struct event *finished, struct err *err)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    char *text = format(attempt, finished);
    int rc = 0;

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "exit.json: no memory");
    snprintf(path, sizeof(path), "%s/exit.json", directory);
    snprintf(temporary, sizeof(temporary), "%s/.tmp-exit.json", directory);
    rc = write_whole(temporary, text, err);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = err_set_errno(err, ERR_IO, errno, "%s", path);
    if (rc != 0)
        unlink(temporary);
    free(text);
    return rc;
}
