/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_sample.h"

#include "engine/run/sampler.h"
#include "engine/worker_check.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the prompt -----------------------------------------------------------*/

struct prompt {
    int32_t *id; /* owned */
    int64_t n;
};

static char *
read_all(size_t *len, struct err *err)
{
    char *bytes = malloc(WORKER_SAMPLE_MAX_PROMPT + 1);

    if (bytes == NULL) {
        err_set(err, ERR_NOMEM, "prompt: no memory");
        return NULL;
    }
    *len = fread(bytes, 1, WORKER_SAMPLE_MAX_PROMPT + 1, stdin);
    if (!ferror(stdin) && *len <= WORKER_SAMPLE_MAX_PROMPT) {
        bytes[*len] = '\0';
        return bytes;
    }
    if (ferror(stdin))
        err_set_errno(err, ERR_IO, errno, "prompt");
    else
        err_set(err, ERR_USAGE, "prompt: more than 1 MiB");
    free(bytes);
    return NULL;
}

/* "12 7 400": ids from a word to the next. */
static int
parse_ids(const char *text, struct prompt *p, struct err *err)
{
    const char *at = text;

    while (true) {
        char *end;

        at += strspn(at, " \t\r\n,");
        if (*at == '\0')
            return 0;
        errno = 0;
        const long v = strtol(at, &end, 10);
        if (end == at || errno != 0 || v < 0 || v > INT32_MAX ||
            strchr(" \t\r\n,", *end) == NULL)
            return err_set(err, ERR_USAGE,
                           "prompt: \"%.20s\" is no token id; the job's data "
                           "are token ids",
                           at);
        p->id[p->n++] = (int32_t)v;
        at = end;
    }
}

/* A text needs something to follow from; the start of a line does for one that
 * was not given. */
static int
read_prompt(bool is_text, struct prompt *p, struct err *err)
{
    size_t len = 0;
    char *bytes = read_all(&len, err);
    int rc = 0;

    if (bytes == NULL)
        return err->code;
    p->n = 0;
    p->id = calloc(len + 1, sizeof(*p->id));
    if (p->id == NULL) {
        rc = err_set(err, ERR_NOMEM, "prompt: no memory");
    } else if (is_text) {
        for (size_t i = 0; i < len; i++)
            p->id[p->n++] = (unsigned char)bytes[i];
        if (len == 0)
            p->id[p->n++] = '\n';
    } else {
        rc = parse_ids(bytes, p, err);
        if (rc == 0 && p->n == 0)
            rc = err_set(err, ERR_USAGE,
                         "prompt: there is no token to go on from");
    }
    free(bytes);
    return rc;
}

/* ---- the continuation -----------------------------------------------------*/

static int
write_token(bool is_text, int32_t id, struct err *err)
{
    if (is_text)
        putchar(id < 256 ? id : '?');
    else
        printf("%d\n", (int)id);
    if (fflush(stdout) != 0)
        return err_set_errno(err, ERR_IO, errno, "standard output");
    return 0;
}

static int
go_on(struct sampler *sampler, bool is_text, int64_t n, struct err *err)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t id;
        int rc = sampler_next(sampler, &id, err);

        if (rc == 0)
            rc = write_token(is_text, id, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int
run(const struct worker_sample_args *args, const struct spec *spec,
    struct err *err)
{
    const bool is_text = spec->data.train.format == SPEC_FORMAT_TEXT;
    const struct sampler_options o = {
        .spec = spec,
        .weights = args->weights,
        .backend = backend_find(spec->device),
        .threads = worker_check_threads(spec),
        .temperature = args->temperature,
        .top_k = args->top_k,
        .seed = args->seed,
    };
    struct sampler *sampler = NULL;
    struct prompt prompt = {NULL, 0};
    int rc;

    if (o.backend == NULL)
        return err_set(err, ERR_UNSUPPORTED, "device: there is no \"%s\" here",
                       spec->device);
    rc = sampler_create(&o, &sampler, err);
    if (rc == 0)
        rc = read_prompt(is_text, &prompt, err);
    if (rc == 0)
        rc = sampler_feed(sampler, prompt.id, prompt.n, err);
    if (rc == 0)
        rc = go_on(sampler, is_text, args->n_tokens, err);
    free(prompt.id);
    sampler_destroy(&sampler);
    return rc;
}

int
worker_sample(const struct worker_sample_args *args)
{
    struct spec *spec = NULL;
    struct err err;
    int rc;

    err_clear(&err);
    rc = worker_check_load(args->spec, &spec, &err);
    if (rc == 0)
        rc = run(args, spec, &err);
    spec_destroy(&spec);
    if (rc == 0)
        return 0;
    fprintf(stderr, "traind-worker: %s\n", err.msg);
    return err_exit_code(rc);
}
