/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/cmd.h"
#include "ctl/printable.h"
#include "ctl/program.h"
#include "ctl/specfile.h"
#include "ctl/weights.h"

#define MAX_TOKENS      1000000
#define DEFAULT_TOKENS  256
#define MAX_TEMPERATURE 1000.0

/* What is said: to the output as it comes, or kept for a machine's form. */
struct saying {
    struct session *s;
    struct printable printable;
    bool to_terminal;
    bool keep;
    const char *prompt; /* borrowed: to be said first; NULL: it was */
    bool of_ids;        /* one a line */
    char *text;         /* owned, when kept; NUL-terminated */
    size_t n;
    bool open_line; /* the last byte was no newline */
};

static int
keep_bytes(struct saying *say, const char *bytes, size_t n, struct err *err)
{
    char *more = realloc(say->text, say->n + n + 1);

    if (more == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    say->text = more;
    for (size_t i = 0; i < n; i++) /* a NUL would end the string */
        more[say->n + i] = bytes[i] != '\0' ? bytes[i] : '?';
    say->n += n;
    more[say->n] = '\0';
    return 0;
}

static int
say_bytes(struct saying *say, const char *bytes, size_t n, struct err *err)
{
    FILE *f = say->s->out.f;

    if (n > 0)
        say->open_line = bytes[n - 1] != '\n';
    while (n > 0) {
        char clean[512 + 4];
        const size_t part = n < 512 ? n : 512;

        if (say->to_terminal)
            fwrite(clean, 1,
                   printable_filter(&say->printable, bytes, part, clean), f);
        else
            fwrite(bytes, 1, part, f);
        bytes += part;
        n -= part;
    }
    if (fflush(f) != 0)
        return err_set_errno(err, ERR_IO, errno, "standard output");
    return 0;
}

/* The first bytes bring the prompt along: where there are none, the error is
 * all that is said. */
static int
put_bytes(void *ctx, const char *bytes, size_t n, struct err *err)
{
    struct saying *say = ctx;
    const char *prompt = say->prompt;
    int rc = 0;

    if (say->keep)
        return keep_bytes(say, bytes, n, err);
    say->prompt = NULL;
    if (prompt != NULL)
        rc = say_bytes(say, prompt, strlen(prompt), err);
    if (rc == 0 && prompt != NULL && say->of_ids && say->open_line)
        rc = say_bytes(say, "\n", 1, err);
    return rc < 0 ? rc : say_bytes(say, bytes, n, err);
}

static void
end_line(struct saying *say)
{
    char rest[4];
    FILE *f = say->s->out.f;

    fwrite(rest, 1, printable_finish(&say->printable, rest), f);
    if (say->to_terminal && say->open_line)
        putc('\n', f);
}

/* ---- the worker's arguments ------------------------------------------------*/

struct question {
    char worker[PATH_MAX], spec[PATH_MAX];
    char tokens[24], temperature[32], top_k[24], seed[24];
    struct weights weights;
};

static int
take_numbers(struct session *s, struct question *q, struct err *err)
{
    const char *t = args_value(s->args, "temperature");
    int64_t tokens, top_k, seed;
    int rc = args_i64(s->args, "tokens", DEFAULT_TOKENS, 1, MAX_TOKENS, &tokens,
                      err);
    char *end;

    if (rc == 0)
        rc = args_i64(s->args, "top-k", 0, 0, INT32_MAX, &top_k, err);
    if (rc == 0)
        rc = args_i64(s->args, "seed", 0, 0, INT32_MAX, &seed, err);
    if (rc < 0)
        return rc;
    if (t != NULL) {
        const double v = strtod(t, &end);
        if (end == t || *end != '\0' || !(v >= 0) || v > MAX_TEMPERATURE)
            return err_set(err, ERR_USAGE,
                           "--temperature %s: a number from 0 to 1000", t);
    }
    snprintf(q->tokens, sizeof(q->tokens), "%" PRId64, tokens);
    snprintf(q->top_k, sizeof(q->top_k), "%" PRId64, top_k);
    snprintf(q->seed, sizeof(q->seed), "%" PRId64, seed);
    snprintf(q->temperature, sizeof(q->temperature), "%.24s",
             t != NULL ? t : "0.8");
    return 0;
}

static int
find_files(struct session *s, const struct view_job *job, const char *ref,
           struct question *q, struct err *err)
{
    int rc;

    q->weights.ema = args_flag(s->args, "ema");
    rc = weights_find(s, ref, args_value(s->args, "checkpoint"), &q->weights,
                      err);
    if (rc < 0)
        return rc;
    if (snprintf(q->spec, sizeof(q->spec), "%s/spec.json", job->directory) >=
        PATH_MAX)
        return err_set(err, ERR_PROTO, "the job's directory is too long");
    return program_find("traind-worker", q->worker, sizeof(q->worker), err);
}

/* The worker says what is wrong with a spec that cannot be read. */
static bool
is_of_ids(const char *path)
{
    struct spec_faults faults = {0};
    struct specfile file = {0};
    struct spec *spec = NULL;
    struct err err;
    const bool ids =
        specfile_read(&file, path, NULL, 0, &err) == 0 &&
        spec_parse(file.text, strlen(file.text), &spec, &faults) == 0 &&
        spec->data.train.format == SPEC_FORMAT_TOKENS;

    spec_faults_fini(&faults);
    spec_destroy(&spec);
    specfile_fini(&file);
    return ids;
}

/* What the worker has said on standard error is the sentence. */
static int
ask_worker(struct question *q, const char *prompt, struct saying *say,
           struct err *err)
{
    char *const argv[] = {q->worker,       (char[]){"--sample"},
                          q->weights.path, (char[]){"--spec"},
                          q->spec,         (char[]){"--tokens"},
                          q->tokens,       (char[]){"--temperature"},
                          q->temperature,  (char[]){"--top-k"},
                          q->top_k,        (char[]){"--seed"},
                          q->seed,         NULL};
    say->prompt = prompt;
    say->of_ids = is_of_ids(q->spec);
    const int rc =
        program_run(argv, prompt, strlen(prompt), put_bytes, say, err);
    if (!say->keep)
        end_line(say);
    return rc;
}

static int
put_record(struct session *s, const struct view_job *job,
           const struct question *q, const char *prompt, const char *text,
           struct err *err)
{
    struct view_sample view;

    view_init(VIEW_ID_sample, &view);
    view.job = job->id;
    view.checkpoint = q->weights.name;
    view.prompt = prompt;
    view.text = text != NULL ? text : "";
    return s->out.ops->item(&s->out, VIEW_ID_sample, &view, err);
}

static int
run_sample(struct session *s, struct err *err)
{
    const char *prompt = args_value(s->args, "prompt");
    struct question *q = calloc(1, sizeof(*q));
    struct call_held_job held = {0};
    struct saying say = {.s = s};
    char id[24], *ref = NULL;
    int rc = session_one_ref(s, 0, &ref, err);

    say.keep = s->out.ops->item != NULL;
    say.to_terminal = isatty(STDOUT_FILENO);
    if (prompt == NULL)
        prompt = "";
    if (rc == 0 && q == NULL)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = take_numbers(s, q, err);
    if (rc == 0)
        rc = session_job(s, ref, &held, err);
    if (rc < 0)
        goto out;
    snprintf(id, sizeof(id), "%" PRId64, held.job.id);
    rc = find_files(s, &held.job, id, q, err);
    if (rc == 0)
        rc = ask_worker(q, prompt, &say, err);
    if (rc == 0 && say.keep)
        rc = put_record(s, &held.job, q, prompt, say.text, err);
out:
    call_held_job_fini(&held);
    free(say.text);
    free(q);
    free(ref);
    return rc;
}

const struct cmd cmd_sample = {
    .name = "sample",
    .synopsis = "JOB",
    .doc = "let a trained language model go on from a prompt",
    .detail = "Runs here, with your rights, on the weights of a checkpoint. "
              "Text goes on from text; a job whose data are token ids takes "
              "ids parted by spaces and gives ids, one a line. The same seed "
              "gives the same continuation.",
    .options =
        (const struct args_option[]){
            {"prompt", 0, "TEXT", "what to go on from; none: a new line"},
            {"tokens", 0, "N", "how many tokens to make; 256"},
            {"temperature", 0, "T",
             "scores are divided by it; 0: always the best token; 0.8"},
            {"top-k", 0, "K", "only the K best tokens; 0: all"},
            {"seed", 0, "N", "another one gives another continuation; 0"},
            WEIGHTS_OPTION,
            WEIGHTS_EMA_OPTION,
            {0},
        },
    .min_args = 1,
    .max_args = 1,
    .run = run_sample,
};
