/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int
program_find(const char *name, char *out, size_t size, struct err *err)
{
    static const char *const places[] = {"", "../libexec/traind/"};
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n <= 0)
        return err_set_errno(err, ERR_IO, errno, "/proc/self/exe");
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (snprintf(out, size, "%s/%s%s", self, places[i], name) < (int)size &&
            access(out, X_OK) == 0)
            return 0;
    }
    return err_set(err, ERR_CONFIG,
                   "%s is neither in %s nor in ../libexec/traind beside it",
                   name, self);
}

/* ---- the child ------------------------------------------------------------*/

struct child {
    pid_t pid;
    int to, from; /* its standard input and output; -1: closed */
};

static void
become(char *const *argv, int in, int out)
{
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execv(argv[0], argv);
    fprintf(stderr, "trainctl: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int
start(struct child *c, char *const *argv, struct err *err)
{
    int in[2], out[2] = {-1, -1};

    if (pipe2(in, O_CLOEXEC) < 0)
        return err_set_errno(err, ERR_IO, errno, "pipe");
    if (pipe2(out, O_CLOEXEC) == 0)
        c->pid = fork();
    if (out[0] < 0 || c->pid < 0) {
        err_set_errno(err, ERR_IO, errno, "%s", argv[0]);
        close(in[0]);
        close(in[1]);
        if (out[0] >= 0) {
            close(out[0]);
            close(out[1]);
        }
        return err->code;
    }
    if (c->pid == 0)
        become(argv, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    c->to = in[1];
    c->from = out[0];
    fcntl(c->to, F_SETFL, O_NONBLOCK);
    return 0;
}

/* A child that reads no more of it is no fault of ours: its status tells. */
static void
feed(struct child *c, const char **input, size_t *n)
{
    const ssize_t wrote = write(c->to, *input, *n);

    if (wrote > 0) {
        *input += wrote;
        *n -= (size_t)wrote;
    } else if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    } else if (wrote < 0) {
        *n = 0;
    }
    if (*n > 0)
        return;
    close(c->to);
    c->to = -1;
}

static int
drain(struct child *c, program_output_fn *fn, void *ctx, struct err *err)
{
    char bytes[4096];
    const ssize_t n = read(c->from, bytes, sizeof(bytes));

    if (n > 0)
        return fn(ctx, bytes, (size_t)n, err);
    if (n < 0 && errno == EINTR)
        return 0;
    close(c->from);
    c->from = -1;
    return 0;
}

static int
talk(struct child *c, const char *input, size_t n_input, program_output_fn *fn,
     void *ctx, struct err *err)
{
    int rc = 0;

    while (rc == 0 && c->from >= 0) {
        struct pollfd p[2] = {{c->from, POLLIN, 0}, {c->to, POLLOUT, 0}};

        if (poll(p, c->to >= 0 ? 2 : 1, -1) < 0) {
            if (errno == EINTR)
                continue;
            return err_set_errno(err, ERR_IO, errno, "poll");
        }
        if (c->to >= 0 && p[1].revents != 0)
            feed(c, &input, &n_input);
        if (p[0].revents != 0)
            rc = drain(c, fn, ctx, err);
    }
    return rc;
}

static int
reap(struct child *c)
{
    int status;

    while (waitpid(c->pid, &status, 0) < 0)
        if (errno != EINTR)
            return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int
program_run(char *const *argv, const char *input, size_t n_input,
            program_output_fn *fn, void *ctx, struct err *err)
{
    struct child c = {-1, -1, -1};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    int status, rc;

    sigaction(SIGPIPE, &ignore, &before);
    rc = start(&c, argv, err);
    if (rc == 0) {
        rc = talk(&c, input, n_input, fn, ctx, err);
        if (c.to >= 0)
            close(c.to);
        if (c.from >= 0)
            close(c.from);
        if (rc < 0)
            kill(c.pid, SIGTERM);
        status = reap(&c);
        if (rc == 0)
            rc = status;
    }
    sigaction(SIGPIPE, &before, NULL);
    return rc;
}
