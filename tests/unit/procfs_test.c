/* SPDX-License-Identifier: Apache-2.0 */
/* Who a process is, and that nothing of a worker is left (case C65). */
#include "daemon/procfs.h"
#include "daemon/reap.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void
test_procfs_knows_this_process(void **ctx)
{
    struct procfs_stat st;
    char boot[PROCFS_BOOT_ID_MAX];

    (void)ctx;
    procfs_boot_id(boot);
    assert_int_equal(strlen(boot), 36);
    assert_true(procfs_stat(getpid(), &st));
    assert_int_equal(st.ppid, getppid());
    assert_int_equal(st.session, getsid(0));
    assert_true(st.start_ticks > 0);
    assert_true(st.start_ticks <= procfs_now_ticks() + 1);
    assert_true(procfs_is_alive(getpid(), st.start_ticks));
    assert_false(procfs_is_alive(getpid(), st.start_ticks + 1));
    assert_false(procfs_is_alive(0, 0));
}

static void
test_procfs_knows_its_own_usage(void **ctx)
{
    const size_t n = 64 << 20;
    struct procfs_usage a, b;
    char *block;
    int fd;

    (void)ctx;
    procfs_own_usage(&a);
    assert_true(a.cpu_seconds >= 0);
    assert_true(a.open_fds >= 0);
    fd = dup(0);
    block = malloc(n);
    assert_non_null(block);
    memset(block, 1, n);
    procfs_own_usage(&b);
    assert_int_equal(b.open_fds, a.open_fds + 1);
    assert_true(b.cpu_seconds > a.cpu_seconds);
    assert_true(b.virtual_bytes >= a.virtual_bytes + (int64_t)n / 2);
    assert_true(b.resident_bytes >= a.resident_bytes + (int64_t)n / 2);
    assert_true(procfs_own_age_us() >= 0);
    assert_true(procfs_own_age_us() < 3600 * (int64_t)1000000);
    free(block);
    close(fd);
}

static void
test_procfs_zombie_is_not_alive(void **ctx)
{
    struct procfs_stat st;
    siginfo_t info;
    pid_t pid = fork();

    (void)ctx;
    if (pid == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(procfs_stat(pid, &st));
    assert_int_equal(st.state, 'Z');
    assert_false(procfs_is_alive(pid, st.start_ticks));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(procfs_stat(pid, &st));
}

static void
sleep_for_ever(const char *mark)
{
    char *const argv[] = {(char[]){"sleep"}, (char[]){"1000"}, NULL};
    char env[256];
    char *envp[] = {env, NULL};

    snprintf(env, sizeof(env), "%s", mark);
    signal(SIGTERM, SIG_IGN);
    execve("/bin/sleep", argv, envp);
    _exit(1);
}

/* A worker (leader of a session) with a helper that ignores SIGTERM and a
 * grandchild in a session of its own; tells the grandchild's pid. */
static void
be_worker(const char *mark, int out)
{
    pid_t grandchild;

    setsid();
    if (fork() == 0)
        sleep_for_ever(mark);
    grandchild = fork();
    if (grandchild == 0) {
        setsid();
        sleep_for_ever(mark);
    }
    if (write(out, &grandchild, sizeof(grandchild)) < 0)
        _exit(1);
    close(out);
    pause();
    _exit(0);
}

static bool
knows_nobody(void *ctx, pid_t pid)
{
    (void)ctx;
    (void)pid;
    return false;
}

static void
test_reap_leaves_nothing(void **ctx)
{
    static const char dir[] = "/tmp/traind-reap/attempts/1";
    char mark[128];
    struct procfs_stat st;
    pid_t worker, grandchild;
    int64_t ended;
    int out[2], tries = 0;

    (void)ctx;
    reap_adopt_orphans();
    snprintf(mark, sizeof(mark), REAP_MARK "=%s", dir);
    assert_int_equal(pipe(out), 0);
    worker = fork();
    if (worker == 0)
        be_worker(mark, out[1]);
    close(out[1]);
    assert_int_equal(read(out[0], &grandchild, sizeof(grandchild)),
                     sizeof(grandchild));
    /* Until the execs are through. */
    while (!procfs_has_env(grandchild, mark))
        usleep(1000);
    reap_signal(worker, SIGKILL);
    assert_int_equal(waitpid(worker, NULL, 0), worker);
    ended = procfs_now_ticks();
    while (reap_sweep(worker, ended, dir, knows_nobody, NULL) > 0 &&
           tries++ < 1000)
        usleep(1000);
    /* Dead and collected, in its session or out of it. */
    reap_sweep(worker, ended, dir, knows_nobody, NULL);
    assert_false(procfs_stat(grandchild, &st));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(out[0]);
}

static void
test_reap_spares_others(void **ctx)
{
    pid_t other = fork();

    (void)ctx;
    if (other == 0)
        sleep_for_ever(REAP_MARK "=/another/attempt");
    while (!procfs_has_env(other, REAP_MARK "=/another/attempt"))
        usleep(1000);
    assert_int_equal(reap_sweep(0, 0, "/another", knows_nobody, NULL), 0);
    assert_int_equal(kill(other, 0), 0);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_procfs_knows_this_process),
        cmocka_unit_test(test_procfs_knows_its_own_usage),
        cmocka_unit_test(test_procfs_zombie_is_not_alive),
        cmocka_unit_test(test_reap_leaves_nothing),
        cmocka_unit_test(test_reap_spares_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
