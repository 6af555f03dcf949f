/* SPDX-License-Identifier: Apache-2.0 */
/* traind-exec, with a shell as the worker that looks at itself. */
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], said[600], out[4096];

static int
setup(void **ctx)
{
    (void)ctx;
    assert_non_null(getenv("TRAIND_BIN"));
    strcpy(dir, "/tmp/traind-exec-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int
teardown(void **ctx)
{
    char command[128];

    (void)ctx;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static void
read_all(int fd, char *buf, size_t size)
{
    size_t n = 0;
    ssize_t got;

    while (n < size - 1 && (got = read(fd, buf + n, size - 1 - n)) > 0)
        n += (size_t)got;
    buf[n] = '\0';
}

struct start {
    const char *logs, *user, *uid, *gid, *worker, *script;
    pid_t parent; /* 0: the real one */
};

static void
become_helper(const struct start *s, int status)
{
    const char *bin = getenv("TRAIND_BIN");
    char helper[512], parent[16];

    /* Something on every low descriptor, and one that must not get through. */
    dup2(fcntl(status, F_DUPFD, 100), 4);
    dup2(open("/dev/null", O_RDWR), 3);
    dup2(open("/etc/passwd", O_RDONLY), 77);
    snprintf(helper, sizeof(helper), "%s/traind-exec", bin);
    snprintf(parent, sizeof(parent), "%d",
             (int)(s->parent != 0 ? s->parent : getppid()));
    signal(SIGUSR1, SIG_IGN);
    execl(helper, helper, "--parent", parent, "--dir", dir, "--logs", s->logs,
          "--user", s->user, "--uid", s->uid, "--gid", s->gid, "--cpus", "",
          "--", s->worker, "-c", s->script, (char *)NULL);
    _exit(99);
}

/* Exit status; fills `said` (the helper) and `out` (the worker). */
static int
run(struct start s)
{
    char path[128];
    int status[2], wstatus, fd;
    pid_t pid;

    if (s.logs == NULL)
        s.logs = dir;
    if (s.user == NULL)
        s.user = s.uid = s.gid = "";
    if (s.worker == NULL)
        s.worker = "/bin/sh";
    assert_int_equal(pipe2(status, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0)
        become_helper(&s, status[1]);
    close(status[1]);
    read_all(status[0], said, sizeof(said));
    close(status[0]);
    assert_int_equal(waitpid(pid, &wstatus, 0), pid);
    snprintf(path, sizeof(path), "%s/stdout", dir);
    fd = open(path, O_RDONLY);
    out[0] = '\0';
    if (fd >= 0) {
        read_all(fd, out, sizeof(out));
        close(fd);
    }
    return WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : -WTERMSIG(wstatus);
}

static void
test_exec_worker_is_set_up(void **ctx)
{
    char want[128];

    (void)ctx;
    assert_int_equal(
        run((struct start){
            .script = "pwd; grep -E '^(NoNewPrivs|SigIgn|SigBlk):' "
                      "/proc/self/status; "
                      "for f in 3 4 77; do "
                      "readlink /proc/$$/fd/$f >/dev/null && echo fd $f; done; "
                      "set -- $(cat /proc/$$/stat); "
                      "[ $1 = $5 ] && [ $1 = $6 ] && echo leader; "
                      "umask; ulimit -c; cat /proc/$$/oom_score_adj; exit 7"}),
        7);
    assert_string_equal(said, "");
    snprintf(want, sizeof(want), "%s\n", dir);
    assert_non_null(strstr(out, want));
    assert_non_null(strstr(out, "NoNewPrivs:\t1\n"));
    assert_non_null(strstr(out, "SigIgn:\t0000000000000000\n"));
    assert_non_null(strstr(out, "SigBlk:\t0000000000000000\n"));
    assert_non_null(strstr(out, "fd 3\n"));
    assert_null(strstr(out, "fd 4\n"));
    assert_null(strstr(out, "fd 77\n"));
    assert_non_null(strstr(out, "leader\n"));
    assert_non_null(strstr(out, "0027\n0\n"));
}

static void
test_exec_output_is_appended(void **ctx)
{
    (void)ctx;
    assert_int_equal(run((struct start){.script = "echo one"}), 0);
    assert_int_equal(run((struct start){.script = "echo two"}), 0);
    assert_string_equal(out, "one\ntwo\n");
}

static void
test_exec_tells_what_is_wrong(void **ctx)
{
    (void)ctx;
    assert_int_equal(
        run((struct start){.worker = "/no/such/worker", .script = ""}), 126);
    assert_string_equal(said, "/no/such/worker: No such file or directory");
    assert_int_equal(run((struct start){.logs = "/no/such/logs", .script = ""}),
                     126);
    assert_string_equal(said, "/no/such/logs: No such file or directory");
}

static void
test_exec_output_is_no_link(void **ctx)
{
    char path[128];

    (void)ctx;
    snprintf(path, sizeof(path), "%s/stdout", dir);
    assert_int_equal(symlink("/tmp/traind-exec-victim", path), 0);
    assert_int_equal(run((struct start){.script = "echo x"}), 126);
    assert_non_null(strstr(said, "stdout"));
    assert_int_not_equal(access("/tmp/traind-exec-victim", F_OK), 0);
}

static void
test_exec_without_its_parent(void **ctx)
{
    (void)ctx;
    /* The daemon died in between: no worker. */
    assert_int_equal(run((struct start){.parent = 999999, .script = "echo x"}),
                     126);
    assert_string_equal(out, "");
}

static void
test_exec_takes_the_rights_of_the_user(void **ctx)
{
    const struct passwd *pw = getpwnam("nobody");
    char uid[16], gid[16], want[64];

    (void)ctx;
    if (geteuid() != 0 || pw == NULL)
        skip();
    assert_int_equal(chown(dir, pw->pw_uid, pw->pw_gid), 0);
    snprintf(uid, sizeof(uid), "%u", (unsigned)pw->pw_uid);
    snprintf(gid, sizeof(gid), "%u", (unsigned)pw->pw_gid);
    assert_int_equal(
        run((struct start){.user = "nobody",
                           .uid = uid,
                           .gid = gid,
                           .script = "id -u; id -g; id -G; "
                                     "cat /etc/shadow 2>&1 | grep -c denied"}),
        0);
    assert_string_equal(said, "");
    snprintf(want, sizeof(want), "%s\n%s\n%s\n1\n", uid, gid, gid);
    assert_string_equal(out, want);
    /* The wish to become root by name is refused. */
    assert_int_equal(
        run((struct start){
            .user = "root", .uid = "0", .gid = "0", .script = "id"}),
        126);
}

static void
test_exec_dies_with_its_parent(void **ctx)
{
    const struct start s = {.logs = dir,
                            .user = "",
                            .uid = "",
                            .gid = "",
                            .worker = "/bin/sh",
                            .script = "echo $$; exec sleep 1000"};
    char path[128];
    struct stat st = {0};
    pid_t middle, worker;
    int fd, tries = 0;

    (void)ctx;
    snprintf(path, sizeof(path), "%s/stdout", dir);
    middle = fork();
    if (middle == 0) {
        if (fork() == 0)
            become_helper(&s, open("/dev/null", O_RDWR));
        pause();
    }
    while (stat(path, &st) != 0 || st.st_size == 0) {
        assert_true(tries++ < 5000);
        usleep(1000);
    }
    fd = open(path, O_RDONLY);
    read_all(fd, out, sizeof(out));
    close(fd);
    worker = (pid_t)atol(out);
    assert_int_equal(kill(worker, 0), 0);
    kill(middle, SIGKILL);
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    /* A zombie has no program any more, whoever is to collect it. */
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)worker);
    for (tries = 0; readlink(path, out, 8) > 0 && tries < 5000; tries++)
        usleep(1000);
    assert_true(tries < 5000);
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_exec_worker_is_set_up),
        ON_STAGE(test_exec_output_is_appended),
        ON_STAGE(test_exec_tells_what_is_wrong),
        ON_STAGE(test_exec_output_is_no_link),
        ON_STAGE(test_exec_without_its_parent),
        ON_STAGE(test_exec_takes_the_rights_of_the_user),
        ON_STAGE(test_exec_dies_with_its_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
