/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A service manager at `path` ('@' = abstract). */
static int
make_manager(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    size_t len = strlen(path);

    memcpy(addr.sun_path, path, len);
    if (path[0] == '@')
        addr.sun_path[0] = '\0';
    assert_int_equal(
        bind(fd, (struct sockaddr *)&addr,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
        0);
    setenv("NOTIFY_SOCKET", path, 1);
    return fd;
}

static void
expect(int fd, const char *want)
{
    char got[256];
    ssize_t n = recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT);

    assert_true(n >= 0);
    got[n] = '\0';
    assert_string_equal(got, want);
}

static void
test_notify_one_datagram_each(void **ctx)
{
    char path[64];
    struct notify n;
    int fd;

    (void)ctx;
    snprintf(path, sizeof(path), "/tmp/traind-notify-%d", (int)getpid());
    unlink(path);
    fd = make_manager(path);
    notify_open(&n);
    assert_null(getenv("NOTIFY_SOCKET"));
    notify_send(&n, "READY=1\nSTATUS=%d running", 2);
    notify_send(&n, "STOPPING=1");
    expect(fd, "READY=1\nSTATUS=2 running");
    expect(fd, "STOPPING=1");
    close(fd);
    unlink(path);
    errno = 0;
    notify_send(&n, "WATCHDOG=1"); /* nobody there: no harm */
    assert_int_equal(errno, 0);
    notify_close(&n);
}

static void
test_notify_abstract_address(void **ctx)
{
    char path[64];
    struct notify n;
    int fd;

    (void)ctx;
    snprintf(path, sizeof(path), "@traind-notify-%d", (int)getpid());
    fd = make_manager(path);
    notify_open(&n);
    notify_send(&n, "READY=1");
    expect(fd, "READY=1");
    notify_close(&n);
    close(fd);
}

static void
test_notify_without_manager(void **ctx)
{
    struct notify n;

    (void)ctx;
    unsetenv("NOTIFY_SOCKET");
    notify_open(&n);
    assert_int_equal(n.fd, -1);
    notify_send(&n, "READY=1");
    setenv("NOTIFY_SOCKET", "relative", 1);
    notify_open(&n);
    assert_int_equal(n.fd, -1);
}

static void
test_notify_watchdog_interval(void **ctx)
{
    struct notify n;
    char pid[16];

    (void)ctx;
    setenv("WATCHDOG_USEC", "60000000", 1);
    notify_open(&n);
    assert_int_equal(n.watchdog_ms, 30000);
    assert_null(getenv("WATCHDOG_USEC"));
    setenv("WATCHDOG_USEC", "60000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    notify_open(&n);
    assert_int_equal(n.watchdog_ms, 0); /* meant for another process */
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    setenv("WATCHDOG_USEC", "1", 1);
    setenv("WATCHDOG_PID", pid, 1);
    notify_open(&n);
    assert_int_equal(n.watchdog_ms, 10); /* never a busy loop */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notify_one_datagram_each),
        cmocka_unit_test(test_notify_abstract_address),
        cmocka_unit_test(test_notify_without_manager),
        cmocka_unit_test(test_notify_watchdog_interval),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
