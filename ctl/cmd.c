/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/near.h"

const struct args_option cmd_globals[] = {
    {"socket", 0, "PATH", "the daemon's socket; default: searched for"},
    {"timeout", 0, "SEC", "for the daemon to answer; default 10"},
    {"json", 0, NULL, "JSON: one object or array; lines for streams"},
    {"parsable", 0, NULL, "all fields with | between them, no heading"},
    {"utc", 0, NULL, "times in UTC instead of the local zone"},
    {"color", 0, "WHEN", "auto, always or never"},
    {"quiet", 'q', NULL, "say nothing on standard error but errors"},
    {"help", 'h', NULL, "about the program or the verb"},
    {"version", 0, NULL, "version of this program"},
    {NULL, 0, NULL, NULL},
};

/* In the order of help: the life of a job, then looking at it, then acting on
 * it, then the rest. */
const struct cmd *const cmd_table[] = {
    &cmd_validate,
    &cmd_submit,
    &cmd_list,
    &cmd_status,
    &cmd_watch,
    &cmd_wait,
    &cmd_logs,
    &cmd_metrics,
    &cmd_evaluations,
    &cmd_scale,
    &cmd_skips,
    &cmd_incidents,
    &cmd_explain,
    &cmd_replay,
    &cmd_ranges,
    &cmd_guards,
    &cmd_attempts,
    &cmd_lineage,
    &cmd_checkpoint,
    &cmd_checkpoints,
    &cmd_rollback,
    &cmd_pause,
    &cmd_resume,
    &cmd_cancel,
    &cmd_priority,
    &cmd_export,
    &cmd_sample,
    &cmd_explain_key,
    &cmd_events,
    &cmd_devices,
    &cmd_token,
    &cmd_ping,
    &cmd_admin,
    &cmd_version,
    &cmd_help,
    &cmd_complete,
    NULL,
};

const struct cmd *
cmd_find(const char *name)
{
    for (int i = 0; cmd_table[i] != NULL; i++)
        if (strcmp(cmd_table[i]->name, name) == 0)
            return cmd_table[i];
    return NULL;
}

int
cmd_refuse(const char *name, struct err *err)
{
    struct near near = near_start(name);

    for (int i = 0; cmd_table[i] != NULL; i++)
        near_offer(&near, cmd_table[i]->name);
    if (near_best(&near) != NULL)
        return err_set(err, ERR_USAGE, "no verb \"%s\"; did you mean %s?", name,
                       near_best(&near));
    return err_set(err, ERR_USAGE,
                   "no verb \"%s\"; \"trainctl help\" lists "
                   "them",
                   name);
}
