/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "engine/base/failpoint.h"
#include "engine/run/ckpt.h"
#include "tests/support/place.h"

/* ---- kill points -------------------------------------------------------- */

/* Writes checkpoint 200 in a child that dies where it is told to. */
static void
die_writing(struct place *p, const char *failpoint)
{
    int status;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct ckpt_info info;

        failpoint_arm(failpoint);
        model_state_fill(p->state, 200);
        ckpt_write(p->state, &p->args, &info, NULL);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void
test_ckpt_killed_while_writing(void **state)
{
    static const char *const points[] = {
        "ckpt.half_data",      "ckpt.half_data:2",    "ckpt.before_fsync",
        "ckpt.before_fsync:2", "ckpt.before_fsync:3", "ckpt.before_manifest",
        "ckpt.before_fsync:4", "ckpt.before_rename"};
    struct place *p = *state;

    write_one(p, 100);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        die_writing(p, points[i]);
        check_entries(p, 1, 1);
        check_reads(p, NAME_100, 100);
        if (i % 2 == 0) { /* swept, or left to the next writer */
            ckpt_sweep(p->ckpt);
            check_entries(p, 1, 0);
        }
    }
    die_writing(p, "ckpt.after_rename");
    check_entries(p, 2, 0);
    check_reads(p, NAME_200, 200);
    check_reads(p, NAME_100, 100);
}

static void
test_ckpt_killed_while_removing(void **state)
{
    struct place *p = *state;
    struct err err;
    char path[256];

    write_one(p, 100);
    write_one(p, 200);
    failpoint_arm("ckpt.half_remove=EIO"); /* stops there, as a kill would */
    assert_int_equal(ckpt_remove(p->ckpt, NAME_100, &err), 0);
    failpoint_arm(NULL);
    check_entries(p, 1, 1);
    ckpt_sweep(p->ckpt);
    check_entries(p, 1, 0);
    check_reads(p, NAME_200, 200);
    /* Sweeping takes files and directories, and nothing else. */
    path_of(p, ".tmp-file", "", path);
    bytes_write_file(path, "x", 1);
    ckpt_sweep(p->ckpt);
    check_entries(p, 1, 0);
    ckpt_sweep("/nonexistent");
}

/* ---- full disks --------------------------------------------------------- */

static void
check_no_space(struct place *p)
{
    struct ckpt_info info;
    struct err err;

    model_state_fill(p->state, 200);
    assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_NOSPACE);
    assert_int_equal(strncmp(err.msg, "checkpoint " NAME_200 ": ", 27), 0);
    check_entries(p, 1, 0);
    check_reads(p, NAME_100, 100);
}

static void
test_ckpt_injected_errors(void **state)
{
    static const char *const points[] = {
        "ckpt.half_data", "ckpt.before_fsync", "ckpt.before_manifest",
        "ckpt.before_rename", "ckpt.after_rename"};
    struct place *p = *state;
    struct ckpt_info info;
    struct err err;
    char text[64];

    write_one(p, 100);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        snprintf(text, sizeof(text), "%s=EIO", points[i]);
        assert_true(failpoint_arm(text));
        model_state_fill(p->state, 200);
        assert_int_equal(ckpt_write(p->state, &p->args, &info, &err), ERR_IO);
        assert_non_null(strstr(err.msg, "Input/output error"));
        check_entries(p, 1, 0);
        check_reads(p, NAME_100, 100);
        if (i == 2)
            continue;
        snprintf(text, sizeof(text), "%s=ENOSPC", points[i]);
        assert_true(failpoint_arm(text));
        check_no_space(p);
    }
    failpoint_arm(NULL);
    write_one(p, 200); /* and training goes on */
}

/* In a child of its own: writes under limits that cut every file somewhere. */
static int
write_under_limits(struct place *p)
{
    int n_full = 0, n_written = 0;

    signal(SIGXFSZ, SIG_IGN);
    model_state_fill(p->state, 200);
    for (rlim_t most = 32; most <= 4096; most += 32) {
        const struct rlimit limit = {most, RLIM_INFINITY};
        struct ckpt_info info;
        struct err err;
        int rc, n, n_tmp;

        if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
            return 2;
        rc = ckpt_write(p->state, &p->args, &info, &err);
        n_full += rc == ERR_NOSPACE;
        n_written += rc == 0;
        count_entries(p, &n, &n_tmp);
        if ((rc != 0 && rc != ERR_NOSPACE) || n != 1 + (rc == 0) || n_tmp != 0)
            return 3;
        if (rc == 0)
            ckpt_remove(p->ckpt, NAME_200, NULL);
    }
    return n_full > 0 && n_written > 0 ? 0 : 4;
}

static void
test_ckpt_file_size_limit(void **state)
{
    struct place *p = *state;
    int status;
    pid_t pid;

    write_one(p, 100);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(write_under_limits(p));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    check_reads(p, NAME_100, 100);
}

static void
test_ckpt_full_file_system(void **state)
{
    struct place *p = *state;
    char mount_point[96], filler[256];
    int fd;
    static char block[65536];

    snprintf(mount_point, sizeof(mount_point), "%s/mnt", p->dir);
    assert_int_equal(mkdir(mount_point, 0700), 0);
    if (mount("tmpfs", mount_point, "tmpfs", 0, "size=1m") < 0)
        skip(); /* needs root */
    snprintf(p->ckpt, sizeof(p->ckpt), "%s/ckpt", mount_point);
    write_one(p, 100);
    snprintf(filler, sizeof(filler), "%s/filler", mount_point);
    fd = open(filler, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    while (write(fd, block, sizeof(block)) > 0)
        ;
    close(fd);
    check_no_space(p);
    assert_int_equal(unlink(filler), 0);
    write_one(p, 200);
    check_reads(p, NAME_200, 200);
    assert_int_equal(umount(mount_point), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ckpt_killed_while_writing),
        TEST(test_ckpt_killed_while_removing),
        TEST(test_ckpt_injected_errors),
        TEST(test_ckpt_file_size_limit),
        TEST(test_ckpt_full_file_system),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
