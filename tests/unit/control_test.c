/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket and its clients, in one process and one thread. */
#include "daemon/control.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/frame.h"

#define MAX_MESSAGE 65536
#define WAIT_MS     5000

static struct {
    uv_loop_t loop;
    struct control *control;
    struct view_hello hello;
    char path[64];
    struct request *kept; /* the last request, unanswered */
    int n_requests, n_credits, n_answered, code;
    bool keep, gone;
} t;

static void
on_gone(void *ctx, struct request *request)
{
    (void)ctx;
    t.gone = true;
    request_drop(request);
    t.kept = NULL;
}

static void
on_request(void *ctx, struct request *request)
{
    struct view_pong pong;

    (void)ctx;
    t.n_requests++;
    if (t.keep) {
        t.kept = request;
        request_watch(request, on_gone, NULL);
        return;
    }
    view_init(VIEW_ID_pong, &pong);
    pong.version = "test";
    request_reply(request, &pong, 1, false);
}

static void
on_credit(void *ctx, struct session *session, int64_t id, int64_t n)
{
    (void)ctx;
    (void)session;
    (void)id;
    t.n_credits += (int)n;
}

static void
on_answered(void *ctx, enum message_id message, int code)
{
    (void)ctx;
    assert_int_equal(message, MESSAGE_ID_ping);
    t.n_answered++;
    t.code = code;
}

static int
setup(void **ctx)
{
    const struct session_hooks hooks = {
        .request = on_request, .credit = on_credit, .answered = on_answered};
    struct control_options o = {.session = {.loop = &t.loop,
                                            .max_message = MAX_MESSAGE,
                                            .idle_timeout_ms = 700,
                                            .request_timeout_ms = 300,
                                            .hello = &t.hello},
                                .max_clients = 4,
                                .admin_group = ""};
    struct listen_options where = {.mode = 0600, .group = ""};
    struct listen l;
    struct err err;

    (void)ctx;
    memset(&t, 0, sizeof(t));
    uv_loop_init(&t.loop);
    snprintf(t.path, sizeof(t.path), "/tmp/traind-control-%d", (int)getpid());
    unlink(t.path);
    where.path = t.path;
    view_init(VIEW_ID_hello, &t.hello);
    t.hello.hello = "traind";
    if (listen_open(&where, &l, &err) != 0)
        return -1;
    return control_open(&o, &l, &hooks, &t.control, &err);
}

static int
teardown(void **ctx)
{
    (void)ctx;
    control_close(&t.control);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    assert_int_not_equal(access(t.path, F_OK), 0);
    return uv_loop_close(&t.loop);
}

/* ---- a client -------------------------------------------------------------*/

static int
connect_client(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    strcpy(addr.sun_path, t.path);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

static void
turn(void)
{
    uv_run(&t.loop, UV_RUN_NOWAIT);
    usleep(1000);
}

/* One whole frame; NULL: the connection was closed. */
static const char *
receive(int fd, struct frame_reader *reader)
{
    uint64_t end = uv_hrtime() + (uint64_t)WAIT_MS * 1000000;
    const char *text = NULL;
    char buf[65536];
    size_t len;

    while ((text = frame_reader_next(reader, &len)) == NULL) {
        ssize_t n = recv(fd, buf, sizeof(buf), 0);

        if (n == 0 || (n < 0 && errno != EAGAIN))
            return NULL;
        if (n > 0)
            assert_int_equal(frame_reader_feed(reader, buf, (size_t)n, NULL),
                             0);
        assert_true(uv_hrtime() < end);
        turn();
    }
    return text;
}

static void
send_frame(int fd, const char *text)
{
    uint8_t header[FRAME_HEADER_BYTES];

    frame_write_header(header, strlen(text));
    assert_int_equal(send(fd, header, 4, 0), 4);
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
}

struct client_end {
    int fd;
    struct frame_reader *reader;
};

static struct client_end
greet(void)
{
    struct client_end c = {connect_client(),
                           frame_reader_create(FRAME_MAX_BYTES)};
    const char *hello = receive(c.fd, c.reader);

    assert_non_null(hello);
    assert_non_null(strstr(hello, "\"hello\":\"traind\""));
    return c;
}

static void
leave(struct client_end *c)
{
    frame_reader_destroy(&c->reader);
    close(c->fd);
}

static const char *
next(struct client_end *c)
{
    return receive(c->fd, c->reader);
}

/* ---- tests ----------------------------------------------------------------*/

static void
test_control_hello_request_reply(void **ctx)
{
    struct client_end c = greet();
    const char *got;

    (void)ctx;
    send_frame(c.fd, "{\"id\":1,\"verb\":\"ping\",\"args\":{}}");
    got = next(&c);
    assert_non_null(strstr(got, "\"id\":1"));
    assert_non_null(strstr(got, "\"version\":\"test\""));
    send_frame(c.fd, "{\"id\":1,\"credit\":32}");
    send_frame(c.fd, "{\"id\":2,\"verb\":\"ping\",\"args\":{}}");
    assert_non_null(strstr(next(&c), "\"id\":2"));
    assert_int_equal(t.n_credits, 32);
    assert_int_equal(t.n_answered, 2);
    assert_int_equal(t.code, 0);
    assert_int_equal(control_clients(t.control), 1);
    leave(&c);
}

static void
test_control_request_gone_wrong_keeps_the_line(void **ctx)
{
    struct client_end c = greet();
    const char *got;

    (void)ctx;
    send_frame(c.fd, "{\"id\":7,\"verb\":\"pong\",\"args\":{}}");
    got = next(&c);
    assert_non_null(strstr(got, "\"id\":7"));
    assert_non_null(strstr(got, "\"ok\":false"));
    send_frame(c.fd, "{\"id\":8,\"verb\":\"ping\",\"args\":{}}");
    assert_non_null(strstr(next(&c), "\"ok\":true"));
    leave(&c);
}

static void
test_control_noise_is_refused_and_closed(void **ctx)
{
    static const char *const noise[] = {
        "GET / HTTP/1.0\r\n\r\n", "\xff\xff\xff\xffxxxx", "\x00\x00\x00\x01x"};
    static const size_t len[] = {18, 8, 5};

    (void)ctx;
    for (int i = 0; i < 3; i++) {
        struct client_end c = greet();
        const char *got;

        assert_int_equal(send(c.fd, noise[i], len[i], 0), len[i]);
        got = next(&c);
        assert_non_null(got);
        assert_non_null(strstr(got, "\"ok\":false"));
        assert_null(next(&c)); /* and closed */
        leave(&c);
    }
    assert_int_equal(t.n_requests, 0);
}

static void
test_control_half_a_request_is_closed(void **ctx)
{
    struct client_end c = greet(), other = greet();
    uint64_t start = uv_hrtime();

    (void)ctx;
    assert_int_equal(send(c.fd, "\0\0\0\x64{\"id\"", 9, 0), 9);
    send_frame(other.fd, "{\"id\":1,\"verb\":\"ping\",\"args\":{}}");
    assert_non_null(next(&other)); /* others do not wait */
    assert_null(next(&c));
    assert_true(uv_hrtime() - start < UINT64_C(3000000000));
    leave(&c);
    leave(&other);
}

static void
test_control_idle_client_is_closed(void **ctx)
{
    struct client_end c = greet();

    (void)ctx;
    assert_null(next(&c));
    leave(&c);
}

static void
test_control_waiting_client_is_not_idle(void **ctx)
{
    struct client_end c = greet();
    uint64_t end;
    struct err err;

    (void)ctx;
    t.keep = true;
    send_frame(c.fd, "{\"id\":1,\"verb\":\"ping\",\"args\":{}}");
    end = uv_hrtime() + UINT64_C(1500000000);
    while (uv_hrtime() < end)
        turn();
    assert_non_null(t.kept);
    err_set(&err, ERR_AGAIN, "now");
    request_watch(t.kept, NULL, NULL);
    request_refuse(t.kept, &err, NULL);
    assert_non_null(strstr(next(&c), "now"));
    assert_int_equal(t.code, ERR_AGAIN);
    leave(&c);
}

static void
test_control_client_that_goes_is_told(void **ctx)
{
    struct client_end c = greet();

    (void)ctx;
    t.keep = true;
    send_frame(c.fd, "{\"id\":1,\"verb\":\"ping\",\"args\":{}}");
    while (t.kept == NULL)
        turn();
    leave(&c);
    while (!t.gone)
        turn();
}

static void
test_control_crowd_is_told(void **ctx)
{
    struct client_end c[4], extra;
    const char *got;

    (void)ctx;
    for (int i = 0; i < 4; i++)
        c[i] = greet();
    extra = greet();
    got = next(&extra);
    assert_non_null(strstr(got, "4 clients are connected already"));
    assert_null(next(&extra));
    leave(&extra);
    for (int i = 0; i < 4; i++)
        leave(&c[i]);
}

static void
test_control_same_number_twice(void **ctx)
{
    struct client_end c = greet();
    const char *got;

    (void)ctx;
    t.keep = true;
    send_frame(c.fd, "{\"id\":1,\"verb\":\"ping\",\"args\":{}}");
    send_frame(c.fd, "{\"id\":1,\"verb\":\"ping\",\"args\":{}}");
    got = next(&c);
    assert_non_null(strstr(got, "under way already"));
    leave(&c);
    while (!t.gone)
        turn();
    assert_int_equal(t.n_requests, 1);
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_control_hello_request_reply),
        ON_STAGE(test_control_request_gone_wrong_keeps_the_line),
        ON_STAGE(test_control_noise_is_refused_and_closed),
        ON_STAGE(test_control_half_a_request_is_closed),
        ON_STAGE(test_control_idle_client_is_closed),
        ON_STAGE(test_control_waiting_client_is_not_idle),
        ON_STAGE(test_control_client_that_goes_is_told),
        ON_STAGE(test_control_crowd_is_told),
        ON_STAGE(test_control_same_number_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
