/* SPDX-License-Identifier: Apache-2.0 */
/* What an attempt printed: GET /v1/jobs/{id}/logs, by ranges or lines.
 *
 * The directory is the submitter's: whatever lies at the file's name is opened
 * without following a link anywhere, off the loop, and is given away only if
 * it is a regular file of one name that the submitter or we own. */
#include "daemon/http_api.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/command.h"
#include "daemon/http_problem.h"
#include "daemon/jobdir.h"

#define MOST_LINES 100000
#define TAIL_BYTES (4 * 1024 * 1024) /* that lines are looked for in */

struct log_call {
    uv_work_t work;
    struct http_exchange *x; /* NULL: it has gone */
    struct request *request; /* the question whose job it is */
    char state_dir[DAEMON_PATH_MAX];
    char path[JOBDIR_MAX]; /* relative to state_dir */
    char range[64];
    const char *stream; /* constant */
    int64_t uid, attempt, lines;
    /* found */
    int fd;
    int64_t size, offset, len;
    int status;
    struct err err;
};

/* ---- off the loop ---------------------------------------------------------*/

static int
open_beneath(const char *dir, const char *path)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
        .resolve =
            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd, saved;

    if (at < 0)
        return -1;
    fd = (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
    saved = errno;
    close(at);
    errno = saved;
    return fd;
}

/* Where the last `lines` lines begin. */
static int64_t
find_tail(int fd, int64_t size, int64_t lines)
{
    int64_t n = size < TAIL_BYTES ? size : TAIL_BYTES, at = size - n;
    char *buf = malloc((size_t)n + 1);
    int64_t i = buf != NULL ? pread(fd, buf, (size_t)n, at) : 0;

    /* A line feed at the end ends the last line, it begins none. */
    for (i = i > 0 ? i - 1 : 0; i > 0; i--)
        if (buf[i - 1] == '\n' && --lines == 0)
            break;
    free(buf);
    return at + i;
}

/* "bytes=A-B", "bytes=A-" or "bytes=-N"; anything else asks for everything. */
static void
take_range(struct log_call *c)
{
    int64_t from = -1, to = -1;
    char *end, *p = c->range;

    c->len = c->size - c->offset;
    if (strncmp(p, "bytes=", 6) != 0 || strchr(p, ',') != NULL)
        return;
    p += 6;
    if (*p != '-') {
        from = strtoll(p, &end, 10);
        if (end == p || *end != '-' || from < 0)
            return;
        p = end;
    }
    p++;
    if (*p != '\0') {
        to = strtoll(p, &end, 10);
        if (*end != '\0' || to < 0)
            return;
    }
    if (from < 0 && to < 0)
        return;
    if (from < 0) {
        from = to < c->size ? c->size - to : 0;
        to = c->size - 1;
    } else if (to < 0 || to >= c->size) {
        to = c->size - 1;
    }
    c->status = from > to ? 416 : 206;
    c->offset = from;
    c->len = to - from + 1;
}

static void
on_work(uv_work_t *work)
{
    struct log_call *c = work->data;
    struct stat st;

    c->fd = open_beneath(c->state_dir, c->path);
    if (c->fd < 0 || fstat(c->fd, &st) != 0) {
        err_set(&c->err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO,
                errno == ENOENT ? "attempt %" PRId64 " has no %s"
                                : "attempt %" PRId64 ": %s cannot be read",
                c->attempt, c->stream);
        return;
    }
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        ((int64_t)st.st_uid != c->uid && st.st_uid != geteuid())) {
        err_set(&c->err, ERR_DENIED,
                "attempt %" PRId64 ": what is at the place of %s is not the "
                "file that was made there",
                c->attempt, c->stream);
        return;
    }
    c->size = st.st_size;
    c->status = 200;
    if (c->lines > 0)
        c->offset = find_tail(c->fd, c->size, c->lines);
    take_range(c);
}

/* ---- on it ----------------------------------------------------------------*/

static void
answer(struct log_call *c)
{
    char text[96];

    http_add_header(c->x, "Accept-Ranges", "bytes");
    if (c->err.code != 0) {
        http_problem(c->x, &c->err, NULL);
    } else if (c->status == 416) {
        snprintf(text, sizeof(text), "bytes */%" PRId64, c->size);
        http_add_header(c->x, "Content-Range", text);
        http_problem_status(c->x, 416, ERR_USAGE,
                            "the range lies behind the end of the file");
    } else {
        if (c->status == 206) {
            snprintf(text, sizeof(text),
                     "bytes %" PRId64 "-%" PRId64 "/%" PRId64, c->offset,
                     c->offset + c->len - 1, c->size);
            http_add_header(c->x, "Content-Range", text);
        }
        http_answer_file_take(c->x, c->status, "text/plain; charset=utf-8",
                              c->fd, c->offset, c->len);
        c->fd = -1;
    }
}

static void
on_worked(uv_work_t *work, int status)
{
    struct log_call *c = work->data;

    (void)status;
    if (c->x != NULL) {
        http_keep(c->x)->leave = NULL;
        answer(c);
    }
    if (c->fd >= 0)
        close(c->fd);
    free(c);
}

static void
on_job(void *ctx, const struct request *request, const void *items, int n,
       bool more)
{
    const struct view_job *job = items;
    struct log_call *c = ctx;

    (void)request;
    (void)n;
    (void)more;
    c->request = NULL;
    if (c->attempt == 0)
        c->attempt = job->attempt;
    if (c->attempt < 1 || c->attempt > job->attempt) {
        err_set(&c->err, ERR_NOTFOUND,
                "job %" PRId64 " has no attempt %" PRId64, job->id, c->attempt);
        http_keep(c->x)->leave = NULL;
        http_problem(c->x, &c->err, NULL);
        free(c);
        return;
    }
    c->uid = job->uid;
    snprintf(c->path, sizeof(c->path),
             "jobs/%" PRId64 "/attempts/%" PRId64 "/%s", job->id, c->attempt,
             c->stream);
    c->work.data = c;
    uv_queue_work(uv_default_loop(), &c->work, on_work, on_worked);
}

static void
on_no_job(void *ctx, const struct request *request, const struct err *err,
          const struct spec_faults *faults)
{
    struct log_call *c = ctx;

    (void)request;
    http_keep(c->x)->leave = NULL;
    http_problem(c->x, err, faults);
    free(c);
}

static void
on_dropped(void *ctx)
{
    struct err err;

    err_set(&err, ERR_AGAIN, "the daemon goes down; ask again later");
    on_no_job(ctx, NULL, &err, NULL);
}

static const struct request_door door = {on_job, on_no_job, on_dropped};

static void
on_leave(void *ctx, struct http_exchange *x)
{
    struct log_call *c = ctx;

    (void)x;
    c->x = NULL;
    if (c->request != NULL) {
        request_leave(c->request);
        free(c);
    }
}

/* ---- the question ---------------------------------------------------------*/

static int
read_number(const struct http_uri *uri, const char *key, int64_t most,
            int64_t *out, struct err *err)
{
    const char *text = http_uri_find(uri, key);
    char *end;

    if (text == NULL)
        return 0;
    *out = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || *out > most ||
        *out < 1)
        return err_set(err, ERR_USAGE,
                       "%s: \"%.60s\" is no number from 1 to %" PRId64, key,
                       text, most);
    return 0;
}

static int
read_question(const struct http_uri *uri, struct log_call *c, struct err *err)
{
    const char *stream = http_uri_find(uri, "stream");
    int rc = read_number(uri, "attempt", INT32_MAX, &c->attempt, err);

    if (rc == 0)
        rc = read_number(uri, "tail", MOST_LINES, &c->lines, err);
    c->stream = "stdout";
    if (stream != NULL && strcmp(stream, "stderr") == 0)
        c->stream = "stderr";
    else if (rc == 0 && stream != NULL && strcmp(stream, "stdout") != 0)
        rc = err_set(err, ERR_USAGE,
                     "stream: \"%.60s\" is neither stdout nor stderr", stream);
    for (int i = 0; rc == 0 && i < uri->n_pairs; i++)
        if (strcmp(uri->pair[i].key, "attempt") != 0 &&
            strcmp(uri->pair[i].key, "tail") != 0 &&
            strcmp(uri->pair[i].key, "stream") != 0)
            rc = err_set(err, ERR_USAGE,
                         "%.60s: unknown parameter; known: attempt, stream, "
                         "tail",
                         uri->pair[i].key);
    return rc;
}

void
http_give_logs(const struct http_call *call)
{
    const char *range = http_header(call->x, "Range");
    struct log_call *c = calloc(1, sizeof(*c));

    assert(c != NULL);
    c->x = call->x;
    c->fd = -1;
    snprintf(c->state_dir, sizeof(c->state_dir), "%s", call->d->state_dir);
    if (range != NULL && strlen(range) < sizeof(c->range))
        strcpy(c->range, range);
    if (read_question(call->uri, c, &c->err) != 0) {
        http_problem(c->x, &c->err, NULL);
        free(c);
        return;
    }
    c->request = request_create_at(&door, c, MESSAGE_ID_status, &call->peer);
    assert(c->request != NULL);
    c->request->memory = strdup(call->uri->segment[2]);
    assert(c->request->memory != NULL);
    c->request->args.job_ref.job = c->request->memory;
    http_keep(c->x)->ctx = c;
    http_keep(c->x)->leave = on_leave;
    command_run(call->d, c->request);
}
