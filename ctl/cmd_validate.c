/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/datacheck.h"
#include "ctl/format.h"
#include "ctl/session.h"
#include "ctl/specfile.h"

/* One fault as JSON or parsable, with the file in front; ctx counts them. */
static void
put_fault(struct session *s, const struct specfile *file,
          const struct view_fault *fault, void *ctx)
{
    int *n = ctx;
    FILE *f = s->out.f;

    (*n)++;
    if (output_is_text(&s->out)) {
        specfile_print_fault(s, file, fault, NULL);
    } else if (s->out.ops == &output_json) {
        fputs(*n > 1 ? ",\n{\"file\": " : "\n{\"file\": ", f);
        format_put_json(f, file->name);
        fprintf(f, ", \"line\": %lld, \"col\": %lld, \"path\": ",
                (long long)fault->line, (long long)fault->col);
        format_put_json(f, fault->path);
        fputs(", \"message\": ", f);
        format_put_json(f, fault->message);
        putc('}', f);
    } else {
        session_tell(s, "%s|%lld|%lld|%s|%s", file->name,
                     (long long)fault->line, (long long)fault->col, fault->path,
                     fault->message);
    }
}

/* The daemon's opinion, where one is reachable; the link is kept. */
static int
ask_daemon(struct session *s, struct specfile *file, bool *alone, int *n,
           struct err *err)
{
    if (*alone)
        return 0;
    int rc = session_link(s, err);
    if (rc == ERR_UNREACHABLE || rc == ERR_DENIED) {
        session_say(s, "checked without a daemon: %s", err->msg);
        *alone = true;
        return 0;
    }
    return rc < 0 ? rc : specfile_ask(s, file, put_fault, n, err);
}

static int
check_file(struct session *s, const char *path, bool *alone, int *n,
           struct err *err)
{
    bool print = args_flag(s->args, "print");
    struct specfile file;
    int before = *n;
    int rc = specfile_read(&file, path, NULL, 0, err);

    if (rc == 0)
        rc = specfile_check(s, &file, put_fault, n, err);
    if (rc == 0 && !args_flag(s->args, "no-data"))
        rc = datacheck_run(s, &file, put_fault, n, err);
    if (rc == 0)
        rc = ask_daemon(s, &file, alone, n, err);
    if (print && file.full != NULL)
        fputs(file.full, s->out.f);
    else if (rc == 0 && *n == before && output_is_text(&s->out))
        session_tell(s, "%s: valid", file.name);
    specfile_fini(&file);
    return rc < 0 ? rc : 0;
}

static int
run_validate(struct session *s, struct err *err)
{
    bool alone = args_flag(s->args, "local");
    bool json = s->out.ops == &output_json;
    int code = 0, n = 0;

    if (args_flag(s->args, "print") && !output_is_text(&s->out))
        return err_set(err, ERR_USAGE,
                       "--print prints specs, which are JSON: "
                       "it goes with no other output");
    if (json)
        putc('[', s->out.f);
    for (int i = 0; i < args_n(s->args); i++) {
        int rc = check_file(s, args_at(s->args, i), &alone, &n, err);
        if (rc < 0) { /* the other files are still worth a look */
            session_warn(s, "%s", err->msg);
            code = err_exit_code(rc);
        }
    }
    if (json)
        fputs(n > 0 ? "\n]\n" : "]\n", s->out.f);
    return n > 0 ? err_exit_code(ERR_SPEC) : code;
}

const struct cmd cmd_validate = {
    .name = "validate",
    .synopsis = "SPEC...",
    .doc = "all faults of specs at once, as FILE:LINE:COL: error: KEY: TEXT",
    .detail =
        "Checks here, and asks the daemon as well when there is one. SPEC "
        "is a file or - for standard input.",
    .options =
        (const struct args_option[]){
            {"local", 0, NULL, "do not ask the daemon"},
            {"no-data", 0, NULL, "do not look into the data files"},
            {"print", 0, NULL, "print the full spec, presets as layers"},
            {0},
        },
    .min_args = 1,
    .max_args = CMD_ANY,
    .run = run_validate,
};
