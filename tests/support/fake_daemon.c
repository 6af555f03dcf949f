/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_daemon.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 20 /* for either side, before the test fails */
#define FRAME_MAX  65536
#define MAX_ARGS   32

static char directory[64];

const char *
fake_daemon_directory(void)
{
    if (directory[0] == '\0') {
        strcpy(directory, "/tmp/trainctl-test-XXXXXX");
        assert_non_null(mkdtemp(directory));
    }
    return directory;
}

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void
fake_daemon_fini(void)
{
    if (directory[0] != '\0')
        nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    directory[0] = '\0';
}

/* ---- the daemon's side, in a child ---------------------------------------*/

__attribute__((noreturn, format(printf, 1, 2))) static void
depart(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "fake daemon: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    _exit(1);
}

static void
say(int fd, const char *text, bool whole)
{
    size_t n = strlen(text);
    unsigned char header[4] = {(unsigned char)(n >> 24),
                               (unsigned char)(n >> 16),
                               (unsigned char)(n >> 8), (unsigned char)n};

    /* The client may have left; what it then did is for the test to judge. */
    send(fd, header, sizeof(header), MSG_NOSIGNAL);
    send(fd, text, whole ? n : n / 2, MSG_NOSIGNAL);
}

static void
receive(int fd, void *out, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t one = recv(fd, (char *)out + got, n - got, 0);
        if (one <= 0)
            depart("the client left in the middle");
        got += (size_t)one;
    }
}

static void
hear(int fd, char *frame)
{
    unsigned char h[4];

    receive(fd, h, sizeof(h));
    size_t n =
        (size_t)h[0] << 24 | (size_t)h[1] << 16 | (size_t)h[2] << 8 | h[3];
    if (n >= FRAME_MAX)
        depart("a frame of %zu bytes", n);
    receive(fd, frame, n);
    frame[n] = '\0';
}

static void
interrupt_client(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 ||
        kill(peer.pid, SIGINT) < 0)
        depart("SIGINT: %s", strerror(errno));
}

static void
act(int listener, int *fd, const struct fake_step *step, char *heard)
{
    static char before[FRAME_MAX];
    char byte;

    switch (step->kind) {
    case FAKE_ACCEPT: *fd = accept(listener, NULL, NULL); break;
    case FAKE_SAY: say(*fd, step->text, true); break;
    case FAKE_SAY_PART: say(*fd, step->text, false); break;
    case FAKE_SAY_RAW:
        send(*fd, step->text, strlen(step->text), MSG_NOSIGNAL);
        break;
    case FAKE_HEAR:
        hear(*fd, heard);
        if (strstr(heard, step->text) == NULL)
            depart("heard %s, not %s", heard, step->text);
        break;
    case FAKE_HEAR_AGAIN:
        strcpy(before, heard);
        hear(*fd, heard);
        if (strcmp(before, heard) != 0)
            depart("heard %s, before it was %s", heard, before);
        break;
    case FAKE_SIGNAL: interrupt_client(*fd); break;
    case FAKE_CLOSE:
        close(*fd);
        *fd = -1;
        break;
    case FAKE_HANG:
        while (recv(*fd, &byte, 1, 0) > 0)
            ;
        break;
    case FAKE_END: break;
    }
}

static pid_t
start_daemon(const char *path, const struct fake_step *script)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = -1;
    static char heard[FRAME_MAX];

    unlink(path);
    strcpy(address.sun_path, path);
    assert_int_equal(
        bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 8), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) {
        close(listener);
        return pid;
    }
    alarm(PATIENCE_S);
    for (; script->kind != FAKE_END; script++)
        act(listener, &fd, script, heard);
    _exit(0);
}

/* ---- the client's side ---------------------------------------------------*/

static int
open_stdout(enum fake_stdout kind, int pipe_end)
{
    int fds[2];

    switch (kind) {
    case FAKE_PIPE: return pipe_end;
    case FAKE_FULL: return open("/dev/full", O_WRONLY);
    case FAKE_BROKEN:
        if (pipe(fds) < 0)
            return -1;
        close(fds[0]);
        return fds[1];
    }
    return -1;
}

__attribute__((noreturn)) static void
exec_client(const struct fake_setup *setup, const char *path,
            const char *const *args, const int in[2], const int out[2],
            const int err[2])
{
    static char socket_option[] = "--socket", socket_path[128], program[4096];
    char *argv[MAX_ARGS + 4] = {program, socket_option, socket_path};
    int n = 3;

    snprintf(program, sizeof(program), "%s/trainctl", getenv("TRAIND_BIN"));
    snprintf(socket_path, sizeof(socket_path), "%s", path);
    for (; *args != NULL && n < MAX_ARGS + 3; args++)
        argv[n++] = strdup(*args);
    argv[n] = NULL;
    setenv("LC_ALL", setup->locale != NULL ? setup->locale : "C", 1);
    setenv("TZ", "UTC", 1);
    dup2(in[0], 0);
    dup2(open_stdout(setup->out, out[1]), 1);
    dup2(err[1], 2);
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    if (setup->out == FAKE_BROKEN) /* as many a parent leaves it */
        signal(SIGPIPE, SIG_IGN);
    if (setup->directory != NULL && chdir(setup->directory) < 0)
        _exit(126);
    execv(program, argv);
    _exit(127);
}

static void
append(int fd, char *text, size_t *len, struct pollfd *p)
{
    ssize_t n = read(fd, text + *len, FAKE_OUT_MAX - 1 - *len);

    if (n <= 0)
        p->fd = -1;
    else
        *len += (size_t)n;
    text[*len] = '\0';
}

static void
collect(struct fake_run *run, int out, int err)
{
    struct pollfd p[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
    size_t n_out = 0, n_err = 0;

    run->out[0] = run->err[0] = '\0';
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        assert_true(poll(p, 2, PATIENCE_S * 1000) > 0); /* trainctl hangs */
        if (p[0].fd >= 0 && p[0].revents != 0)
            append(out, run->out, &n_out, &p[0]);
        if (p[1].fd >= 0 && p[1].revents != 0)
            append(err, run->err, &n_err, &p[1]);
    }
}

static long
now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000L + ts.tv_nsec / 1000000L;
}

const struct fake_run *
fake_daemon_run(const struct fake_setup *setup, const char *const *args)
{
    static struct fake_run run;
    int in[2], out[2], err[2], status = 0, fake_status = 0;
    char path[128];
    pid_t fake = 0;
    long start_ms = now_ms();

    snprintf(path, sizeof(path), "%s/ctl.sock", fake_daemon_directory());
    if (setup->script != NULL)
        fake = start_daemon(path, setup->script);
    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
                pipe2(err, O_CLOEXEC) == 0);
    pid_t client = fork();
    assert_true(client >= 0);
    if (client == 0)
        exec_client(setup, path, args, in, out, err);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    if (setup->in != NULL)
        assert_int_equal(write(in[1], setup->in, strlen(setup->in)),
                         strlen(setup->in));
    close(in[1]);
    collect(&run, out[0], err[0]);
    close(out[0]);
    close(err[0]);
    assert_int_equal(waitpid(client, &status, 0), client);
    if (fake > 0)
        assert_int_equal(waitpid(fake, &fake_status, 0), fake);
    if (fake_status != 0)
        fail_msg("the script was not followed; trainctl said: %s", run.err);
    run.exit_code =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    run.ms = now_ms() - start_ms;
    unlink(path);
    return &run;
}
