/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/export.h"
#include "ctl/near.h"
#include "ctl/target.h"

/* What the words of --what ask for; the form has every field of the reply. */
static const struct {
    const char *word;
    enum message_id message;
} lists[] = {
    {"metrics", MESSAGE_ID_metrics},
    {"scale", MESSAGE_ID_scale},
    {"skips", MESSAGE_ID_skips},
    {"incidents", MESSAGE_ID_incidents},
    {"evaluations", MESSAGE_ID_evaluations},
    {"checkpoints", MESSAGE_ID_checkpoints},
    {"guards", MESSAGE_ID_guards},
    {"rollbacks", MESSAGE_ID_rollbacks},
};
#define N_LISTS (sizeof(lists) / sizeof(lists[0]))

static int
find_list(const char *word, size_t *out, struct err *err)
{
    struct near near = near_start(word);

    for (*out = 0; *out < N_LISTS; ++*out) {
        if (strcmp(lists[*out].word, word) == 0)
            return 0;
        near_offer(&near, lists[*out].word);
    }
    if (near_best(&near) != NULL)
        return err_set(err, ERR_USAGE, "--what %s: did you mean %s?", word,
                       near_best(&near));
    return err_set(err, ERR_USAGE, "--what %s: %s", word, EXPORT_WHAT);
}

static int
read_window(const struct session *s, enum message_id message,
            struct view_query *query, struct err *err)
{
    int rc =
        args_i64(s->args, "from-iteration", 0, 0, INT64_MAX, &query->from, err);

    if (rc == 0)
        rc =
            args_i64(s->args, "to-iteration", 0, 0, INT64_MAX, &query->to, err);
    if (rc == 0 && query->to > 0 && query->to < query->from)
        rc = err_set(err, ERR_USAGE,
                     "--to-iteration lies before --from-iteration");
    if (rc == 0 && message == MESSAGE_ID_rollbacks &&
        (query->from > 0 || query->to > 0))
        rc = err_set(err, ERR_USAGE,
                     "rollbacks are between lines: they are exported all, "
                     "without --from-iteration and --to-iteration");
    return rc;
}

struct rows {
    struct output out;
    const struct target *target;
};

static int
put_row(void *ctx, const void *view, struct err *err)
{
    struct rows *rows = ctx;
    int rc;

    errno = 0;
    rc = output_row(&rows->out, view, err);
    return rc == 0 && ferror(rows->out.f)
               ? target_refuse(rows->target, errno, err)
               : rc;
}

static int
put_all(struct session *s, enum message_id message,
        const struct view_query *query, struct rows *rows, struct err *err)
{
    const struct output_layout layout = {.view = message_table[message].reply};
    int rc = output_begin(&rows->out, &layout, err);

    if (rc == 0)
        rc = session_many(s, message, query, put_row, rows, err);
    if (rc == 0)
        rc = output_end(&rows->out, err);
    errno = 0;
    if (rc == 0 && (fflush(rows->out.f) != 0 || ferror(rows->out.f)))
        rc = target_refuse(rows->target, errno, err);
    output_abandon(&rows->out);
    return rc;
}

/* Standard output has a stream of its own, too: its troubles are told here,
 * once. */
static int
write_rows(struct session *s, enum message_id message,
           const struct view_query *query, struct rows *rows,
           struct target *target, struct err *err)
{
    const int fd = fcntl(target->fd, F_DUPFD_CLOEXEC, 0);
    int rc;

    rows->out.f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (rows->out.f == NULL) {
        rc = target_refuse(target, errno, err);
        close(fd);
        return rc;
    }
    rc = put_all(s, message, query, rows, err);
    errno = 0;
    if (fclose(rows->out.f) != 0 && rc == 0)
        rc = target_refuse(target, errno, err);
    if (rc == 0)
        rc = target_commit(target, err);
    if (rc == 0 && !target_is_stdout(target))
        session_tell(s, "%s", target->path);
    return rc;
}

int
export_rows(struct session *s, const struct export_job *job,
            const struct output_ops *ops, const char *suffix, struct err *err)
{
    const char *word = args_value(s->args, "what");
    char name[NAME_MAX + 1], ending[64];
    struct target target = {.fd = -1};
    struct rows rows = {.out = {.ops = ops}, .target = &target};
    struct view_query query;
    size_t list = 0;
    int rc = find_list(word != NULL ? word : lists[0].word, &list, err);

    view_init(VIEW_ID_query, &query);
    query.job = job->ref;
    query.all_lines = args_flag(s->args, "all-lines");
    query.confusion = true;
    if (rc == 0)
        rc = read_window(s, lists[list].message, &query, err);
    if (rc < 0)
        return rc;
    snprintf(ending, sizeof(ending), ".%s%s", lists[list].word, suffix);
    target_name(job->view->name, "job", ending, name);
    rc = target_open(&target, job->to != NULL ? job->to : name,
                     args_flag(s->args, "force"), err);
    if (rc == 0)
        rc = write_rows(s, lists[list].message, &query, &rows, &target, err);
    target_abandon(&target);
    if (rc == 0)
        session_say(s, "%" PRId64 " row%s of %s of job %s", rows.out.n_rows,
                    rows.out.n_rows == 1 ? "" : "s", lists[list].word,
                    job->ref);
    return rc;
}
