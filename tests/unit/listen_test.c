/* SPDX-License-Identifier: Apache-2.0 */
/* What may be at the socket's path (case C57), and who holds the lock. */
#include "daemon/listen.h"
#include "daemon/lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], path[96];

static int
setup(void **ctx)
{
    (void)ctx;
    strcpy(dir, "/tmp/traind-listen-XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/ctl.sock", dir);
    return 0;
}

static int
teardown(void **ctx)
{
    char lock[96];

    (void)ctx;
    snprintf(lock, sizeof(lock), "%s/lock", dir);
    unlink(lock);
    unlink(path);
    return rmdir(dir);
}

static int
open_it(struct listen *l, struct err *err)
{
    const struct listen_options o = {.path = path, .mode = 0640, .group = ""};

    err_clear(err);
    return listen_open(&o, l, err);
}

static bool
can_connect(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool ok;

    strcpy(addr.sun_path, path);
    ok = connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    close(fd);
    return ok;
}

static void
test_listen_no_file(void **ctx)
{
    struct listen l;
    struct stat st;
    struct err err;

    (void)ctx;
    assert_int_equal(open_it(&l, &err), 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_false(can_connect()); /* bound, but not before we are ready */
    assert_int_equal(listen(l.fd, 1), 0);
    assert_true(can_connect());
    close(l.fd);
    listen_remove(&l);
    assert_int_not_equal(lstat(path, &st), 0);
}

static void
test_listen_stale_socket_is_replaced(void **ctx)
{
    struct listen dead, l;
    struct err err;

    (void)ctx;
    assert_int_equal(open_it(&dead, &err), 0);
    close(dead.fd); /* kill -9: the file stays */
    assert_int_equal(open_it(&l, &err), 0);
    assert_int_equal(listen(l.fd, 1), 0);
    assert_true(can_connect());
    listen_remove(&dead); /* not the one it bound any more: left alone */
    assert_true(can_connect());
    close(l.fd);
    listen_remove(&l);
}

static void
test_listen_live_daemon_is_respected(void **ctx)
{
    struct listen live, l;
    struct err err;

    (void)ctx;
    assert_int_equal(open_it(&live, &err), 0);
    assert_int_equal(listen(live.fd, 5), 0);
    assert_int_equal(open_it(&l, &err), ERR_AGAIN);
    assert_int_equal(l.fd, -1);
    assert_true(can_connect());
    close(live.fd);
    listen_remove(&live);
}

static void
test_listen_other_file_is_left_alone(void **ctx)
{
    char text[16] = "";
    struct listen l;
    struct err err;
    FILE *f = fopen(path, "w");

    (void)ctx;
    fputs("precious", f);
    fclose(f);
    assert_int_equal(open_it(&l, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, path));
    f = fopen(path, "r");
    assert_non_null(fgets(text, sizeof(text), f));
    fclose(f);
    assert_string_equal(text, "precious");
}

static void
test_listen_long_path_and_missing_group(void **ctx)
{
    struct listen_options o = {
        .path = path, .mode = 0660, .group = "no-such-group-of-ours"};
    char longer[300];
    struct listen l;
    struct stat st;
    struct err err;

    (void)ctx;
    assert_int_equal(listen_open(&o, &l, &err), ERR_CONFIG);
    assert_non_null(strstr(err.msg, "groupadd --system no-such-group-of-ours"));
    assert_int_not_equal(lstat(path, &st), 0);
    memset(longer, 'x', sizeof(longer));
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    o.path = longer;
    o.group = "";
    assert_int_equal(listen_open(&o, &l, &err), ERR_CONFIG);
}

static void
test_listen_takes_what_the_manager_passes(void **ctx)
{
    struct listen made, l;
    struct err err;
    char pid[16];

    (void)ctx;
    assert_int_equal(open_it(&made, &err), 0);
    if (made.fd != 3) {
        assert_int_equal(dup2(made.fd, 3), 3);
        close(made.fd);
    }
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_FDNAMES", "ctl", 1);
    assert_int_equal(listen_inherit(&l, &err), 0);
    assert_int_equal(l.fd, 3);
    assert_string_equal(l.path, path);
    assert_null(getenv("LISTEN_FDS"));
    listen_remove(&l); /* not ours to remove */
    assert_int_equal(access(path, F_OK), 0);
    close(3);
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "1", 1);
    assert_int_equal(listen_inherit(&l, &err), 0);
    assert_int_equal(l.fd, -1); /* meant for another process */
}

static void
test_lock_one_holder(void **ctx)
{
    int first, second;
    struct err err;

    (void)ctx;
    assert_int_equal(lock_acquire(dir, &first, &err), 0);
    assert_int_equal(lock_acquire(dir, &second, &err), ERR_AGAIN);
    assert_int_equal(second, -1);
    assert_non_null(strstr(err.msg, "pid "));
    lock_release(&first);
    assert_int_equal(lock_acquire(dir, &second, &err), 0);
    lock_release(&second);
}

static void
test_lock_follows_no_link(void **ctx)
{
    char lock[96];
    struct err err;
    int fd;

    (void)ctx;
    snprintf(lock, sizeof(lock), "%s/lock", dir);
    assert_int_equal(symlink("/tmp/traind-elsewhere", lock), 0);
    assert_int_equal(lock_acquire(dir, &fd, &err), ERR_IO);
    assert_int_not_equal(access("/tmp/traind-elsewhere", F_OK), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_listen_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_listen_stale_socket_is_replaced,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_listen_live_daemon_is_respected,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_listen_other_file_is_left_alone,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_listen_long_path_and_missing_group,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_listen_takes_what_the_manager_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_one_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_follows_no_link, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
