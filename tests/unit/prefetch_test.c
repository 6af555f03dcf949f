/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "engine/data/prefetch.h"
#include "tests/support/bytes.h"

/* Every allocation of the code under test comes by here (ld --wrap). */
static atomic_long n_allocations;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *
__wrap_malloc(size_t n)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_realloc(p, n);
}

void *
__wrap_aligned_alloc(size_t align, size_t n)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_aligned_alloc(align, n);
}

#define N        10
#define FEATURES 3

/* Feature j of sample i is 10 i + j, its label i % 3; i % 3 == 2 is ignored. */
static struct dataset *
make_dataset(void)
{
    const struct dataset_options options = {
        .target_is_class = true, .has_ignore_index = true, .ignore_index = 2};
    char dir[64], x[96], t[96];
    struct spec_source source = {
        .present = true, .format = SPEC_FORMAT_IDX, .input = x, .target = t};
    uint8_t input[12 + 2 * N * FEATURES] = {0, 0, 0x0b, 2, 0, 0,
                                            0, N, 0,    0, 0, FEATURES};
    uint8_t label[8 + N] = {0, 0, 8, 1, 0, 0, 0, N};
    struct dataset *d;
    struct err err;

    bytes_make_dir(dir);
    snprintf(x, sizeof(x), "%s/x", dir);
    snprintf(t, sizeof(t), "%s/t", dir);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < FEATURES; j++)
            input[12 + 2 * (i * FEATURES + j) + 1] = (uint8_t)(10 * i + j);
        label[8 + i] = (uint8_t)(i % 3);
    }
    bytes_write_file(x, input, sizeof(input));
    bytes_write_file(t, label, sizeof(label));
    assert_int_equal(dataset_open(&source, &options, &d, &err), 0);
    bytes_remove_dir(dir);
    return d;
}

static struct order
make_order(int64_t batch, int64_t accumulate)
{
    return (struct order){.seed = 7,
                          .n_samples = N,
                          .batch_size = batch,
                          .accumulate = accumulate,
                          .shuffle = true};
}

static void
check_batch(const struct prefetch_batch *b, const int64_t *ids)
{
    const float *input = b->input;

    assert_int_equal((uintptr_t)b->input % 64, 0);
    assert_int_equal((uintptr_t)b->target % 64, 0);
    for (int64_t i = 0; i < b->n; i++) {
        assert_int_equal(b->ids[i], ids[i]);
        assert_int_equal(((const int32_t *)b->target)[i], ids[i] % 3);
        for (int j = 0; j < FEATURES; j++)
            assert_true(input[i * FEATURES + j] == (float)(10 * ids[i] + j));
    }
}

static void
check_window(const struct prefetch_window *w, const struct order *o,
             int64_t position)
{
    const struct order_window at = order_window_at(o, position);
    int64_t ids[N], done = 0, n_count = 0;

    order_permute(o, at.epoch, ids);
    assert_memory_equal(&w->at, &at, sizeof(at));
    assert_memory_equal(w->ids, ids + at.first,
                        (size_t)at.n_samples * sizeof(*ids));
    for (int64_t i = 0; i < at.n_samples; i++)
        n_count += ids[at.first + i] % 3 != 2;
    assert_int_equal(w->n_count, n_count);
    for (int64_t b = 0; b < at.n_batches; b++) {
        assert_int_equal(w->batch[b].n, order_batch_size_at(o, &at, b));
        check_batch(&w->batch[b], ids + at.first + done);
        done += w->batch[b].n;
    }
}

/* Three epochs on, then back and forth as resume and rollback do. */
static void
walk(int64_t batch, int64_t accumulate, bool threaded)
{
    static const int64_t jumps[] = {5, 5, 0, 1, 2, 100, 7, 8, 6, 99, 100, 0};
    const struct order o = make_order(batch, accumulate);
    struct dataset *d = make_dataset();
    struct prefetch *p;
    struct err err;

    assert_int_equal(prefetch_create(d, &o, threaded, &p, &err), 0);
    for (int64_t i = 0; i < 3 * order_windows_per_epoch(&o) + 1; i++)
        check_window(prefetch_window_at(p, i), &o, i);
    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++)
        check_window(prefetch_window_at(p, jumps[i]), &o, jumps[i]);
    prefetch_destroy(&p);
    assert_null(p);
    dataset_destroy(&d);
}

/* The thread fills what comes behind a detour, or any window is waited for. */
static void
test_prefetch_detour(void **state)
{
    static const int64_t pairs[] = {0, 2, 5, 1, 6, 3, 12, 1};
    static const int64_t visited[] = {2, 3, 4, 9, 10, 11, 13, 14};
    const struct order o = make_order(4, 1);
    struct dataset *d = make_dataset();
    struct detour *detour;
    struct prefetch *p;
    struct err err;

    (void)state;
    assert_int_equal(detour_create(pairs, 8, &detour, &err), 0);
    for (int threaded = 0; threaded < 2; threaded++) {
        int64_t at = 0;

        assert_int_equal(prefetch_create(d, &o, threaded, &p, &err), 0);
        prefetch_set_detour(p, detour);
        for (size_t i = 0; i < sizeof(visited) / sizeof(visited[0]); i++) {
            at = prefetch_pass_over(p, at);
            assert_int_equal(at, visited[i]);
            check_window(prefetch_window_at(p, at), &o, at);
            at++;
        }
        prefetch_destroy(&p);
    }
    detour_destroy(&detour);
    dataset_destroy(&d);
}

static void
test_prefetch_in_order(void **state)
{
    (void)state;
    for (int threaded = 0; threaded < 2; threaded++) {
        walk(4, 1, threaded);
        walk(2, 3, threaded);
        walk(N, 1, threaded);
        walk(1000, 1000, threaded);
        walk(1, 1, threaded);
    }
}

/* What was delivered stays until the next call, while the thread is filling. */
static void
test_prefetch_window_stays(void **state)
{
    const struct order o = make_order(4, 1);
    struct dataset *d = make_dataset();
    struct prefetch *p;
    struct err err;

    (void)state;
    assert_int_equal(prefetch_create(d, &o, true, &p, &err), 0);
    for (int64_t i = 0; i < 200; i++) {
        const struct prefetch_window *w = prefetch_window_at(p, i);

        for (int again = 0; again < 5; again++)
            check_window(w, &o, i);
    }
    prefetch_destroy(&p);
    dataset_destroy(&d);
}

/* Windows in order, over the ends of epochs, and jumps: not one byte. */
static void
test_prefetch_allocates_nothing(void **state)
{
    const struct order o = make_order(4, 1);
    struct dataset *d = make_dataset();
    struct prefetch *p;
    struct err err;
    long before;

    (void)state;
    before = atomic_load(&n_allocations);
    assert_int_equal(prefetch_create(d, &o, true, &p, &err), 0);
    assert_true(atomic_load(&n_allocations) > before); /* they are counted */
    before = atomic_load(&n_allocations);
    for (int64_t i = 0; i < 50; i++)
        prefetch_window_at(p, i);
    prefetch_window_at(p, 3);
    assert_int_equal(atomic_load(&n_allocations), before);
    prefetch_destroy(&p);
    dataset_destroy(&d);
}

/* Destroyed at once, or while the thread fills. */
static void
test_prefetch_ends(void **state)
{
    const struct order o = make_order(4, 1);
    struct dataset *d = make_dataset();
    struct prefetch *p = NULL;
    struct err err;

    (void)state;
    prefetch_destroy(&p);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(prefetch_create(d, &o, true, &p, &err), 0);
        if (i % 2 == 0)
            prefetch_window_at(p, i);
        prefetch_destroy(&p);
    }
    dataset_destroy(&d);
}

static void
test_prefetch_drop_last_leaves_none(void **state)
{
    struct order o = make_order(11, 1);
    struct dataset *d = make_dataset();
    struct prefetch *p;
    struct err err;

    (void)state;
    o.drop_last = true;
    assert_int_equal(prefetch_create(d, &o, true, &p, &err), ERR_SPEC);
    assert_null(p);
    assert_string_equal(err.msg, "data.batch_size: 11, but there are 10 "
                                 "samples and drop_last leaves none");
    dataset_destroy(&d);
}

/* ---- tokens -------------------------------------------------------------- */

#define LENGTH 4

/* Bytes 0 .. 99: id s gives s, s + 1, .. and as targets s + 1, s + 2, .. */
static struct dataset *
make_text(void)
{
    const struct dataset_options options = {.target_is_class = true,
                                            .sequence_length = LENGTH};
    char dir[64], x[96];
    const struct spec_source source = {
        .present = true, .format = SPEC_FORMAT_TEXT, .input = x};
    uint8_t text[100];
    struct dataset *d;
    struct err err;

    bytes_make_dir(dir);
    snprintf(x, sizeof(x), "%s/x", dir);
    for (int i = 0; i < 100; i++)
        text[i] = (uint8_t)i;
    bytes_write_file(x, text, sizeof(text));
    assert_int_equal(dataset_open(&source, &options, &d, &err), 0);
    bytes_remove_dir(dir);
    return d;
}

static void
check_text_window(const struct prefetch_window *w, const struct order *o,
                  int64_t position)
{
    const struct order_window at = order_window_at(o, position);
    int64_t ids[64], done = 0;

    order_ids_at(o, position, NULL, ids);
    assert_memory_equal(&w->at, &at, sizeof(at));
    assert_memory_equal(w->ids, ids, (size_t)at.n_samples * sizeof(*ids));
    assert_int_equal(w->n_count, at.n_samples * LENGTH);
    for (int64_t b = 0; b < at.n_batches; b++)
        for (int64_t i = 0; i < w->batch[b].n; i++, done++)
            for (int t = 0; t < LENGTH; t++) {
                const int32_t *x = w->batch[b].input, *y = w->batch[b].target;

                assert_int_equal(x[i * LENGTH + t], ids[done] + t);
                assert_int_equal(y[i * LENGTH + t], ids[done] + t + 1);
            }
    assert_int_equal(done, at.n_samples);
}

/* Drawn starts, then windows side by side; a resume gives what was. */
static void
test_prefetch_tokens(void **state)
{
    static const int64_t positions[] = {0, 1, 2, 3, 1, 100, 0, 7};
    struct dataset *d = make_text();
    struct order o = {.seed = 7,
                      .n_samples = dataset_n_samples(d),
                      .batch_size = 5,
                      .accumulate = 2,
                      .shuffle = true,
                      .id_step = dataset_id_step(d),
                      .n_starts = dataset_n_starts(d)};
    struct prefetch *p;
    struct err err;

    (void)state;
    assert_int_equal(o.n_samples, 24);
    for (int pass = 0; pass < 4; pass++) {
        o.shuffle = pass < 2;
        assert_int_equal(prefetch_create(d, &o, pass % 2 == 0, &p, &err), 0);
        for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++)
            check_text_window(prefetch_window_at(p, positions[i]), &o,
                              positions[i]);
        prefetch_destroy(&p);
    }
    dataset_destroy(&d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefetch_in_order),
        cmocka_unit_test(test_prefetch_detour),
        cmocka_unit_test(test_prefetch_window_stays),
        cmocka_unit_test(test_prefetch_allocates_nothing),
        cmocka_unit_test(test_prefetch_ends),
        cmocka_unit_test(test_prefetch_drop_last_leaves_none),
        cmocka_unit_test(test_prefetch_tokens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
