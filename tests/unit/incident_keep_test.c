/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/base/failpoint.h"
#include "engine/diagnose/incident_keep.h"
#include "tests/support/kept.h"

#define MAX_PRUNED 8

struct pruned {
    char name[MAX_PRUNED][64];
    int n;
};

static int
on_event(void *ctx, const struct event *event, struct err *err)
{
    struct pruned *p = ctx;

    (void)err;
    assert_int_equal(event->kind, EVENT_INCIDENT_PRUNED);
    assert_true(p->n < MAX_PRUNED);
    snprintf(p->name[p->n++], 64, "%s", event->u.incident_pruned.name);
    return 0;
}

/* A keeper, and what it removed since the last look. */
struct bench {
    struct kept *k;
    struct incident_keep *keep;
    struct pruned pruned;
    struct report report;
    struct incident_keep_result result;
};

static void
start(struct bench *b, struct kept *k, int64_t keep, int64_t keep_bytes)
{
    struct err err;

    memset(b, 0, sizeof(*b));
    b->k = k;
    b->report = (struct report){.hooks = {&b->pruned, on_event, NULL, NULL},
                                .clock = clock_system()};
    assert_int_equal(
        incident_keep_create(k->incidents, keep, keep_bytes, &b->keep, &err),
        0);
}

/* The next iteration fails, with this verdict; updated: after an update. */
static void
fail_one(struct bench *b, enum event_verdict verdict, bool updated)
{
    struct state *s = b->k->state;
    struct err err;

    b->pruned.n = 0;
    b->k->event.u.incident.verdict = verdict;
    assert_int_equal(
        incident_keep_put(b->keep, &b->k->args, &b->report, &b->result, &err),
        0);
    s->count.iteration++;
    s->count.skips++;
    if (updated) {
        s->count.iteration++;
        s->count.updates++;
        s->weights_version++;
    }
}

static void
check_kept(const struct bench *b, const char *name, const char *gone)
{
    assert_int_equal(b->result.failure.code, 0);
    assert_string_equal(b->result.name, name);
    if (name[0] != '\0')
        assert_true(kept_is_here(b->k, name));
    assert_int_equal(b->pruned.n, gone != NULL);
    if (gone != NULL) {
        assert_string_equal(b->pruned.name[0], gone);
        assert_false(kept_is_here(b->k, gone));
    }
}

#define FORWARD EVENT_VERDICT_FORWARD_OVERFLOW
#define SCALE   EVENT_VERDICT_SCALE_OVERFLOW

static void
test_incident_keep_oldest_goes(void **state)
{
    struct bench b;

    start(&b, *state, 3, INT64_MAX);
    fail_one(&b, FORWARD, true);
    check_kept(&b, "it000000042-a1", NULL);
    fail_one(&b, SCALE, true);
    check_kept(&b, "it000000044-a1", NULL);
    fail_one(&b, FORWARD, true);
    check_kept(&b, "it000000046-a1", NULL);
    fail_one(&b, FORWARD, true); /* the scale's first, though it is younger */
    check_kept(&b, "it000000048-a1", "it000000044-a1");
    fail_one(&b, SCALE, true);
    check_kept(&b, "it000000050-a1", "it000000042-a1");
    fail_one(&b, FORWARD, true);
    check_kept(&b, "it000000052-a1", "it000000050-a1");
    incident_keep_destroy(&b.keep);
}

/* The next attempt finds them all, with their verdicts, and what a dead writer
 * left is gone. */
static void
test_incident_keep_over_attempts(void **state)
{
    struct kept *k = *state;
    struct bench b;
    char path[256];

    start(&b, k, 3, INT64_MAX);
    fail_one(&b, FORWARD, true);
    fail_one(&b, FORWARD, true);
    fail_one(&b, SCALE, true);
    incident_keep_destroy(&b.keep);
    kept_path(k, ".tmp-it000000001-a1", "", path);
    assert_int_equal(mkdir(path, 0700), 0);
    k->args.attempt = 2;
    k->state->count.iteration -= 6; /* from an older checkpoint */
    k->state->count.updates -= 3;
    k->state->count.skips -= 3;
    start(&b, k, 3, INT64_MAX);
    assert_false(bytes_exists(path));
    fail_one(&b, FORWARD, true);
    check_kept(&b, "it000000042-a2", "it000000046-a1");
    fail_one(&b, FORWARD, true);
    check_kept(&b, "it000000044-a2", "it000000042-a1");
    incident_keep_destroy(&b.keep);
}

static void
test_incident_keep_none(void **state)
{
    struct kept *k = *state;
    struct bench b;

    start(&b, k, 2, INT64_MAX);
    fail_one(&b, FORWARD, true);
    incident_keep_destroy(&b.keep);
    start(&b, k, 0, INT64_MAX);
    fail_one(&b, FORWARD, true);
    check_kept(&b, "", NULL);
    assert_true(kept_is_here(k, "it000000042-a1"));
    incident_keep_destroy(&b.keep);
}

static ino_t
inode_of(const struct kept *k, const char *name)
{
    struct stat st;
    char path[256];

    kept_path(k, name, "weights.safetensors", path);
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

static void
test_incident_keep_same_weights_are_linked(void **state)
{
    struct kept *k = *state;
    struct bench b;

    start(&b, k, 8, INT64_MAX);
    fail_one(&b, SCALE, false);
    fail_one(&b, SCALE, true); /* the same weights, then an update */
    fail_one(&b, SCALE, false);
    assert_true(inode_of(k, "it000000042-a1") == inode_of(k, "it000000043-a1"));
    assert_true(inode_of(k, "it000000043-a1") != inode_of(k, "it000000045-a1"));
    incident_keep_destroy(&b.keep);
    /* Versions are numbers of one attempt. */
    k->args.attempt = 2;
    start(&b, k, 8, INT64_MAX);
    fail_one(&b, SCALE, false);
    assert_true(inode_of(k, "it000000045-a1") != inode_of(k, "it000000046-a2"));
    incident_keep_destroy(&b.keep);
}

/* Bytes on disk of all that is kept, links once. */
static int64_t
disk_bytes(const struct kept *k)
{
    char command[256];
    long long n = -1;

    snprintf(command, sizeof(command),
             "find '%s' -type f -printf '%%i %%s\\n' | sort -u | "
             "awk '{n += $2} END {print n + 0}'",
             k->incidents);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld", &n), 1);
    pclose(f);
    return n;
}

static void
test_incident_keep_budget(void **state)
{
    struct kept *k = *state;
    struct bench b;
    int64_t weights, own = incident_file_estimate(&k->args, &weights);
    int n_pruned = 0;

    assert_true(weights > 0 && own > 0);
    start(&b, k, 100, 2 * own + weights);
    for (int i = 0; i < 20; i++) {
        fail_one(&b, i % 3 == 0 ? SCALE : FORWARD, i % 4 == 0);
        assert_int_equal(b.result.failure.code, 0);
        assert_true(kept_is_here(k, b.result.name));
        assert_true(disk_bytes(k) <= 2 * own + weights);
        n_pruned += b.pruned.n;
    }
    assert_true(n_pruned >= 10);
    incident_keep_destroy(&b.keep);
    /* Larger than all the room: not kept, and nothing goes for it. */
    const int64_t before = disk_bytes(k);
    start(&b, k, 100, own + weights - 1);
    fail_one(&b, FORWARD, true);
    check_kept(&b, "", NULL);
    assert_int_equal(disk_bytes(k), before);
    incident_keep_destroy(&b.keep);
    start(&b, k, 100, own + weights);
    fail_one(&b, FORWARD, true);
    assert_true(kept_is_here(k, b.result.name));
    incident_keep_destroy(&b.keep);
}

/* The estimate is never less than what is written. */
static void
test_incident_keep_estimate_holds(void **state)
{
    struct kept *k = *state;
    struct incident_file_weights written;
    struct incident_file_info info;
    int64_t weights, own = incident_file_estimate(&k->args, &weights);
    struct err err;

    assert_int_equal(incident_file_write(&k->args, &info, &written, &err), 0);
    assert_true(info.n_bytes <= own);
    assert_true(info.weights_bytes <= weights);
    assert_int_equal(disk_bytes(k), info.n_bytes + info.weights_bytes);
}

static void
test_incident_keep_full_disk(void **state)
{
    struct kept *k = *state;
    struct bench b;

    start(&b, k, 8, INT64_MAX);
    failpoint_arm("incident.before_manifest=ENOSPC");
    fail_one(&b, FORWARD, true);
    failpoint_arm(NULL);
    assert_int_equal(b.result.failure.code, ERR_NOSPACE);
    assert_string_equal(b.result.name, "");
    assert_int_equal(disk_bytes(k), 0);
    fail_one(&b, FORWARD, true);
    check_kept(&b, "it000000044-a1", NULL);
    incident_keep_destroy(&b.keep);
}

int
main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, kept_setup, kept_teardown)
    const struct CMUnitTest tests[] = {
        T(test_incident_keep_oldest_goes),
        T(test_incident_keep_over_attempts),
        T(test_incident_keep_none),
        T(test_incident_keep_same_weights_are_linked),
        T(test_incident_keep_budget),
        T(test_incident_keep_estimate_holds),
        T(test_incident_keep_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
