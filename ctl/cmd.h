/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd: the verbs, one table for dispatch, help, completion and the manual.
 *
 * Each cmd_<verb>.c defines one struct cmd with its options and its function;
 * cmd.c lists them. A unit test holds the manual to this table. The function
 * returns an exit code >= 0 when it has said all there is to say, or a
 * negative error whose sentence main.c prints.
 */
#ifndef CTL_CMD_H
#define CTL_CMD_H

#include "ctl/args.h"

struct session;

#define CMD_ANY (-1) /* max_args without a limit */

struct cmd {
    const char *name;
    const char *synopsis; /* arguments as help shows them: "JOB..." */
    const char *doc;      /* one line */
    const char *detail;   /* a paragraph for help, or NULL */
    const struct args_option *options; /* ends with name NULL; may be NULL */
    int min_args, max_args;
    int (*run)(struct session *s, struct err *err);
};

extern const struct args_option cmd_globals[];
extern const struct cmd *const cmd_table[]; /* ends with NULL */

const struct cmd *cmd_find(const char *name); /* NULL: none */
/* ERR_USAGE that names the near verb, if any. */
int cmd_refuse(const char *name, struct err *err);

extern const struct cmd cmd_validate, cmd_submit, cmd_list, cmd_status,
    cmd_watch, cmd_logs, cmd_metrics, cmd_evaluations, cmd_scale, cmd_skips,
    cmd_incidents, cmd_replay, cmd_ranges, cmd_attempts, cmd_checkpoint,
    cmd_checkpoints, cmd_rollback, cmd_pause, cmd_resume, cmd_cancel, cmd_wait,
    cmd_export, cmd_sample, cmd_explain_key, cmd_ping, cmd_version, cmd_help,
    cmd_complete, cmd_explain, cmd_guards, cmd_lineage, cmd_admin, cmd_events,
    cmd_devices, cmd_token, cmd_priority;

#endif
