/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/plot.h"

#define MAX_WIDTH  100
#define LOSS_ROWS  9
#define SCALE_ROWS 5

struct series {
    struct plot_point *point; /* owned */
    int n, room;
    double *mark; /* owned */
    int n_marks, marks_room;
};

static void
fini_series(struct series *series)
{
    free(series->point);
    free(series->mark);
}

static int
add_point(struct series *series, struct plot_point point, struct err *err)
{
    if (series->n == series->room) {
        int room = series->room > 0 ? series->room * 2 : 256;
        struct plot_point *grown =
            reallocarray(series->point, (size_t)room, sizeof(*grown));
        if (grown == NULL)
            return err_set(err, ERR_NOMEM, "out of memory");
        series->point = grown;
        series->room = room;
    }
    series->point[series->n++] = point;
    return 0;
}

static int
add_mark(struct series *series, double x, struct err *err)
{
    if (series->n_marks == series->marks_room) {
        int room = series->marks_room > 0 ? series->marks_room * 2 : 64;
        double *grown =
            reallocarray(series->mark, (size_t)room, sizeof(*grown));
        if (grown == NULL)
            return err_set(err, ERR_NOMEM, "out of memory");
        series->mark = grown;
        series->marks_room = room;
    }
    series->mark[series->n_marks++] = x;
    return 0;
}

static struct plot_style
choose_style(const struct session *s, int rows)
{
    int width = session_width(s->out.f);

    return (struct plot_style){
        .width = width > MAX_WIDTH ? MAX_WIDTH : width,
        .height = rows,
        .utf8 = s->out.utf8,
        .color = s->out.color,
    };
}

static int
put_plot(const struct session *s, const struct plot *plot, int rows,
         struct err *err)
{
    struct plot_style style = choose_style(s, rows);
    char *text = plot_render(plot, &style);

    if (text == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    fputs(text, s->out.f);
    free(text);
    return 0;
}

static struct plot_point
level(double x, double y)
{
    return (struct plot_point){x, y, y, y};
}

/* The mean of a thinned group: its extremes are the noise of single batches
 * and would hide the curve. */
static int
add_metric(void *ctx, const void *view, struct err *err)
{
    const struct view_metric *m = view;

    return add_point(ctx, level((double)m->iteration, m->loss), err);
}

/* The iterations that a plot of the query spans. */
static void
find_span(const struct view_query *query, const struct view_job *job,
          double *from, double *to)
{
    *from = query->from > 0 ? (double)query->from : 1;
    *to = query->to > 0 ? (double)query->to : (double)job->iteration;
    *to = fmax(*to, *from + 1);
}

int
chart_put_loss(struct session *s, const struct view_query *query,
               const struct view_job *job, struct err *err)
{
    struct series series = {0};
    struct view_query args = *query;
    int rc;

    args.max_points = 2L * choose_style(s, LOSS_ROWS).width;
    rc = session_many(s, MESSAGE_ID_metrics, &args, add_metric, &series, err);
    if (rc == 0) {
        struct plot plot = {
            .title = "training loss",
            .x_title = "iteration",
            .points = series.point,
            .n_points = series.n,
            .axis = PLOT_AUTO,
        };
        find_span(query, job, &plot.x_min, &plot.x_max);
        rc = put_plot(s, &plot, LOSS_ROWS, err);
    }
    fini_series(&series);
    return rc;
}

struct scale_series {
    struct series series;
    double from; /* first iteration of the plot */
};

static int
add_scale(void *ctx, const void *view, struct err *err)
{
    struct scale_series *s = ctx;
    const struct view_scale *event = view;
    double x = (double)event->iteration;
    int rc = 0;

    if (s->series.n == 0) /* what it was up to the first change */
        rc = add_point(&s->series, level(s->from, event->before), err);
    if (rc == 0)
        rc = add_point(&s->series, level(x, event->after), err);
    if (rc == 0 && strcmp(event->cause, "skip") == 0)
        rc = add_mark(&s->series, x, err);
    return rc;
}

int
chart_put_scale(struct session *s, const struct view_query *query,
                const struct view_job *job, struct err *err)
{
    struct scale_series scale = {0};
    double to = 0;
    int rc;

    find_span(query, job, &scale.from, &to);
    rc = session_many(s, MESSAGE_ID_scale, query, add_scale, &scale, err);
    if (rc == 0 && scale.series.n == 0 && job->iteration > 0)
        rc = add_point(&scale.series, level(scale.from, job->scale), err);
    if (rc == 0) {
        struct plot plot = {
            .title = "loss scale",
            .x_title = "iteration",
            .points = scale.series.point,
            .n_points = scale.series.n,
            .steps = true,
            .axis = PLOT_LOG2,
            .x_min = scale.from,
            .x_max = to,
            .marks = scale.series.mark,
            .n_marks = scale.series.n_marks,
            .marks_title = "skips",
        };
        rc = put_plot(s, &plot, SCALE_ROWS, err);
    }
    fini_series(&scale.series);
    return rc;
}
