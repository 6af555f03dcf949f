/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainctl's verbs that handle files: submit, validate, logs, export, and the
 * forms of a job's history. lines: one fake daemon and its files serve them
 * all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_daemon.h"

#define ARGS(...)                                                              \
    (const char *const[])                                                      \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }

#define JOB(id, state, code)                                                   \
    "{\"id\":" #id ",\"name\":\"../net\",\"state\":\"" state                   \
    "\",\"reason\":\"as asked\",\"iteration\":200,\"attempt\":2,"              \
    "\"scale\":32768,\"exit_code\":" #code "}"
#define OK(id, item) "{\"id\":" #id ",\"ok\":true,\"item\":" item "}"

static const char spec[] =
    "{\n"
    "  \"name\": \"net\",\n"
    "  \"data\": {\"train\": {\"format\": \"npy\", \"input\": \"in.npy\",\n"
    "    \"target\": \"out.npy\"}, \"batch_size\": 4},\n"
    "  \"model\": [{\"linear\": {\"out_features\": 10}}],\n"
    "  \"loss\": \"mse\",\n"
    "  \"optimizer\": {\"sgd\": {\"lr\": 0.1}},\n"
    "  \"train\": {\"epochs\": 1}\n"
    "}\n";

static void
write_file(const char *name, const char *text)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", fake_daemon_directory(), name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Zeros as (8, n) float32: data that the spec's job could train on. */
static void
write_npy(const char *name, int n)
{
    char bytes[1024] = "\x93NUMPY\x01", path[256];
    const int len = snprintf(bytes + 10, sizeof(bytes) - 10,
                             "{'descr': '<f4', 'fortran_order': False, "
                             "'shape': (8, %d), }\n",
                             n);
    const size_t n_bytes = (size_t)(10 + len + 8 * n * 4);
    FILE *f;

    bytes[8] = (char)len;
    memset(bytes + 10 + len, 0, sizeof(bytes) - (size_t)(10 + len));
    assert_true(n_bytes <= sizeof(bytes));
    snprintf(path, sizeof(path), "%s/%s", fake_daemon_directory(), name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n_bytes, f), n_bytes);
    assert_int_equal(fclose(f), 0);
}

static char *
read_file(const char *name)
{
    static char text[4096];
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", fake_daemon_directory(), name);
    f = fopen(path, "r");
    if (f == NULL)
        return NULL;
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return text;
}

static const struct fake_run *
run_script(const struct fake_step *script, const char *const *args)
{
    return fake_daemon_run(
        &(struct fake_setup){.script = script,
                             .directory = fake_daemon_directory()},
        args);
}

static void
assert_holds(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

static int
setup(void **state)
{
    (void)state;
    write_file("net.json", spec);
    write_npy("in.npy", 3);
    write_npy("out.npy", 10);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    fake_daemon_fini();
    return 0;
}

/* ---- submit --------------------------------------------------------------*/

static void
test_submit_sends_absolute_paths(void **state)
{
    char absolute[256];
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, absolute},
        {FAKE_SAY, OK(1, JOB(17, "queued", -1))},
        {FAKE_END, NULL},
    };

    (void)state;
    snprintf(absolute, sizeof(absolute), "%s/in.npy", fake_daemon_directory());
    const struct fake_run *r = run_script(script, ARGS("submit", "net.json"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "Submitted job 17\n");
    r = run_script(script, ARGS("submit", "net.json", "--print-id"));
    assert_string_equal(r->out, "17\n");
    r = run_script(script, ARGS("--parsable", "submit", "net.json"));
    assert_string_equal(r->out, "17\n");
    r = fake_daemon_run(
        &(struct fake_setup){
            .script = script, .directory = fake_daemon_directory(), .in = spec},
        ARGS("submit", "-"));
    assert_string_equal(r->out, "Submitted job 17\n");
}

static void
test_submit_fills_the_request(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"priority\":-3,\"idempotency_key\":\"k1\""},
        {FAKE_SAY, OK(1, JOB(17, "queued", -1))},
        {FAKE_END, NULL},
    };
    const struct fake_step named[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\\\"name\\\": \\\"true \\\\\\\"x\\\\\\\"\\\""},
        {FAKE_SAY, OK(1, JOB(17, "queued", -1))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("submit", "net.json", "--priority", "-3",
                                "--idempotency-key", "k1"));
    assert_int_equal(r->exit_code, 0);
    r = run_script(named, ARGS("submit", "net.json", "--name", "true \"x\""));
    assert_int_equal(r->exit_code, 0);
}

/* The answer to the first submit is lost: the second is the same one. */
static void
test_submit_asks_again(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"idempotency_key\":\"auto-"},
        {FAKE_CLOSE, NULL},
        FAKE_GREET,
        {FAKE_HEAR_AGAIN, NULL},
        {FAKE_SAY, OK(1, JOB(18, "queued", -1))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(script, ARGS("submit", "net.json"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "Submitted job 18\n");
}

static void
test_submit_prints_refusal_faults(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"submit\""},
        {FAKE_SAY,
         "{\"id\":1,\"ok\":false,\"error\":{\"name\":\"spec\",\"code\":-5,"
         "\"message\":\"2 faults\",\"faults\":[{\"line\":3,\"col\":4,"
         "\"path\":\"amp.dtype\",\"message\":\"not on this device\"},"
         "{\"line\":9,\"col\":1,\"path\":\"\",\"message\":\"too much\"}]}}"},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(script, ARGS("submit", "net.json"));
    assert_int_equal(r->exit_code, 65);
    assert_string_equal(r->err,
                        "net.json: error: amp.dtype: not on this device\n"
                        "net.json: error: too much\n");
    assert_string_equal(r->out, "");
}

static void
test_submit_prints_own_faults(void **state)
{
    (void)state;
    write_file("bad.json", "{\n  \"nam\": \"net\",\n  \"loss\": \"mse\"\n}\n");
    const struct fake_run *r =
        run_script(NULL, ARGS("submit", "bad.json", "--set", "amp.dtype=f8"));
    assert_int_equal(r->exit_code, 65);
    assert_holds(r->err, "bad.json:2:");
    assert_holds(r->err, "did you mean name?");
    assert_holds(r->err, "--set amp.dtype=f8: error: amp.dtype: ");
    assert_string_equal(r->out, "");
}

static void
test_submit_missing_data(void **state)
{
    (void)state;
    const struct fake_run *r = run_script(
        NULL, ARGS("submit", "net.json", "--set", "data.train.input=no.npy"));
    assert_int_equal(r->exit_code, 65);
    assert_holds(r->err, "data.train.input: ");
    assert_holds(r->err, "/no.npy: No such file or directory");
    r = run_script(NULL, ARGS("submit", "nothing.json"));
    assert_int_equal(r->exit_code, 74);
    assert_string_equal(r->err,
                        "trainctl: nothing.json: No such file or directory\n");
}

/* Data that cannot be read as such, or that the model does not fit: told here,
 * with the key that named the file; the daemon is not asked. */
static void
test_submit_looks_into_data(void **state)
{
    static const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"submit\""},
        {FAKE_SAY, OK(1, JOB(17, "queued", -1))},
        {FAKE_END, NULL},
    };

    (void)state;
    write_file("out.npy", "y");
    const struct fake_run *r = run_script(NULL, ARGS("submit", "net.json"));
    assert_int_equal(r->exit_code, 65);
    assert_holds(r->err, "net.json:4:15: error: data.train.target: ");
    assert_holds(r->err, "/out.npy: not an .npy file");
    r = run_script(NULL, ARGS("validate", "--local", "net.json"));
    assert_int_equal(r->exit_code, 65);
    assert_holds(r->err, "/out.npy: not an .npy file");
    r = run_script(NULL, ARGS("validate", "--local", "--no-data", "net.json"));
    assert_int_equal(r->exit_code, 0);
    r = run_script(script, ARGS("submit", "--no-data", "net.json"));
    assert_int_equal(r->exit_code, 0);
    write_npy("out.npy", 9);
    r = run_script(NULL, ARGS("submit", "net.json"));
    assert_int_equal(r->exit_code, 65);
    assert_holds(r->err, "mse: the model ends in ");
    write_npy("out.npy", 10);
}

static void
test_submit_follow(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"submit\""},
        {FAKE_SAY, OK(1, JOB(17, "queued", -1))},
        {FAKE_HEAR, "\"follow\""},
        {FAKE_SAY, "{\"id\":2,\"notice\":{\"kind\":\"growth\",\"text\":"
                   "\"iteration 2000: 65536 to 131072\",\"iteration\":2000}}"},
        {FAKE_SAY, OK(2, JOB(17, "failed", 9))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(
        script, ARGS("submit", "net.json", "--follow", "--print-id"));
    assert_int_equal(r->exit_code, 9);
    assert_string_equal(r->out, "17\n");
    assert_holds(r->err, "     2000  growth      65536 to 131072\n");
    assert_holds(r->err, "job 17: failed, as asked\n");
}

static void
test_submit_dry_run(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"verb\":\"validate\""},
        {FAKE_SAY, "{\"id\":1,\"ok\":true,\"items\":[{\"path\":\"model\","
                   "\"message\":\"needs 9.0 GiB\"}],\"more\":false}"},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("submit", "net.json", "--dry-run"));
    assert_int_equal(r->exit_code, 65);
    assert_string_equal(r->err, "net.json: error: model: needs 9.0 GiB\n");
}

/* ---- validate ------------------------------------------------------------*/

static void
test_validate_without_daemon(void **state)
{
    (void)state;
    write_file("bad.json", "{\"nam\": 1}");
    const struct fake_run *r =
        run_script(NULL, ARGS("validate", "net.json", "bad.json"));
    assert_int_equal(r->exit_code, 65);
    assert_string_equal(r->out, "net.json: valid\n");
    assert_holds(r->err, "bad.json:1:");
    assert_holds(r->err, "checked without a daemon");
    r = run_script(NULL, ARGS("validate", "--local", "--json", "net.json"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "[]\n");
    assert_string_equal(r->err, "");
}

/* What is printed is the same spec: printing that gives it again. Files that
 * are missing do not keep a spec from being shown. */
static void
test_validate_print(void **state)
{
    static const char preset[] =
        "{\"data\": {\"train\": {\"format\": \"text\", \"input\": "
        "\"nothing.txt\"}, \"sequence_length\": 8, \"batch_size\": 1}, "
        "\"model\": {\"gpt\": {\"vocab_size\": 256, \"block_size\": 8, "
        "\"n_layer\": 1, \"n_head\": 1, \"n_embd\": 4}}, "
        "\"loss\": \"cross_entropy\", \"optimizer\": \"adamw\"}";
    const struct fake_run *r;
    char *first;

    (void)state;
    write_file("gpt.json", preset);
    r = run_script(NULL, ARGS("validate", "--local", "--print", "gpt.json"));
    assert_int_equal(r->exit_code, 65);
    assert_holds(r->err, "nothing.txt: No such file or directory");
    assert_holds(r->out, "\"input\": \"nothing.txt\"");
    assert_holds(r->out, "{\"name\": \"c_fc\", \"linear\": {\"out_features\": "
                         "16, \"bias\": true}");
    assert_null(strstr(r->out, ": valid"));
    first = strdup(r->out);
    write_file("full.json", first);
    r = run_script(NULL, ARGS("validate", "--local", "--print", "full.json"));
    assert_string_equal(r->out, first);
    free(first);
    r = run_script(NULL, ARGS("validate", "--print", "--json", "full.json"));
    assert_int_equal(r->exit_code, 2);
}

/* ---- history -------------------------------------------------------------*/

static void
test_metrics_csv(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"from\":5,\"to\":9,\"max_points\":100"},
        {FAKE_SAY, "{\"id\":1,\"ok\":true,\"more\":false,\"items\":[{\"row\":1,"
                   "\"iteration\":5,\"loss\":0.1,\"scale\":\"Infinity\","
                   "\"skipped\":true}]}"},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("metrics", "3", "--csv", "--from", "5", "--to",
                                "9", "--max-points", "100"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(
        r->out,
        "row,iteration,updates,attempt,live,skipped,loss,loss_min,loss_max,"
        "scale,lr,grad_norm,samples,step_us,t_us,n,n_skipped,first,grad_norm_"
        "min,"
        "grad_norm_max,scale_min,scale_max,n_bad,n_bad_norm\n"
        "1,5,0,0,0,1,0.1,NaN,NaN,Infinity,NaN,NaN,0,0,0,0,0,"
        "0,NaN,NaN,NaN,NaN,0,0\n");
}

#define ROW(row, iteration) "{\"row\":" #row ",\"iteration\":" #iteration "}"
#define ROWS(id, rows)                                                         \
    "{\"id\":" #id ",\"ok\":true,\"more\":false,\"items\":[" rows "]}"
#define ATTEMPT(n, start)                                                      \
    "{\"attempt\":" #n ",\"start_iteration\":" #start ",\"policy\":\"{}\"}"

/* Attempt 2 goes back to iteration 1: what it does anew is shown again. */
#define EVALUATION(row, rest)                                                  \
    "{\"row\":" #row ",\"iteration\":" #row "0,\"updates\":" #row "0,"         \
    "\"attempt\":1,\"live\":true,\"n\":100" rest "}"
#define EVALUATIONS(id, rows)                                                  \
    "{\"id\":" #id ",\"ok\":true,\"more\":false,\"items\":[" rows "]}"

/* Columns that nobody asked for are not there. */
static void
test_evaluations_columns(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"evaluations\""},
        {FAKE_SAY,
         EVALUATIONS(
             1,
             EVALUATION(1, ",\"loss\":2,\"perplexity\":7.389") "," EVALUATION(
                 2, ",\"loss\":\"NaN\",\"perplexity\":\"NaN\","
                    "\"ema\":true"))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("evaluations", "3", "--utc"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(
        r->out,
        "ITERATION  UPDATES  LOSS  PERPLEXITY    N  WEIGHTS   ATTEMPT  TIME\n"
        "       10       10     2       7.389  100                  1  -\n"
        "       20       20                    100  averaged        1  -\n");
}

/* Tables are asked for one at a time: the last whole evaluation's. */
static void
test_evaluations_confusion(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"confusion\":false"},
        {FAKE_SAY,
         EVALUATIONS(1, EVALUATION(1, "") "," EVALUATION(2, "") "," EVALUATION(
                            3, ",\"incomplete\":"
                               "true"))},
        {FAKE_HEAR, "\"from\":20,\"to\":20"},
        {FAKE_SAY, EVALUATIONS(2, EVALUATION(2, ",\"confusion\":[40,2,0,58]"))},
        {FAKE_END, NULL},
    };
    const struct fake_step without[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"evaluations\""},
        {FAKE_SAY, EVALUATIONS(1, EVALUATION(2, ""))},
        {FAKE_HEAR, "\"confusion\":true"},
        {FAKE_SAY, EVALUATIONS(2, EVALUATION(2, ""))},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("evaluations", "3", "--confusion"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "iteration 20: rows are the right classes, "
                                "columns the answers\n"
                                "     0   1\n"
                                " 0  40   2\n"
                                " 1   0  58\n");
    r = run_script(script, ARGS("--json", "evaluations", "3", "--confusion"));
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "\"confusion\": [");
    r = run_script(without, ARGS("evaluations", "3", "--confusion"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "has no confusion table");
}

static void
test_metrics_follow_a_rollback(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"after_row\":0"},
        {FAKE_SAY, ROWS(1, ROW(1, 1) "," ROW(2, 2) "," ROW(3, 3))},
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, "{\"id\":2,\"ok\":true,\"item\":{\"id\":3,\"attempt\":1,"
                   "\"exit_code\":-1}}"},
        {FAKE_HEAR, "\"attempts\""},
        {FAKE_SAY, ROWS(3, ATTEMPT(1, 0))},
        {FAKE_HEAR, "\"after_row\":3"},
        {FAKE_SAY, ROWS(4, "")},
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(5, JOB(3, "completed", 0))}, /* attempt 2 */
        {FAKE_HEAR, "\"attempts\""},
        {FAKE_SAY, ROWS(6, ATTEMPT(1, 0) "," ATTEMPT(2, 1))},
        {FAKE_HEAR, "\"from\":2,\"to\":0,\"max_points\":0,\"after_row\":0"},
        {FAKE_SAY, ROWS(7, ROW(4, 2) "," ROW(5, 3))},
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(8, JOB(3, "completed", 0))},
        {FAKE_END, NULL},
    };
    static const int wanted[] = {1, 2, 3, 2, 3};

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("metrics", "3", "--follow", "--parsable"));
    const char *line = r->out;
    assert_int_equal(r->exit_code, 0);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        int row = 0, iteration = 0;
        assert_int_equal(sscanf(line, "%d|%d|", &row, &iteration), 2);
        assert_int_equal(row, i + 1);
        assert_int_equal(iteration, wanted[i]);
        line = strchr(line, '\n') + 1;
    }
    assert_string_equal(line, "");
}

static void
test_scale_plot_and_table(void **state)
{
    static const char events[] =
        "\"ok\":true,\"more\":false,\"items\":[{\"row\":1,\"iteration\":20,"
        "\"updates\":19,\"attempt\":1,\"live\":true,\"cause\":\"skip\","
        "\"before\":65536,\"after\":32768}]}";
    char second[512], third[512];
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(3, "running", -1))},
        {FAKE_HEAR, "\"scale\""},
        {FAKE_SAY, second},
        {FAKE_HEAR, "\"scale\""},
        {FAKE_SAY, third},
        {FAKE_END, NULL},
    };

    (void)state;
    snprintf(second, sizeof(second), "{\"id\":2,%s", events);
    snprintf(third, sizeof(third), "{\"id\":3,%s", events);
    const struct fake_run *r = run_script(script, ARGS("scale", "3"));
    assert_int_equal(r->exit_code, 0);
    assert_holds(r->out, "65536 |********\n");
    assert_holds(r->out, "skips         ^\n");
    assert_holds(r->out,
                 "ITERATION  UPDATES  CAUSE  BEFORE  AFTER  ATTEMPT  TIME\n"
                 "       20       19  skip    65536  32768        1  -\n");
}

static void
test_rollback_dry_run(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"to\":\"best\",\"dry_run\":true"},
        {FAKE_SAY,
         OK(1, "{\"job\":3,\"checkpoint\":8,\"name\":\"it000000100-a1\","
               "\"iteration\":100,\"from_iteration\":140,\"abandoned\":40,"
               "\"state\":\"running\"}")},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("rollback", "3", "--to", "best", "-n"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(
        r->out, "job 3 would go back from iteration 140 to 100, checkpoint 8 "
                "(it000000100-a1): 40 iterations would be left behind; "
                "running\n");
}

/* ---- files of the job ----------------------------------------------------*/

static char paths_answer[1024];

static const struct fake_step files_script[] = {
    FAKE_GREET,
    {FAKE_HEAR, "\"job\":\"@\""},
    {FAKE_SAY, OK(1, JOB(17, "running", -1))},
    {FAKE_HEAR, "\"verb\":\"paths\",\"args\":{\"job\":\"17\""},
    {FAKE_SAY, paths_answer},
    {FAKE_END, NULL},
};

static void
make_job_files(void)
{
    const char *d = fake_daemon_directory();
    static const char *const made[] = {"attempts", "attempts/1", "attempts/2",
                                       "ckpt"};
    char path[256];

    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", d, made[i]);
        mkdir(path, 0700);
    }
    write_file("attempts/1/stdout", "first attempt\n");
    write_file("attempts/2/stdout", "one\ntwo\nthree\n");
    write_file("attempts/2/stderr", "trouble\n");
    write_file("ckpt/model.safetensors", "weights");
    snprintf(paths_answer, sizeof(paths_answer),
             "{\"id\":2,\"ok\":true,\"item\":{\"job\":17,\"attempt\":2,"
             "\"state\":\"running\",\"stdout_path\":\"%s/attempts/2/stdout\","
             "\"stderr_path\":\"%s/attempts/2/stderr\",\"events_path\":"
             "\"%s/attempts/2/events.jsonl\",\"checkpoint_path\":\"%s/ckpt\","
             "\"checkpoint_name\":\"it000000100-a1\"}}",
             d, d, d, d);
}

static void
test_logs_streams(void **state)
{
    (void)state;
    make_job_files();
    const struct fake_run *r =
        run_script(files_script, ARGS("logs", "@", "--tail", "2"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "two\nthree\n");
    assert_string_equal(r->err, "trouble\n");
    r = run_script(files_script, ARGS("logs", "@", "--stream", "stderr"));
    assert_string_equal(r->out, "trouble\n");
    r = run_script(files_script,
                   ARGS("logs", "@", "--attempt", "1", "--stream", "stdout"));
    assert_string_equal(r->out, "first attempt\n");
    r = run_script(files_script, ARGS("logs", "@", "--stream", "events"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "attempts/2/events.jsonl: no such log");
}

static void
test_logs_follow_to_the_end(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "running", -1))},
        {FAKE_HEAR, "\"status\""},
        {FAKE_CLOSE, NULL}, /* a restart of the daemon */
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "completed", 0))},
        {FAKE_HEAR, "\"paths\""},
        {FAKE_SAY, paths_answer},
        {FAKE_END, NULL},
    };

    (void)state;
    make_job_files();
    const struct fake_run *r = run_script(
        script, ARGS("logs", "17", "--follow", "--stream", "stdout", "-q"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "one\ntwo\nthree\n");
}

static void
test_export_never_overwrites(void **state)
{
    (void)state;
    make_job_files();
    /* The job is called "../net". */
    const struct fake_run *r = run_script(files_script, ARGS("export", "@"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(r->out, "_._net.safetensors\n");
    assert_holds(r->err, "checkpoint it000000100-a1, 7 B");
    assert_string_equal(read_file("_._net.safetensors"), "weights");

    write_file("mine", "precious");
    r = run_script(files_script, ARGS("export", "@", "--to", "mine"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "mine exists already");
    assert_string_equal(read_file("mine"), "precious");
    r = run_script(files_script,
                   ARGS("export", "@", "--to", "mine", "--force"));
    assert_int_equal(r->exit_code, 0);
    assert_string_equal(read_file("mine"), "weights");
    r = run_script(files_script, ARGS("export", "@", "--to", "-"));
    assert_string_equal(r->out, "weights");
    /* The average is a file of its own, where there is one. */
    r = run_script(files_script, ARGS("export", "@", "--ema", "--to", "-"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "it000000100-a1 has no averaged weights");
    write_file("ckpt/ema.safetensors", "average");
    r = run_script(files_script, ARGS("export", "@", "--ema", "--to", "-"));
    assert_string_equal(r->out, "average");
}

static void
test_export_bad_checkpoint(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "running", -1))},
        {FAKE_HEAR, "\"checkpoints\""},
        {FAKE_SAY, "{\"id\":2,\"ok\":true,\"more\":false,\"items\":[{\"id\":4,"
                   "\"name\":\"it000000100-a1\",\"path\":\"/x\",\"state\":"
                   "\"pruned\"}]}"},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r =
        run_script(script, ARGS("export", "17", "--checkpoint", "4"));
    assert_int_equal(r->exit_code, 74);
    assert_holds(r->err, "checkpoint 4 (it000000100-a1) is pruned");
    r = run_script(script, ARGS("export", "17", "--checkpoint", "5"));
    assert_int_equal(r->exit_code, 2);
    assert_holds(r->err, "job 17 has no checkpoint 5");
}

/* A daemon that says nonsense of iterations: nothing is written. */
static void
test_export_holds_rows_to_their_order(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "completed", 0))},
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(2, JOB(17, "completed", 0))},
        {FAKE_HEAR, "\"attempts\""},
        {FAKE_SAY, "{\"id\":3,\"ok\":true,\"more\":false,\"items\":["
                   "{\"attempt\":2,\"policy\":\"{}\"}]}"},
        {FAKE_HEAR, "\"metrics\",\"args\":{\"job\":\"17\",\"all_lines\":true,"
                    "\"from\":1,\"to\":1000,"},
        {FAKE_SAY, "{\"id\":4,\"ok\":true,\"more\":false,\"items\":["
                   "{\"row\":1,\"iteration\":2,\"attempt\":2},"
                   "{\"row\":2,\"iteration\":2,\"attempt\":2}]}"},
        {FAKE_END, NULL},
    };

    (void)state;
    const struct fake_run *r = run_script(
        script, ARGS("export", "17", "--format", "tensorboard", "--to", "tb"));
    assert_int_equal(r->exit_code, 76);
    assert_holds(r->err, "iteration 2 of attempt 2 comes after iteration 2");
    assert_null(read_file("tb/.export-0000000002.traind-job-17"));
    /* The directory was ours and is gone. */
    write_file("tb", "free");
    assert_string_equal(read_file("tb"), "free");
}

/* Interrupted while rows come: no file, no temporary one, in no format. */
static void
test_export_interrupted(void **state)
{
    const struct fake_step rows[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "running", -1))},
        {FAKE_HEAR, "\"metrics\""},
        {FAKE_SIGNAL, NULL},
        {FAKE_HANG, NULL},
        {FAKE_END, NULL},
    };
    const struct fake_step board[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "running", -1))},
        {FAKE_HEAR, "\"status\""},
        {FAKE_SIGNAL, NULL},
        {FAKE_HANG, NULL},
        {FAKE_END, NULL},
    };
    char path[256];

    (void)state;
    snprintf(path, sizeof(path), "%s/box", fake_daemon_directory());
    assert_int_equal(mkdir(path, 0700), 0);
    const struct fake_run *r = run_script(
        rows, ARGS("export", "17", "--format", "csv", "--to", "box/rows"));
    assert_int_equal(r->exit_code, 130);
    r = run_script(board, ARGS("export", "17", "--format", "tensorboard",
                               "--to", "box/board"));
    assert_int_equal(r->exit_code, 130);
    assert_int_equal(rmdir(path), 0); /* it is empty */
}

/* Standard output that takes nothing: one sentence. */
static void
test_export_to_a_full_disk(void **state)
{
    const struct fake_step script[] = {
        FAKE_GREET,
        {FAKE_HEAR, "\"status\""},
        {FAKE_SAY, OK(1, JOB(17, "running", -1))},
        {FAKE_HEAR, "\"metrics\""},
        {FAKE_SAY, "{\"id\":2,\"ok\":true,\"more\":false,\"items\":["
                   "{\"row\":1,\"iteration\":1,\"attempt\":1}]}"},
        {FAKE_END, NULL},
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct fake_run *r = fake_daemon_run(
            &(struct fake_setup){.script = script, .out = FAKE_FULL},
            ARGS("export", "17", "--format", i == 0 ? "csv" : "jsonl", "--to",
                 "-"));
        assert_int_equal(r->exit_code, 74);
        assert_string_equal(r->err, "trainctl: standard output: No space left "
                                    "on device\n");
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit_sends_absolute_paths),
        cmocka_unit_test(test_submit_fills_the_request),
        cmocka_unit_test(test_submit_asks_again),
        cmocka_unit_test(test_submit_prints_refusal_faults),
        cmocka_unit_test(test_submit_prints_own_faults),
        cmocka_unit_test(test_submit_missing_data),
        cmocka_unit_test(test_submit_looks_into_data),
        cmocka_unit_test(test_submit_follow),
        cmocka_unit_test(test_submit_dry_run),
        cmocka_unit_test(test_validate_without_daemon),
        cmocka_unit_test(test_validate_print),
        cmocka_unit_test(test_metrics_csv),
        cmocka_unit_test(test_evaluations_columns),
        cmocka_unit_test(test_evaluations_confusion),
        cmocka_unit_test(test_metrics_follow_a_rollback),
        cmocka_unit_test(test_scale_plot_and_table),
        cmocka_unit_test(test_rollback_dry_run),
        cmocka_unit_test(test_logs_streams),
        cmocka_unit_test(test_logs_follow_to_the_end),
        cmocka_unit_test(test_export_never_overwrites),
        cmocka_unit_test(test_export_bad_checkpoint),
        cmocka_unit_test(test_export_holds_rows_to_their_order),
        cmocka_unit_test(test_export_interrupted),
        cmocka_unit_test(test_export_to_a_full_disk),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
