/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/rangetable.h"
#include "ctl/specfile.h"
#include "ctl/weights.h"
#include "proto/spec_merge.h"

struct place {
    struct weights weights;
    char checkpoint[PATH_MAX];
    char *spec; /* owned: the text, with all changes since */
};

/* ---- the spec as it is by now ---------------------------------------------*/

static int
merge_change(void *ctx, const void *view, struct err *err)
{
    const struct view_went_back *w = view;
    struct place *p = ctx;
    char *more = NULL;
    int rc;

    if (w->change[0] == '\0')
        return 0;
    rc = spec_merge(p->spec, strlen(p->spec), w->change, &more, err);
    if (rc < 0)
        return rc;
    free(p->spec);
    p->spec = more;
    return 0;
}

static int
read_spec(struct session *s, const struct view_job *job, const char *ref,
          struct place *p, struct err *err)
{
    struct specfile file = {0};
    struct view_query query;
    char path[PATH_MAX];
    int rc;

    if (snprintf(path, PATH_MAX, "%s/spec.json", job->directory) >= PATH_MAX)
        return err_set(err, ERR_PROTO, "the job's directory is too long");
    rc = specfile_read(&file, path, NULL, 0, err);
    if (rc == 0) {
        p->spec = file.text;
        file.text = NULL;
    }
    specfile_fini(&file);
    if (rc < 0 || job->rollbacks == 0)
        return rc;
    view_init(VIEW_ID_query, &query);
    query.job = ref;
    query.all_lines = true;
    return session_many(s, MESSAGE_ID_rollbacks, &query, merge_change, p, err);
}

/* ---- the checkpoint -------------------------------------------------------*/

/* A running job that has none yet makes one. */
static int
make_checkpoint(struct session *s, const char *ref, struct place *p,
                struct err *err)
{
    struct view_job_ref args;
    struct view_checkpoint made;
    int rc;

    view_init(VIEW_ID_job_ref, &args);
    args.job = ref;
    session_say(s, "job %s has no checkpoint yet; it makes one now", ref);
    rc = session_one(s, MESSAGE_ID_checkpoint, &args, &made, err);
    if (rc < 0)
        return rc;
    if (snprintf(p->checkpoint, PATH_MAX, "%s", made.path) >= PATH_MAX)
        return err_set(err, ERR_PROTO, "the checkpoint's path is too long");
    return 0;
}

static int
find_checkpoint(struct session *s, const struct view_job *job, const char *ref,
                struct place *p, struct err *err)
{
    const char *which = args_value(s->args, "checkpoint");
    int rc = weights_find(s, ref, which, &p->weights, err);

    if (rc == ERR_NOTFOUND && which == NULL &&
        strcmp(job->state, "running") == 0) {
        err_clear(err);
        return make_checkpoint(s, ref, p, err);
    }
    if (rc < 0)
        return rc;
    snprintf(p->checkpoint, PATH_MAX, "%s", p->weights.path);
    *strrchr(p->checkpoint, '/') = '\0';
    return 0;
}

static int
find_place(struct session *s, const char *ref, struct place *p, struct err *err)
{
    struct call_held_job held = {0};
    char id[24];
    int rc = session_job(s, ref, &held, err);

    if (rc < 0)
        return rc;
    snprintf(id, sizeof(id), "%" PRId64, held.job.id);
    rc = read_spec(s, &held.job, id, p, err);
    if (rc == 0)
        rc = find_checkpoint(s, &held.job, id, p, err);
    call_held_job_fini(&held);
    return rc;
}

static int
run_ranges(struct session *s, struct err *err)
{
    struct place *p = calloc(1, sizeof(*p));
    char *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    if (rc == 0 && p == NULL)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = find_place(s, ref, p, err);
    if (rc == 0) {
        const char *const words[] = {"--ranges", p->checkpoint, "--spec", "-"};
        rc = rangetable_show(s, words, 4, p->spec, err);
    }
    free(ref);
    if (p != NULL)
        free(p->spec);
    free(p);
    return rc;
}

const struct cmd cmd_ranges = {
    .name = "ranges",
    .synopsis = "JOB",
    .doc = "show the range of every tensor of the next iteration",
    .detail = "Runs here, with your rights, on the last checkpoint and the "
              "batch that training would go on with; the job is not "
              "disturbed. What is within 2 bits of overflow is marked, and "
              "gradients of which more than 1 % became zero that are not zero "
              "in float32: trouble before it comes. With --amp, what another "
              "precision would make of it.",
    .options =
        (const struct args_option[]){WEIGHTS_OPTION, RANGETABLE_OPTIONS, {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run_ranges,
};
