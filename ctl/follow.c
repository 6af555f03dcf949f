/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/follow.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "ctl/bar.h"
#include "ctl/format.h"
#include "ctl/retry.h"

#define CREDIT            64 /* notices on their way; half is given back at a time */
#define INTERVAL_TTY_MS   100
#define INTERVAL_PLAIN_MS 1000

struct follow {
    struct session *s;
    char ref[24];
    FILE *lines;
    struct bar bar;
    char state[32]; /* the job's, as last told */
    int used;       /* notices taken since credit was last given */
};

/* ---- one notice ----------------------------------------------------------*/

static void
show_progress(struct follow *f, const struct view_notice *n, bool force)
{
    struct bar_state state = {
        .state = f->state,
        .iteration = n->iteration,
        .updates = n->updates,
        .skips = n->skips,
        .total_iterations = n->total_iterations,
        .loss = n->loss,
        .scale = n->scale,
        .iterations_per_s = n->iterations_per_s,
        .eta_s = n->eta_s,
    };

    if (!f->s->quiet || f->bar.tty)
        bar_update(&f->bar, &state, session_width(f->bar.f), link_now_ms(),
                   force);
}

static const char *
kind_color(const char *kind)
{
    if (strcmp(kind, "skip") == 0 || strcmp(kind, "warning") == 0)
        return "\033[33m";
    if (strcmp(kind, "incident") == 0)
        return "\033[31m";
    if (strcmp(kind, "checkpoint") == 0 || strcmp(kind, "evaluation") == 0)
        return "\033[32m";
    return "";
}

/* The text without "iteration N: ", which has a column of its own. */
static const char *
skip_iteration(const struct view_notice *n)
{
    char prefix[48];
    int len = snprintf(prefix, sizeof(prefix), "iteration %" PRId64 ": ",
                       n->iteration);

    return strncmp(n->text, prefix, (size_t)len) == 0 ? n->text + len : n->text;
}

static void
put_event_line(struct follow *f, const struct view_notice *n)
{
    const struct output *out = &f->s->out;
    const char *color = out->color ? kind_color(n->kind) : "";

    bar_clear(&f->bar);
    fprintf(f->lines, "%9" PRId64 "  %s", n->iteration, color);
    format_put_safe(f->lines, n->kind, out->utf8);
    fprintf(f->lines, "%s%*s", color[0] != '\0' ? "\033[0m" : "",
            (int)(12 - strnlen(n->kind, 11)), "");
    format_put_safe(f->lines, skip_iteration(n), out->utf8);
    putc('\n', f->lines);
    fflush(f->lines);
}

static void
show_notice(struct follow *f, const struct view_notice *n)
{
    bool changed = n->state[0] != '\0' && strcmp(f->state, n->state) != 0;

    if (n->state[0] != '\0')
        snprintf(f->state, sizeof(f->state), "%s", n->state);
    if (n->dropped > 0) {
        bar_clear(&f->bar);
        session_say(f->s,
                    "%" PRId64 " notices were left out: this end was "
                    "too slow",
                    n->dropped);
    }
    if (strcmp(n->kind, "progress") != 0 && strcmp(n->kind, "end") != 0)
        put_event_line(f, n);
    show_progress(f, n, changed && f->bar.tty);
}

static int
take_notice(struct follow *f, struct err *err)
{
    struct client *client = link_client(f->s->link);
    struct output *out = &f->s->out;
    struct view_notice notice;
    int rc = client_read(client, 0, &notice, err);

    if (rc < 0)
        return rc;
    if (output_is_text(out)) {
        show_notice(f, &notice);
    } else {
        rc = out->ops->item(out, VIEW_ID_notice, &notice, err);
        fflush(out->f);
    }
    if (rc == 0 && (ferror(out->f) || ferror(f->lines)))
        return err_set(err, ERR_CANCELLED, "nobody reads the output");
    if (rc == 0 && ++f->used >= CREDIT / 2) {
        rc = client_grant(client, f->used, err);
        f->used = 0;
    }
    return rc;
}

/* ---- the stream ----------------------------------------------------------*/

static int
begin_stream(struct follow *f, struct err *err)
{
    struct view_follow args;
    int rc = session_link(f->s, err);

    if (rc < 0)
        return rc;
    view_init(VIEW_ID_follow, &args);
    args.job = f->ref;
    args.credit = CREDIT;
    args.min_interval_ms = f->bar.tty ? INTERVAL_TTY_MS : INTERVAL_PLAIN_MS;
    f->used = 0;
    return client_ask(link_client(f->s->link), MESSAGE_ID_follow, &args, err);
}

/* One connection's worth of notices. 0: the job is final. */
static int
read_stream(struct follow *f, struct retry *retry, struct call_held_job *final,
            struct err *err)
{
    enum client_news news = CLIENT_NOTHING;
    struct view_job job;
    int rc = begin_stream(f, err);

    while (rc == 0) {
        rc = call_await(f->s->link, -1, &news, err);
        if (rc < 0 || news == CLIENT_REPLY)
            break;
        retry_forget(retry);
        rc = take_notice(f, err);
    }
    if (rc < 0)
        return rc;
    rc = client_read(link_client(f->s->link), 0, &job, err);
    if (rc == 0 && job.exit_code < 0) /* it is going away */
        return err_set(err, ERR_UNREACHABLE,
                       "the daemon ended the stream of job %s", f->ref);
    return rc == 0 ? call_hold_job(final, &job, err) : rc;
}

/* The bar belongs to a terminal if either stream is one; else plain lines go
 * where the event lines go. */
static void
choose_bar(struct follow *f)
{
    bool err_tty = isatty(STDERR_FILENO) && !f->s->quiet;
    bool out_tty = isatty(fileno(f->lines)) && !f->s->quiet;

    bar_init(&f->bar, err_tty ? stderr : f->lines, err_tty || out_tty,
             f->s->out.utf8);
}

int
follow_job(struct session *s, int64_t job, FILE *lines,
           struct call_held_job *final, struct err *err)
{
    struct follow f = {.s = s, .lines = lines};
    struct retry retry = {0};
    int rc;

    snprintf(f.ref, sizeof(f.ref), "%" PRId64, job);
    choose_bar(&f);
    for (;;) {
        rc = read_stream(&f, &retry, final, err);
        if (rc == 0 || !retry_is_worth(rc))
            break;
        bar_clear(&f.bar);
        rc = retry_link(&retry, s, -1, err);
        if (rc < 0)
            break;
    }
    bar_clear(&f.bar);
    return rc;
}
