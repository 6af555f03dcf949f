/* SPDX-License-Identifier: Apache-2.0 */
/* Levels of metrics against a model that keeps every row: random histories
 * with rollbacks, windows cut anywhere, old rows that go. */
#include "daemon/store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/store_bench.h"

#define MAX_ROWS     200000
#define MAX_ATTEMPTS 64
#define MAX_MARKS    256

/* ---- the model ------------------------------------------------------------*/

struct row {
    int64_t attempt, iteration;
    double loss;
    bool skipped;
};
struct model {
    struct row v[MAX_ROWS];
    int n;
    struct {
        int64_t start, parent;
    } attempt[MAX_ATTEMPTS + 1];
    int64_t latest;
    struct {
        int64_t attempt, iteration, updates;
    } mark[MAX_MARKS]; /* checkpoints */
    int n_marks;
    uint64_t random;
};

static uint64_t
draw(struct model *m, uint64_t below)
{
    m->random = m->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (m->random >> 33) % below;
}

static bool
is_live(const struct model *m, const struct row *row)
{
    int64_t limit = INT64_MAX;

    for (int64_t a = m->latest; a > 0;
         limit = m->attempt[a].start < limit ? m->attempt[a].start : limit,
                 a = m->attempt[a].parent)
        if (row->attempt == a)
            return row->iteration <= limit;
    return false;
}

struct sum {
    int64_t n, n_skipped, n_bad, samples;
    double min, max;
};

static struct sum
sum_model(const struct model *m, int64_t from, int64_t to, bool all)
{
    struct sum s = {.min = INFINITY, .max = -INFINITY};

    for (int i = 0; i < m->n; i++) {
        const struct row *r = &m->v[i];

        if (r->iteration < from || r->iteration > to || !(all || is_live(m, r)))
            continue;
        s.n++;
        s.n_skipped += r->skipped;
        s.samples += 2;
        s.n_bad += !isfinite(r->loss);
        if (isfinite(r->loss)) {
            s.min = fmin(s.min, r->loss);
            s.max = fmax(s.max, r->loss);
        }
    }
    return s;
}

/* ---- the store ------------------------------------------------------------*/

struct answer {
    struct view_metric *v; /* owned */
    int n;
    bool more;
};

static void
on_rows(void *ctx, int rc, const void *items, int n, bool more,
        const struct err *err)
{
    struct store_bench *b = ctx;
    struct answer *a = b->seen;

    if (rc != 0)
        fail_msg("%s", err->msg);
    free(a->v);
    a->v = calloc((size_t)n + 1, sizeof(*a->v));
    assert_non_null(a->v);
    if (n > 0)
        memcpy(a->v, items, (size_t)n * sizeof(*a->v));
    a->n = n;
    a->more = more;
    b->calls++;
}

static void
ask(struct store_bench *b, int64_t job, const struct view_query *q,
    struct answer *a)
{
    b->seen = a;
    store_query(b->store, MESSAGE_ID_metrics, job, q, on_rows, b);
    store_bench_settle(b);
}

static struct sum
sum_answer(const struct answer *a)
{
    struct sum s = {.min = INFINITY, .max = -INFINITY};

    for (int i = 0; i < a->n; i++) {
        const struct view_metric *v = &a->v[i];

        assert_int_equal(v->n, v->iteration - v->first + 1);
        s.n += v->n;
        s.n_skipped += v->n_skipped;
        s.samples += v->samples;
        s.n_bad += v->n_bad;
        if (v->n > v->n_bad) {
            assert_true(v->loss_min <= v->loss * (1 + 1e-12) &&
                        v->loss <= v->loss_max * (1 + 1e-12));
            s.min = fmin(s.min, v->loss_min);
            s.max = fmax(s.max, v->loss_max);
        }
    }
    return s;
}

static void
on_findings(void *ctx, int rc, const void *items, int n, bool more,
            const struct err *err)
{
    struct store_bench *b = ctx;
    const struct view_finding *f = items;

    (void)more;
    if (rc != 0)
        fail_msg("%s", err->msg);
    for (int i = 0; i < n; i++)
        /* The script's scale does not follow its own history. */
        if (strncmp(f[i].table, "metric", 6) == 0 &&
            strstr(f[i].text, "scale") == NULL &&
            strstr(f[i].text, "incident") == NULL)
            fail_msg("%s, row %lld: %s", f[i].table, (long long)f[i].row,
                     f[i].text);
    b->calls++;
}

static void
fsck(struct store_bench *b)
{
    store_fsck(b->store, on_findings, b);
    store_bench_settle(b);
}

/* ---- histories ------------------------------------------------------------*/

struct history {
    struct store_bench *b;
    struct model *m;
    int64_t job, offset;
    struct store_bench_script s;
};

static void
flush(struct history *h)
{
    if (h->s.len == 0)
        return;
    store_ingest(h->b->store, h->job, h->m->latest, h->offset, h->s.text,
                 h->s.len, true, store_bench_on_done, h->b);
    store_bench_settle(h->b);
    assert_int_equal(h->b->rc, 0);
    h->offset += (int64_t)h->s.len;
    h->s.len = 0;
}

static void
begin(struct history *h, int64_t parent, int64_t at, int64_t updates)
{
    struct model *m = h->m;
    char name[64] = "";

    flush(h);
    m->latest++;
    assert_true(m->latest <= MAX_ATTEMPTS);
    m->attempt[m->latest].start = at;
    m->attempt[m->latest].parent = parent;
    if (at > 0)
        snprintf(name, sizeof(name), "it%09lld-a%lld", (long long)at,
                 (long long)parent);
    store_bench_begin_attempt(h->b, h->job, m->latest);
    h->offset = 0;
    h->s.seq = 0;
    h->s.iteration = at;
    h->s.updates = updates;
    h->s.skips = at - updates;
    store_bench_put_started(&h->s, name, "{}");
}

static void
step(struct history *h)
{
    struct model *m = h->m;
    uint64_t kind = draw(m, 50);
    double loss = kind == 0   ? (double)NAN
                  : kind == 1 ? (double)INFINITY
                              : 1 + (double)draw(m, 1000) / 1000;
    bool skipped = draw(m, 20) == 0;

    /* A rare spike, which must be found again. */
    if (draw(m, 500) == 0)
        loss = 1e6 + (double)m->n;
    store_bench_put_step(&h->s, loss, skipped);
    assert_true(m->n < MAX_ROWS);
    m->v[m->n++] = (struct row){m->latest, h->s.iteration, loss, skipped};
    if (draw(m, 200) == 0 || h->s.len > sizeof(h->s.text) - 2000)
        flush(h);
}

static void
checkpoint(struct history *h)
{
    struct model *m = h->m;
    char name[64];

    snprintf(name, sizeof(name), "it%09lld-a%lld", (long long)h->s.iteration,
             (long long)m->latest);
    store_bench_put_checkpoint(&h->s, name, false);
    if (m->n_marks < MAX_MARKS) {
        m->mark[m->n_marks].attempt = m->latest;
        m->mark[m->n_marks].iteration = h->s.iteration;
        m->mark[m->n_marks++].updates = h->s.updates;
    }
    flush(h);
}

/* To a checkpoint of whatever line, or to the start. */
static void
go_back(struct history *h)
{
    struct model *m = h->m;
    int i = (int)draw(m, (uint64_t)m->n_marks + 1);

    if (i == m->n_marks)
        begin(h, 0, 0, 0);
    else
        begin(h, m->mark[i].attempt, m->mark[i].iteration, m->mark[i].updates);
}

static struct history *
start(struct store_bench *b, uint64_t seed)
{
    struct history *h = calloc(1, sizeof(*h));

    assert_non_null(h);
    h->m = calloc(1, sizeof(*h->m));
    assert_non_null(h->m);
    h->b = b;
    h->m->random = seed;
    h->job = store_bench_insert_job(b, "a");
    begin(h, 0, 0, 0);
    return h;
}

static void
end(struct history *h)
{
    free(h->m);
    free(h);
}

/* ---- comparisons ----------------------------------------------------------*/

static void
compare(const struct sum *got, const struct sum *want)
{
    assert_int_equal(got->n, want->n);
    assert_int_equal(got->n_skipped, want->n_skipped);
    assert_int_equal(got->n_bad, want->n_bad);
    assert_int_equal(got->samples, want->samples);
    assert_true(got->min == want->min && got->max == want->max);
}

/* The live line is told whole, each iteration once. */
static void
check_contiguous(const struct answer *a, int64_t from, int64_t to)
{
    int64_t next = from;

    for (int i = 0; i < a->n; i++) {
        assert_int_equal(a->v[i].first, next);
        next = a->v[i].iteration + 1;
    }
    assert_int_equal(next, to + 1);
}

static void
check_window(struct history *h, int64_t from, int64_t to, int64_t points,
             bool all)
{
    struct answer a = {0};
    struct view_query q;
    struct sum got, want = sum_model(h->m, from, to, all);

    view_init(VIEW_ID_query, &q);
    q.from = from;
    q.to = to;
    q.max_points = points;
    q.all_lines = all;
    ask(h->b, h->job, &q, &a);
    got = sum_answer(&a);
    compare(&got, &want);
    if (!all) {
        assert_true(a.n <= points);
        check_contiguous(&a, from, from + want.n - 1);
        /* As many as were asked for, where there are as many. */
        assert_true(h->b->keep_metrics > 0 ||
                    a.n >= (want.n < points ? want.n : points + 1) / 2);
    }
    free(a.v);
}

static void
check_windows(struct history *h, int n)
{
    int64_t last = h->s.iteration;

    flush(h);
    if (last == 0)
        return;
    check_window(h, 1, last, 1, false);
    check_window(h, 1, INT64_MAX, 100, true);
    for (int i = 0; i < n; i++) {
        int64_t from = 1 + (int64_t)draw(h->m, (uint64_t)last);
        int64_t to = from + (int64_t)draw(h->m, (uint64_t)(last - from + 1));

        check_window(h, from, to, 1 + (int64_t)draw(h->m, 60),
                     draw(h->m, 4) == 0);
    }
}

/* ---- tests ----------------------------------------------------------------*/

static void
test_level_windows_of_random_histories(void **state)
{
    struct store_bench *b = *state;

    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct history *h = start(b, seed * 7919);

        for (int leg = 0; leg < 8; leg++) {
            int n = (int)draw(h->m, 700);

            for (int i = 0; i < n; i++) {
                step(h);
                if (draw(h->m, 60) == 0)
                    checkpoint(h);
            }
            check_windows(h, 12);
            fsck(b);
            go_back(h);
            check_windows(h, 3);
        }
        end(h);
    }
}

static void
test_level_same_rows_one_by_one_or_in_runs(void **state)
{
    struct store_bench *b = *state;
    struct view_query q;
    struct answer a[2] = {{0}};

    view_init(VIEW_ID_query, &q);
    q.max_points = 7;
    for (int k = 0; k < 2; k++) {
        struct history *h = start(b, 5);

        for (int i = 0; i < 1000; i++) {
            step(h);
            if (k == 0)
                flush(h);
        }
        flush(h);
        ask(b, h->job, &q, &a[k]);
        end(h);
    }
    assert_int_equal(a[0].n, a[1].n);
    for (int i = 0; i < a[0].n; i++) {
        assert_int_equal(a[0].v[i].n, a[1].v[i].n);
        assert_true(memcmp(&a[0].v[i].loss, &a[1].v[i].loss, sizeof(double)) ==
                    0);
        assert_true(a[0].v[i].loss_max == a[1].v[i].loss_max);
    }
    free(a[0].v);
    free(a[1].v);
}

/* With old rows gone: whole windows stay exact, others are cut at a row. */
static void
test_level_old_rows_go(void **state)
{
    struct store_bench *b = *state;
    struct answer a = {0};
    struct history *h;
    struct view_query q;
    struct sum got, want;
    int64_t n = 0, next = 1, full = 0;

    store_bench_close(b);
    b->keep_metrics = 256;
    store_bench_open(b);
    h = start(b, 99);
    for (int i = 0; i < 30000; i++) {
        step(h);
        if (i % 3000 == 1234)
            checkpoint(h);
    }
    flush(h);
    check_window(h, 1, h->s.iteration, 500, false);
    check_window(h, 1, h->s.iteration, 3, false);
    check_window(h, h->s.iteration - 200, h->s.iteration, 50, false);
    fsck(b);
    /* Pages tell each iteration once, coarsely at first. */
    view_init(VIEW_ID_query, &q);
    do {
        ask(b, h->job, &q, &a);
        for (int i = 0; i < a.n; i++) {
            assert_int_equal(a.v[i].first, next);
            next = a.v[i].iteration + 1;
            n += a.v[i].n;
            full += a.v[i].n == 1;
            q.after_row = a.v[i].row;
        }
    } while (a.more);
    assert_int_equal(n, 30000);
    assert_in_range(full, 256, 256 + 2 * 1024);
    /* A window amid what is gone: at least what it asks for, not much more. */
    q.from = 5001;
    q.to = 5100;
    q.after_row = 0;
    q.max_points = 500;
    ask(b, h->job, &q, &a);
    got = sum_answer(&a);
    want = sum_model(h->m, 5001, 5100, false);
    assert_in_range(got.n, want.n, want.n + 512);
    assert_true(got.n_skipped >= want.n_skipped && got.max >= want.max);
    /* Rows about a checkpoint are there still: going back there is exact. */
    begin(h, 1, h->m->mark[1].iteration, h->m->mark[1].updates);
    for (int i = 0; i < 500; i++)
        step(h);
    check_windows(h, 0);
    check_window(h, 1, h->s.iteration, 100, false);
    check_window(h, 1, 30000, 100, true);
    fsck(b);
    /* And to one of the line that was left. */
    begin(h, 1, h->m->mark[7].iteration, h->m->mark[7].updates);
    for (int i = 0; i < 3000; i++)
        step(h);
    flush(h);
    check_window(h, 1, h->s.iteration, 100, false);
    check_window(h, 1, 30000, 100, true);
    fsck(b);
    free(a.v);
    end(h);
}

#define TEST(f)                                                                \
    cmocka_unit_test_setup_teardown(f, store_bench_setup, store_bench_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_level_windows_of_random_histories),
        TEST(test_level_same_rows_one_by_one_or_in_runs),
        TEST(test_level_old_rows_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
