/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/incident_keep.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "engine/run/ckpt.h"
#include "engine/run/ckpt_dir.h"

struct incident_keep {
    char *directory; /* owned */
    int64_t max_kept, max_bytes;
    struct incident_file_info *kept; /* owned; oldest first */
    int n, cap;
    /* The weights of the newest one, and which version of the state's they
     * are; name "": of none of this attempt. */
    struct incident_file_weights weights;
    uint64_t weights_version;
};

/* ---- the list -------------------------------------------------------------*/

static int
compare_age(const void *a, const void *b)
{
    const struct incident_file_info *x = a, *y = b;
    int64_t it_x = 0, it_y = 0, at_x = 0, at_y = 0;

    ckpt_dir_parse_name(x->name, &it_x, &at_x);
    ckpt_dir_parse_name(y->name, &it_y, &at_y);
    if (at_x != at_y)
        return at_x < at_y ? -1 : 1;
    return (it_x > it_y) - (it_x < it_y);
}

static int
add(struct incident_keep *k, const struct incident_file_info *info,
    struct err *err)
{
    if (k->n == k->cap) {
        const int cap = k->cap > 0 ? 2 * k->cap : 16;
        struct incident_file_info *more =
            reallocarray(k->kept, (size_t)cap, sizeof(*more));

        if (more == NULL)
            return err_set(err, ERR_NOMEM, "incidents: no memory");
        k->kept = more;
        k->cap = cap;
    }
    k->kept[k->n++] = *info;
    return 0;
}

/* A directory that cannot be looked at is not one of ours. */
static int
look_around(struct incident_keep *k, struct err *err)
{
    DIR *dir = opendir(k->directory);
    const struct dirent *e;
    int rc = 0;

    if (dir == NULL)
        return 0; /* there are none yet */
    while (rc == 0 && (e = readdir(dir)) != NULL) {
        struct incident_file_info info;
        int64_t iteration, attempt;

        if (ckpt_dir_parse_name(e->d_name, &iteration, &attempt) &&
            incident_file_look(k->directory, e->d_name, &info, NULL) == 0)
            rc = add(k, &info, err);
    }
    closedir(dir);
    if (k->n > 1)
        qsort(k->kept, (size_t)k->n, sizeof(*k->kept), compare_age);
    return rc;
}

int
incident_keep_create(const char *directory, int64_t keep, int64_t keep_bytes,
                     struct incident_keep **out, struct err *err)
{
    struct incident_keep *k = calloc(1, sizeof(*k));
    int rc;

    *out = NULL;
    if (k != NULL)
        k->directory = strdup(directory);
    if (k == NULL || k->directory == NULL) {
        incident_keep_destroy(&k);
        return err_set(err, ERR_NOMEM, "incidents: no memory");
    }
    k->max_kept = keep;
    k->max_bytes = keep_bytes;
    ckpt_sweep(directory);
    rc = look_around(k, err);
    if (rc != 0)
        incident_keep_destroy(&k);
    *out = k;
    return rc;
}

void
incident_keep_destroy(struct incident_keep **keep)
{
    struct incident_keep *k = *keep;

    *keep = NULL;
    if (k == NULL)
        return;
    free(k->directory);
    free(k->kept);
    free(k);
}

/* ---- room -----------------------------------------------------------------*/

static bool
is_first_with(const struct incident_keep *k, int i)
{
    for (int j = 0; j < i; j++)
        if (k->kept[j].weights_inode == k->kept[i].weights_inode)
            return false;
    return true;
}

/* Of all that is kept; weights that several have count once. */
static int64_t
count_bytes(const struct incident_keep *k)
{
    int64_t n = 0;

    for (int i = 0; i < k->n; i++) {
        n += k->kept[i].n_bytes;
        if (is_first_with(k, i))
            n += k->kept[i].weights_bytes;
    }
    return n;
}

static int
find_kept(const struct incident_keep *k, const char *name)
{
    for (int i = 0; i < k->n; i++)
        if (strcmp(k->kept[i].name, name) == 0)
            return i;
    return -1;
}

static bool
may_link(const struct incident_keep *k, const struct state *state)
{
    return k->weights.name[0] != '\0' &&
           k->weights_version == state->weights_version &&
           find_kept(k, k->weights.name) >= 0;
}

/* Of the scale first, as they tell least. */
static int
choose_victim(const struct incident_keep *k)
{
    for (int i = 0; i < k->n; i++)
        if (k->kept[i].verdict == EVENT_VERDICT_SCALE_OVERFLOW)
            return i;
    return 0;
}

static int
remove_one(struct incident_keep *k, int i, const struct report *report,
           struct err *failure, struct err *err)
{
    struct event e = {.kind = EVENT_INCIDENT_PRUNED};
    char name[INCIDENT_RECORD_NAME_MAX];
    const int removed = ckpt_remove(k->directory, k->kept[i].name, failure);

    if (removed != 0 && removed != ERR_NOTFOUND)
        return 0; /* the failure says it */
    err_clear(failure);
    memcpy(name, k->kept[i].name, sizeof(name));
    memmove(&k->kept[i], &k->kept[i + 1],
            (size_t)(k->n - i - 1) * sizeof(*k->kept));
    k->n--;
    e.u.incident_pruned.name = name;
    return report_emit(report, &e, err);
}

struct need {
    int64_t own, weights;
};

/* 0 with a failure where something would have to go and does not. */
static int
make_room(struct incident_keep *k, const struct incident_file_args *args,
          const struct need *need, const struct report *report,
          struct err *failure, struct err *err)
{
    while (failure->code == 0) {
        const int64_t more =
            need->own + (may_link(k, args->state) ? 0 : need->weights);
        int rc;

        if (k->n == 0 ||
            (k->n < k->max_kept && count_bytes(k) + more <= k->max_bytes))
            break;
        rc = remove_one(k, choose_victim(k), report, failure, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void
write_it(struct incident_keep *k, const struct incident_file_args *args,
         struct incident_keep_result *result)
{
    struct incident_file_args a = *args;
    struct incident_file_weights weights;
    struct incident_file_info info;

    a.directory = k->directory;
    a.linked = may_link(k, args->state) ? &k->weights : NULL;
    if (incident_file_write(&a, &info, &weights, &result->failure) != 0 ||
        add(k, &info, &result->failure) != 0)
        return;
    k->weights = weights;
    k->weights_version = args->state->weights_version;
    memcpy(result->name, info.name, sizeof(result->name));
    result->n_bytes = info.n_bytes + info.weights_bytes;
}

int
incident_keep_put(struct incident_keep *keep,
                  const struct incident_file_args *args,
                  const struct report *report,
                  struct incident_keep_result *result, struct err *err)
{
    struct need need;
    int rc;

    memset(result, 0, sizeof(*result));
    err_clear(&result->failure);
    need.own = incident_file_estimate(args, &need.weights);
    if (keep->max_kept <= 0 || need.own + need.weights > keep->max_bytes)
        return 0;
    rc = make_room(keep, args, &need, report, &result->failure, err);
    if (rc == 0 && result->failure.code == 0)
        write_it(keep, args, result);
    return rc;
}
