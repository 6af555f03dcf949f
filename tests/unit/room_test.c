/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/statvfs.h>

#include <cmocka.h>

/* The first answer is -1, the next what the file system says. */
static void
test_room_answers_what_it_was_told(void **ctx)
{
    struct statvfs fs;
    struct room *room;
    uv_loop_t loop;

    (void)ctx;
    assert_int_equal(uv_loop_init(&loop), 0);
    room = room_open(&loop, "/tmp");
    assert_non_null(room);
    assert_int_equal(room_free_bytes(room), -1);
    assert_int_equal(room_size_bytes(room), -1);
    while (room_size_bytes(room) < 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(statvfs("/tmp", &fs), 0);
    assert_int_equal(room_size_bytes(room),
                     (int64_t)(fs.f_blocks * fs.f_frsize));
    assert_true(room_free_bytes(room) >= 0);
    assert_true(room_free_bytes(room) <= room_size_bytes(room));
    room_close(&room);
    assert_null(room);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Closed over a question that is under way: the answer comes to nobody. */
static void
test_room_closes_over_a_question(void **ctx)
{
    struct room *room;
    uv_loop_t loop;

    (void)ctx;
    assert_int_equal(uv_loop_init(&loop), 0);
    room = room_open(&loop, "/nowhere");
    assert_non_null(room);
    uv_run(&loop, UV_RUN_NOWAIT); /* asks */
    room_close(&room);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void
test_room_without_an_answer_stays_unknown(void **ctx)
{
    struct room *room;
    uv_loop_t loop;

    (void)ctx;
    assert_int_equal(uv_loop_init(&loop), 0);
    room = room_open(&loop, "/nowhere");
    assert_non_null(room);
    do /* the question and its answer */
        uv_run(&loop, UV_RUN_ONCE);
    while (loop.active_reqs.count > 0);
    assert_int_equal(room_free_bytes(room), -1);
    room_close(&room);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_answers_what_it_was_told),
        cmocka_unit_test(test_room_closes_over_a_question),
        cmocka_unit_test(test_room_without_an_answer_stays_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
