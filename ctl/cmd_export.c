/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/export.h"
#include "ctl/near.h"
#include "ctl/weights.h"

/* ---- formats -------------------------------------------------------------*/

static int
put_csv(struct session *s, const struct export_job *job, struct err *err)
{
    return export_rows(s, job, &output_csv, ".csv", err);
}

static int
put_jsonl(struct session *s, const struct export_job *job, struct err *err)
{
    return export_rows(s, job, &output_jsonl, ".jsonl", err);
}

enum { WEIGHTS = 1, ROWS = 2, BOARD = 4 };

static const struct format {
    const char *name;
    unsigned kind;
    int (*run)(struct session *s, const struct export_job *job,
               struct err *err);
} formats[] = {
    {"safetensors", WEIGHTS, export_weights},
    {"csv", ROWS, put_csv},
    {"jsonl", ROWS, put_jsonl},
    {"tensorboard", BOARD, export_board},
};
#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

static int
find_format(const char *name, const struct format **out, struct err *err)
{
    struct near near = near_start(name);

    for (size_t i = 0; i < N_FORMATS; i++) {
        *out = &formats[i];
        if (strcmp(formats[i].name, name) == 0)
            return 0;
        near_offer(&near, formats[i].name);
    }
    if (near_best(&near) != NULL)
        return err_set(err, ERR_USAGE, "--format %s: did you mean %s?", name,
                       near_best(&near));
    return err_set(err, ERR_USAGE,
                   "--format %s: safetensors, csv, jsonl or tensorboard", name);
}

/* Options that only some formats understand. */
static const struct {
    const char *option;
    bool flag;
    unsigned kinds;
    const char *formats;
} only[] = {
    {"checkpoint", false, WEIGHTS, "safetensors"},
    {"ema", true, WEIGHTS, "safetensors"},
    {"what", false, ROWS, "csv and jsonl"},
    {"from-iteration", false, ROWS, "csv and jsonl"},
    {"to-iteration", false, ROWS, "csv and jsonl"},
    {"all-lines", true, ROWS | BOARD, "csv, jsonl and tensorboard"},
    {"follow", true, BOARD, "tensorboard"},
};

static int
check_options(const struct session *s, const struct format *format,
              struct err *err)
{
    for (size_t i = 0; i < sizeof(only) / sizeof(only[0]); i++) {
        const bool given = only[i].flag
                               ? args_flag(s->args, only[i].option)
                               : args_value(s->args, only[i].option) != NULL;
        if (given && (only[i].kinds & format->kind) == 0)
            return err_set(err, ERR_USAGE,
                           "--%s does not go with --format %s, only with %s",
                           only[i].option, format->name, only[i].formats);
    }
    return 0;
}

/* ---- the verb ------------------------------------------------------------*/

static int
check_target(const struct session *s, const struct format *format,
             struct err *err)
{
    const char *to = args_value(s->args, "to");

    if (format->kind != BOARD)
        return 0;
    if (to == NULL)
        return err_set(err, ERR_USAGE,
                       "--format tensorboard needs --to DIR, a directory of "
                       "its own");
    if (strcmp(to, "-") == 0)
        return err_set(err, ERR_USAGE,
                       "--format tensorboard makes files in a directory; it "
                       "does not go to standard output");
    return 0;
}

static int
run_export(struct session *s, struct err *err)
{
    const char *name = args_value(s->args, "format");
    struct export_job job = {.to = args_value(s->args, "to")};
    struct call_held_job held = {0};
    const struct format *format;
    char *ref = NULL;
    int rc = find_format(name != NULL ? name : formats[0].name, &format, err);

    if (rc == 0)
        rc = check_options(s, format, err);
    if (rc == 0)
        rc = check_target(s, format, err);
    if (rc == 0)
        rc = session_one_ref(s, 0, &ref, err);
    /* What was begun is taken back before the program ends. */
    if (rc == 0 && format->kind != WEIGHTS)
        rc = session_catch_signals(s, err);
    if (rc == 0)
        rc = session_job(s, ref, &held, err);
    free(ref);
    if (rc < 0)
        return rc;
    job.view = &held.job;
    snprintf(job.ref, sizeof(job.ref), "%" PRId64, held.job.id);
    rc = format->run(s, &job, err);
    call_held_job_fini(&held);
    return rc;
}

const struct cmd cmd_export = {
    .name = "export",
    .synopsis = "JOB",
    .doc = "weights, history or curves of a job, to a file",
    .detail = "Writes with your rights. The default is the last checkpoint's "
              "weights, to NAME.safetensors in the working directory; csv and "
              "jsonl are one list of the history, to NAME.WHAT.FORMAT; "
              "tensorboard is a directory of event files, whose steps are "
              "iterations.",
    .options =
        (const struct args_option[]){
            {"format", 0, "FORMAT",
             "safetensors (default), csv, jsonl or tensorboard"},
            {"to", 0, "PATH", "the file or directory; - is standard output"},
            {"force", 0, NULL, "replace what is there"},
            WEIGHTS_OPTION,
            WEIGHTS_EMA_OPTION,
            {"what", 0, "LIST", EXPORT_WHAT},
            {"from-iteration", 0, "N", "from iteration N on"},
            {"to-iteration", 0, "N", "up to iteration N"},
            {"all-lines", 0, NULL, "what a rollback left behind too"},
            {"follow", 'f', NULL, "events: go on until the job is final"},
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_export,
};
