/* SPDX-License-Identifier: Apache-2.0 */
/* Followers with much, little and no credit. The session is a fake: what is
 * sent is kept as text. */
#include "daemon/session.h"
#include "daemon/subscribe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct session {
    char *sent[1000];
    int n;
    bool full;
};

void
session_link(struct session *s, struct request *r)
{
    r->session = s;
}

void
session_unlink(struct session *s, struct request *r)
{
    (void)s;
    r->session = NULL;
}

void
session_send_take(struct session *s, char *text, size_t len)
{
    assert_non_null(text);
    assert_int_equal(strlen(text), len);
    assert_true(s->n < 1000);
    s->sent[s->n++] = text;
}

void
session_answered(struct session *s, enum message_id message, int code)
{
    (void)s;
    (void)message;
    (void)code;
}

bool
session_has_room(const struct session *s)
{
    return !s->full;
}

/* ---- the stage ------------------------------------------------------------*/

static struct {
    uv_loop_t loop;
    struct subscribe subs;
    struct session session;
    struct job *job;
    struct request *request;
} t;

static int
setup(void **ctx)
{
    const struct auth_peer peer = {.uid = 1};
    struct store_job row = {0};

    (void)ctx;
    memset(&t, 0, sizeof(t));
    uv_loop_init(&t.loop);
    subscribe_init(&t.subs, &t.loop);
    view_init(VIEW_ID_job, &row.view);
    row.view.id = 17;
    row.view.state = "running";
    row.spec = row.intent = "";
    t.job = job_create(&row, NULL);
    t.request = request_create(&t.session, 5, MESSAGE_ID_follow, &peer);
    return 0;
}

static int
teardown(void **ctx)
{
    (void)ctx;
    subscribe_fini(&t.subs);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < t.session.n; i++)
        free(t.session.sent[i]);
    job_destroy(&t.job);
    return uv_loop_close(&t.loop);
}

static void
follow(int64_t credit, int64_t interval_ms)
{
    t.request->args.follow.credit = credit;
    t.request->args.follow.min_interval_ms = interval_ms;
    subscribe_add(&t.subs, t.request, t.job);
}

static struct event
step(int64_t iteration)
{
    struct event e = {
        .kind = EVENT_STEP, .iteration = iteration, .updates = iteration};

    return e;
}

static void
tell(const struct event *e)
{
    job_apply_event(t.job, e, 0);
    subscribe_event(&t.subs, t.job, e);
}

static void
tell_skip(int64_t iteration)
{
    struct event e = {.kind = EVENT_SCALE,
                      .iteration = iteration,
                      .updates = iteration - 1,
                      .skips = 1};

    e.u.scale.cause = EVENT_SCALE_SKIP;
    e.u.scale.before = 4;
    e.u.scale.after = 2;
    tell(&e);
}

static void
run_ms(uint64_t ms)
{
    uint64_t end = uv_hrtime() / 1000000 + ms;

    while (uv_hrtime() / 1000000 < end)
        uv_run(&t.loop, UV_RUN_ONCE);
}

static int
count(const char *kind)
{
    char needle[64];
    int n = 0;

    snprintf(needle, sizeof(needle), "\"kind\":\"%s\"", kind);
    for (int i = 0; i < t.session.n; i++)
        n += strstr(t.session.sent[i], needle) != NULL;
    return n;
}

static void
finish_job(void)
{
    t.job->state = t.job->stored = JOB_COMPLETED;
    subscribe_changed(&t.subs, t.job);
}

static const char *
last(void)
{
    return t.session.sent[t.session.n - 1];
}

static void
test_subscribe_sends_all_with_credit(void **ctx)
{
    (void)ctx;
    follow(100, 1);
    assert_int_equal(count("state"), 1);
    tell_skip(3);
    tell_skip(4);
    assert_int_equal(count("skip"), 2);
    finish_job();
    assert_int_equal(count("end"), 1);
    assert_non_null(strstr(last(), "\"ok\":true"));
    assert_non_null(strstr(last(), "\"id\":5"));
    assert_null(t.subs.head);
}

static void
test_subscribe_coalesces_progress(void **ctx)
{
    struct event e;
    int n;

    (void)ctx;
    follow(1000, 100);
    for (int i = 1; i <= 500; i++) {
        e = step(i);
        tell(&e);
    }
    run_ms(70);
    assert_int_equal(count("progress"), 1);
    assert_non_null(strstr(last(), "\"iteration\":500"));
    for (int i = 501; i <= 900; i++) {
        e = step(i);
        tell(&e);
    }
    run_ms(300);
    n = count("progress");
    assert_int_equal(n, 2); /* only what was the latest when its time came */
    assert_non_null(strstr(last(), "\"iteration\":900"));
    assert_non_null(strstr(last(), "\"dropped\":0"));
}

static void
test_subscribe_without_credit(void **ctx)
{
    struct event e;

    (void)ctx;
    follow(0, 1);
    tell_skip(1);
    for (int i = 2; i <= 11; i++) {
        e = step(i);
        tell(&e);
    }
    run_ms(120);
    assert_int_equal(t.session.n, 0);
    subscribe_credit(&t.subs, &t.session, 5, 2);
    assert_int_equal(count("state"), 1);
    assert_int_equal(count("skip"), 1); /* kept, in order */
    assert_int_equal(t.session.n, 2);
    /* Nine of ten progress notices were replaced for want of credit. */
    assert_non_null(strstr(t.session.sent[0], "\"dropped\":9"));
    assert_int_equal(t.subs.dropped, 9);
    assert_non_null(strstr(t.session.sent[1], "\"dropped\":0"));
    subscribe_credit(&t.subs, &t.session, 6, 9); /* another's */
    assert_int_equal(t.session.n, 2);
}

static void
test_subscribe_queue_is_bounded(void **ctx)
{
    (void)ctx;
    follow(0, 1);
    for (int i = 1; i <= SUBSCRIBE_QUEUE + 50; i++)
        tell_skip(i);
    finish_job();
    assert_int_equal(t.session.n, 0); /* the end waits for credit, too */
    assert_non_null(t.subs.head);
    subscribe_credit(&t.subs, &t.session, 5, 1000);
    /* 1 state + 306 skips + 1 end came, 256 had room: the newest. */
    assert_int_equal(t.session.n, SUBSCRIBE_QUEUE + 1);
    assert_non_null(strstr(t.session.sent[0], "\"dropped\":52"));
    assert_int_equal(count("end"), 1);
    assert_non_null(strstr(last(), "\"ok\":true"));
    assert_null(t.subs.head);
}

static void
test_subscribe_full_socket_waits(void **ctx)
{
    (void)ctx;
    t.session.full = true;
    follow(100, 1);
    tell_skip(1);
    assert_int_equal(t.session.n, 0);
    t.session.full = false;
    run_ms(120);
    assert_int_equal(t.session.n, 2);
}

static void
test_subscribe_client_goes(void **ctx)
{
    (void)ctx;
    follow(100, 1);
    session_unlink(&t.session, t.request);
    t.request->gone(t.request->ctx, t.request);
    assert_null(t.subs.head);
    tell_skip(1); /* nobody listens: nothing happens */
    assert_int_equal(t.session.n, 1);
}

#define ON_STAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        ON_STAGE(test_subscribe_sends_all_with_credit),
        ON_STAGE(test_subscribe_coalesces_progress),
        ON_STAGE(test_subscribe_without_credit),
        ON_STAGE(test_subscribe_queue_is_bounded),
        ON_STAGE(test_subscribe_full_socket_waits),
        ON_STAGE(test_subscribe_client_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
