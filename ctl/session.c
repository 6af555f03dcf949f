/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/session.h"

#include <assert.h>
#include <errno.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ctl/format.h"
#include "ctl/joblist.h"

#define DEFAULT_TIMEOUT_MS 10000
#define LINE_MAX_BYTES     4096

/* ---- options -------------------------------------------------------------*/

static int
choose_color(struct session *s, struct err *err)
{
    const char *when = args_global_value(s->args, "color");
    const char *term = getenv("TERM"), *none = getenv("NO_COLOR");

    if (when == NULL || strcmp(when, "auto") == 0)
        s->out.color = isatty(STDOUT_FILENO) && (none == NULL || !*none) &&
                       term != NULL && strcmp(term, "dumb") != 0;
    else if (strcmp(when, "always") == 0)
        s->out.color = true;
    else if (strcmp(when, "never") != 0)
        return err_set(err, ERR_USAGE, "--color %s: auto, always or never",
                       when);
    return 0;
}

int
session_init(struct session *s, const struct cmd *cmd, const struct args *args,
             struct err *err)
{
    bool json = args_global_flag(args, "json");
    bool parsable = args_global_flag(args, "parsable");

    *s = (struct session){.cmd = cmd, .args = args};
    s->out.f = stdout;
    s->out.ops = json       ? &output_json
                 : parsable ? &output_parsable
                            : &output_text;
    s->out.utc = args_global_flag(args, "utc");
    s->out.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    s->quiet = args_global_flag(args, "quiet");
    s->link_options.socket = args_global_value(args, "socket");
    s->link_options.interrupt_fd = -1;
    if (json && parsable)
        return err_set(err, ERR_USAGE,
                       "--json and --parsable exclude each "
                       "other");
    int rc = choose_color(s, err);
    if (rc < 0)
        return rc;
    return args_global_seconds(args, "timeout", DEFAULT_TIMEOUT_MS,
                               &s->link_options.timeout_ms, err);
}

void
session_fini(struct session *s)
{
    output_abandon(&s->out);
    link_close(&s->link);
    if (s->link_options.interrupt_fd >= 0)
        close(s->link_options.interrupt_fd);
}

/* ---- words ---------------------------------------------------------------*/

static void
put_words(FILE *f, const struct session *s, const char *prefix, const char *fmt,
          va_list ap)
{
    char line[LINE_MAX_BYTES];

    vsnprintf(line, sizeof(line), fmt, ap);
    fputs(prefix, f);
    format_put_safe(f, line, s->out.utf8);
    putc('\n', f);
}

void
session_tell(const struct session *s, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_words(s->out.f, s, "", fmt, ap);
    va_end(ap);
}

void
session_say(const struct session *s, const char *fmt, ...)
{
    va_list ap;

    if (s->quiet)
        return;
    fflush(s->out.f); /* in the order of happening, on one terminal */
    va_start(ap, fmt);
    put_words(stderr, s, "", fmt, ap);
    va_end(ap);
}

void
session_warn(const struct session *s, const char *fmt, ...)
{
    va_list ap;

    fflush(s->out.f);
    va_start(ap, fmt);
    put_words(stderr, s, "trainctl: ", fmt, ap);
    va_end(ap);
}

void
session_complain(const struct session *s, const char *fmt, ...)
{
    va_list ap;

    fflush(s->out.f);
    va_start(ap, fmt);
    put_words(stderr, s, "", fmt, ap);
    va_end(ap);
}

int
session_width(FILE *f)
{
    struct winsize size;

    if (ioctl(fileno(f), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
}

/* ---- the daemon ----------------------------------------------------------*/

int
session_link(struct session *s, struct err *err)
{
    return s->link != NULL ? 0 : link_open(&s->link_options, &s->link, err);
}

int
session_one(struct session *s, enum message_id message, const void *args,
            void *out, struct err *err)
{
    int rc = session_link(s, err);

    return rc < 0 ? rc : call_one(s->link, message, args, out, err);
}

int
session_many(struct session *s, enum message_id message, const void *args,
             call_row_fn *row, void *ctx, struct err *err)
{
    int rc = session_link(s, err);

    return rc < 0 ? rc : call_many(s->link, message, args, row, ctx, err);
}

static int
put_row(void *ctx, const void *view, struct err *err)
{
    struct output *out = ctx;

    if (ferror(out->f)) /* nobody reads any more; main.c says why */
        return err_set(err, ERR_IO, "standard output");
    return output_row(out, view, err);
}

int
session_list(struct session *s, enum message_id message, const void *args,
             const struct output_layout *layout, struct err *err)
{
    int rc = session_link(s, err); /* no "[" before an error */

    if (rc == 0)
        rc = output_begin(&s->out, layout, err);
    if (rc == 0)
        rc = session_many(s, message, args, put_row, &s->out, err);
    if (rc == 0)
        return output_end(&s->out, err);
    output_abandon(&s->out);
    return rc;
}

int
session_job(struct session *s, const char *ref, struct call_held_job *job,
            struct err *err)
{
    struct view_job_ref args;
    struct view_job view;

    view_init(VIEW_ID_job_ref, &args);
    args.job = ref;
    int rc = session_one(s, MESSAGE_ID_status, &args, &view, err);
    return rc < 0 ? rc : call_hold_job(job, &view, err);
}

/* ---- several jobs --------------------------------------------------------*/

int
session_begin_results(struct session *s, int n,
                      const struct output_layout *layout, struct err *err)
{
    if (output_is_text(&s->out) || n <= 1)
        return 0;
    return output_begin(&s->out, layout, err);
}

int
session_put_result(struct session *s, enum view_id view, const void *record,
                   struct err *err)
{
    if (output_is_text(&s->out))
        return 0;
    if (s->out.layout != NULL)
        return output_row(&s->out, record, err);
    return s->out.ops->item(&s->out, view, record, err);
}

int
session_end_results(struct session *s, struct err *err)
{
    return s->out.layout != NULL ? output_end(&s->out, err) : 0;
}

int
session_merge_exit(int so_far, int code)
{
    return so_far < 0 || so_far == code ? code : SESSION_EXIT_DIFFER;
}

int
session_one_ref(struct session *s, int i, char **ref, struct err *err)
{
    struct joblist list = {0};
    int rc = joblist_add(&list, args_at(s->args, i), err);

    *ref = NULL;
    if (rc == 0 && list.n != 1)
        rc = err_set(err, ERR_USAGE, "%s: one job at a time",
                     args_at(s->args, i));
    if (rc == 0) {
        *ref = list.ref[0];
        list.n = 0;
    }
    joblist_fini(&list);
    return rc;
}

/* Without a daemon, or interrupted, the other jobs fare no better. */
static bool
ends_all(int code)
{
    return code == ERR_UNREACHABLE || code == ERR_CANCELLED ||
           code == ERR_VERSION || code == ERR_PROTO;
}

static int
do_each(struct session *s, const struct joblist *list, session_job_fn *fn,
        void *ctx, struct err *err)
{
    int code = -1;

    for (int i = 0; i < list->n; i++) {
        int one = fn(s, list->ref[i], ctx, err);
        if (one < 0 && (ends_all(one) || list->n == 1))
            return one; /* main.c prints it */
        if (one < 0) {
            session_warn(s, "%s: %s", list->ref[i], err->msg);
            one = err_exit_code(one);
            err_clear(err);
        }
        code = session_merge_exit(code, one);
    }
    return code;
}

int
session_each_job(struct session *s, const struct output_layout *layout,
                 session_job_fn *fn, void *ctx, struct err *err)
{
    struct joblist list = {0};
    int rc = 0;

    for (int i = 0; rc == 0 && i < args_n(s->args); i++)
        rc = joblist_add(&list, args_at(s->args, i), err);
    if (rc == 0)
        rc = session_link(s, err); /* no "[" before an error */
    if (rc == 0)
        rc = session_begin_results(s, list.n, layout, err);
    if (rc == 0) {
        int code = do_each(s, &list, fn, ctx, err);
        rc = code < 0 ? code : session_end_results(s, err);
        if (rc == 0)
            rc = code;
    }
    joblist_fini(&list);
    return rc;
}

/* ---- signals -------------------------------------------------------------*/

int
session_catch_signals(struct session *s, struct err *err)
{
    sigset_t set;

    assert(s->link == NULL);
    if (s->link_options.interrupt_fd >= 0)
        return 0;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    s->link_options.interrupt_fd =
        signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->link_options.interrupt_fd < 0)
        return err_set_errno(err, ERR_INTERNAL, errno, "signalfd");
    sigprocmask(SIG_BLOCK, &set, NULL);
    return 0;
}

int
session_take_signal(struct session *s)
{
    struct signalfd_siginfo info;
    int fd = s->link_options.interrupt_fd;

    if (fd < 0 || read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

int
session_sleep(struct session *s, int64_t ms, struct err *err)
{
    struct pollfd p = {s->link_options.interrupt_fd, POLLIN, 0};

    assert(ms >= 0 && ms < 3600000);
    if (poll(&p, 1, (int)ms) > 0)
        return err_set(err, ERR_CANCELLED, "interrupted");
    return 0;
}
