/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session: what one run of trainctl has: options, output, a link to the daemon.
 *
 * Verbs get it from main.c. Data goes to standard output, words for a person
 * to standard error; all of a stranger's text passes through here or
 * output.h and leaves harmless for a terminal. The link is opened when first
 * needed; a verb that needs none works without a daemon.
 */
#ifndef CTL_SESSION_H
#define CTL_SESSION_H

#include "ctl/args.h"
#include "ctl/call.h"
#include "ctl/layout.h"
#include "ctl/link.h"
#include "ctl/output.h"

struct cmd;

struct session {
    const struct cmd *cmd;   /* borrowed from the table */
    const struct args *args; /* borrowed from main */
    struct output out;
    struct link_options link_options;
    struct link *link; /* owned, NULL until needed */
    bool quiet;
};

int session_init(struct session *s, const struct cmd *cmd,
                 const struct args *args, struct err *err);
void session_fini(struct session *s);

/* A line of data; a line of words (not with -q); a line of trouble. */
__attribute__((format(printf, 2, 3))) void session_tell(const struct session *s,
                                                        const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void session_say(const struct session *s,
                                                       const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void session_warn(const struct session *s,
                                                        const char *fmt, ...);
/* As session_warn() without the program's name: "file:3:7: error: ...". */
__attribute__((format(printf, 2, 3))) void
session_complain(const struct session *s, const char *fmt, ...);

/* Opens the link unless it is open. */
int session_link(struct session *s, struct err *err);

/* call.h with the link opened first. */
int session_one(struct session *s, enum message_id message, const void *args,
                void *out, struct err *err);
int session_many(struct session *s, enum message_id message, const void *args,
                 call_row_fn *row, void *ctx, struct err *err);
/* A MANY message to the output. */
int session_list(struct session *s, enum message_id message, const void *args,
                 const struct output_layout *layout, struct err *err);
/* The job that a JOB word names, to keep. */
int session_job(struct session *s, const char *ref, struct call_held_job *job,
                struct err *err);
/* Records of a verb that acts on one or several jobs: in a machine's form one
 * object, or an array when n > 1. For text all three do nothing, the verb has
 * its own words. */
int session_begin_results(struct session *s, int n,
                          const struct output_layout *layout, struct err *err);
int session_put_result(struct session *s, enum view_id view, const void *record,
                       struct err *err);
int session_end_results(struct session *s, struct err *err);

/* The one job reference of argument i; malloc'd into *ref. */
int session_one_ref(struct session *s, int i, char **ref, struct err *err);

/* Does fn for every job that the arguments name, between begin and end of
 * results. An error of one is printed and the others go on. Returns the exit
 * code: what all had, or 10 when they differ; negative when the arguments are
 * no jobs. fn returns as a verb does. */
typedef int session_job_fn(struct session *s, const char *ref, void *ctx,
                           struct err *err);
int session_each_job(struct session *s, const struct output_layout *layout,
                     session_job_fn *fn, void *ctx, struct err *err);
#define SESSION_EXIT_DIFFER 10
int session_merge_exit(int so_far, int code); /* so_far -1 at the start */

/* From now on SIGINT and SIGTERM end waiting with ERR_CANCELLED instead of the
 * program. Call before the link is opened. */
int session_catch_signals(struct session *s, struct err *err);
/* The signal that came, 0 = none. */
int session_take_signal(struct session *s);
/* Sleeps; ERR_CANCELLED when a caught signal came. */
int session_sleep(struct session *s, int64_t ms, struct err *err);

/* Columns of the terminal behind f; 80 when it is none. */
int session_width(FILE *f);

#endif
