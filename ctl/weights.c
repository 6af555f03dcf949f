/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static int
set_path(struct weights *out, const char *name, const char *directory,
         struct err *err)
{
    if (snprintf(out->name, sizeof(out->name), "%s", name) >= PATH_MAX ||
        snprintf(out->path, sizeof(out->path), "%s/%s.safetensors", directory,
                 out->ema ? "ema" : "model") >= PATH_MAX)
        return err_set(err, ERR_PROTO, "the checkpoint's path is too long");
    return 0;
}

static int
find_last(struct session *s, const char *ref, struct weights *out,
          struct err *err)
{
    struct view_job_ref args;
    struct view_paths paths;
    int rc;

    view_init(VIEW_ID_job_ref, &args);
    args.job = ref;
    rc = session_one(s, MESSAGE_ID_paths, &args, &paths, err);
    if (rc < 0)
        return rc;
    if (paths.checkpoint_path[0] == '\0')
        return err_set(err, ERR_NOTFOUND,
                       "job %s has no checkpoint yet; "
                       "\"trainctl checkpoint %s\" makes one",
                       ref, ref);
    return set_path(out, paths.checkpoint_name, paths.checkpoint_path, err);
}

struct wanted {
    const char *which; /* number, name, or "best" */
    struct weights *out;
    bool found;
};

static int
pick_checkpoint(void *ctx, const void *view, struct err *err)
{
    const struct view_checkpoint *c = view;
    struct wanted *wanted = ctx;
    char id[24];

    snprintf(id, sizeof(id), "%" PRId64, c->id);
    if (strcmp(wanted->which, "best") == 0
            ? !c->best || !c->live
            : strcmp(wanted->which, id) != 0 &&
                  strcmp(wanted->which, c->name) != 0)
        return 0;
    if (strcmp(c->state, "good") != 0)
        return strcmp(wanted->which, "best") == 0
                   ? 0
                   : err_set(err, ERR_CKPT, "checkpoint %s (%s) is %s", id,
                             c->name, c->state);
    wanted->found = true; /* the last best one is the best */
    return set_path(wanted->out, c->name, c->path, err);
}

static int
find_named(struct session *s, const char *ref, const char *which,
           struct weights *out, struct err *err)
{
    struct wanted wanted = {which, out, false};
    struct view_query args;
    int rc;

    view_init(VIEW_ID_query, &args);
    args.job = ref;
    args.all_lines = true;
    rc = session_many(s, MESSAGE_ID_checkpoints, &args, pick_checkpoint,
                      &wanted, err);
    if (rc == 0 && !wanted.found)
        rc = err_set(err, ERR_NOTFOUND, "job %s has no checkpoint %s", ref,
                     which);
    return rc;
}

int
weights_find(struct session *s, const char *ref, const char *which,
             struct weights *out, struct err *err)
{
    const int rc = which == NULL || strcmp(which, "last") == 0
                       ? find_last(s, ref, out, err)
                       : find_named(s, ref, which, out, err);

    if (rc == 0 && out->ema && access(out->path, F_OK) < 0 && errno == ENOENT)
        return err_set(err, ERR_NOTFOUND,
                       "checkpoint %s has no averaged weights: its spec has no "
                       "train.ema",
                       out->name);
    return rc;
}
