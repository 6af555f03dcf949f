/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/history.h"

/* ---- the confusion table -------------------------------------------------*/

static int
take_last(void *ctx, const void *view, struct err *err)
{
    const struct view_evaluation *e = view;

    (void)err;
    if (!e->incomplete)
        *(int64_t *)ctx = e->iteration;
    return 0;
}

static int
side_of(const struct view_i64s *table)
{
    int side = 0;

    while (side * side < table->n)
        side++;
    return side;
}

/* Wide enough for the largest count and the largest class. */
static int
width_of(const struct view_i64s *table)
{
    int64_t most = side_of(table);
    int width = 1;

    for (int i = 0; i < table->n; i++)
        most = table->v[i] > most ? table->v[i] : most;
    for (; most >= 10; most /= 10)
        width++;
    return width;
}

static void
put_table(FILE *f, const struct view_evaluation *e)
{
    const int side = side_of(&e->confusion), width = width_of(&e->confusion);

    fprintf(f,
            "iteration %" PRId64 ": rows are the right classes, columns the "
            "answers\n%*s",
            e->iteration, width, "");
    for (int k = 0; k < side; k++)
        fprintf(f, "  %*d", width, k);
    for (int i = 0; i < side; i++) {
        fprintf(f, "\n%*d", width, i);
        for (int k = 0; k < side; k++)
            fprintf(f, "  %*" PRId64, width, e->confusion.v[i * side + k]);
    }
    putc('\n', f);
}

static int
put_confusion(void *ctx, const void *view, struct err *err)
{
    const struct view_evaluation *e = view;
    struct session *s = ctx;

    if (e->incomplete)
        return 0;
    if (e->confusion.n == 0)
        return err_set(err, ERR_NOTFOUND,
                       "the evaluation at iteration %" PRId64 " has no "
                       "confusion table: name it in evaluate.metrics",
                       e->iteration);
    s->out.n_rows++;
    if (!output_is_text(&s->out))
        return s->out.ops->item != NULL
                   ? s->out.ops->item(&s->out, VIEW_ID_evaluation, e, err)
                   : err_set(err, ERR_USAGE,
                             "--confusion goes with text or --json");
    put_table(s->out.f, e);
    return 0;
}

/* Tables are large: only the last one is sent. */
static int
show_confusion(struct session *s, struct view_query *query, struct err *err)
{
    int64_t last = 0;
    int rc =
        session_many(s, MESSAGE_ID_evaluations, query, take_last, &last, err);

    if (rc < 0 || last == 0)
        return rc;
    query->from = query->to = last;
    query->confusion = true;
    return session_many(s, MESSAGE_ID_evaluations, query, put_confusion, s,
                        err);
}

/* ---- the verb ------------------------------------------------------------*/

static int
run_evaluations(struct session *s, struct err *err)
{
    struct view_query query;
    char *ref = NULL;
    int rc = history_query(s, &query, &ref, err);

    if (rc == 0 && args_flag(s->args, "confusion"))
        rc = show_confusion(s, &query, err);
    else if (rc == 0)
        rc = session_list(s, MESSAGE_ID_evaluations, &query,
                          &layout_evaluations, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, "no evaluation yet");
    free(ref);
    return rc;
}

const struct cmd cmd_evaluations = {
    .name = "evaluations",
    .synopsis = "JOB",
    .doc = "loss and metrics of the validation set",
    .detail = "With --confusion, the table of the last evaluation: how often "
              "a sample of each class was answered with each class.",
    .options =
        (const struct args_option[]){
            {"confusion", 0, NULL, "the last confusion table instead"},
            HISTORY_OPTIONS,
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_evaluations,
};
