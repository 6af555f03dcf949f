/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/worker_check.h"

#include "engine/pass/autocast.h"
#include "engine/pass/autodiff.h"
#include "engine/run/ckpt.h"
#include "engine/run/guard.h"
#include "engine/run/optimizer.h"
#include "engine/run/policy.h"
#include "engine/run/source.h"
#include "engine/run/variants.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
worker_check_threads(const struct spec *spec)
{
    cpu_set_t set;

    if (spec->threads > 0)
        return spec->threads;
    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
}

/* ---- the spec -------------------------------------------------------------*/

static char *
read_file(const char *path, size_t *len, struct err *err)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    char *text = NULL;

    if (f == NULL) {
        err_set_errno(err, ERR_IO, errno, "%s", path);
        return NULL;
    }
    text = malloc(SPEC_MAX_BYTES + 1);
    if (text == NULL) {
        err_set(err, ERR_NOMEM, "%s: no memory", path);
    } else {
        *len = fread(text, 1, SPEC_MAX_BYTES + 1, f);
        if (ferror(f) || *len > SPEC_MAX_BYTES) {
            err_set(err, ERR_SPEC, "%s: %s", path,
                    ferror(f) ? "it cannot be read"
                              : "a spec of more than 1 MiB");
            free(text);
            text = NULL;
        }
    }
    if (!is_stdin)
        fclose(f);
    return text;
}

static void
print_faults(const char *path, const struct spec_faults *faults)
{
    for (int i = 0; i < faults->n; i++) {
        const struct spec_fault *f = &faults->list[i];
        fprintf(stderr, "%s:%d:%d: error: %s%s%s\n", path, f->line, f->col,
                f->path, f->path[0] != '\0' ? ": " : "", f->message);
    }
}

/* Relative paths are meant from the working directory, as in a submission. */
int
worker_check_load(const char *path, struct spec **spec, struct err *err)
{
    char *cwd = getcwd(NULL, 0);
    struct spec_faults faults = {0};
    size_t len = 0;
    char *text = read_file(path, &len, err);
    int rc = err->code;

    if (text == NULL)
        goto out;
    if (cwd == NULL) {
        rc = err_set_errno(err, ERR_IO, errno, "the working directory");
        goto out;
    }
    rc = spec_parse(text, len, spec, &faults);
    if (rc != 0) {
        print_faults(path, &faults);
        err_set(err, rc, "%s: %d fault%s", path, faults.n,
                faults.n == 1 ? "" : "s");
        goto out;
    }
    rc = spec_resolve_paths(*spec, cwd, err);
out:
    spec_faults_fini(&faults);
    free(text);
    free(cwd);
    return rc;
}

/* The graphs of training, full batch first; *out is for the one to show. A last
 * batch may be too small for what a full one does. */
static int
build_batches(const struct spec *spec, const struct source *s,
              struct graph **out, struct err *err)
{
    const int64_t batch = s->train_full > 0 ? s->train_full : s->train_last;
    struct graph *last = NULL;
    int rc = build_graph(spec, &s->data, BUILD_TRAIN, batch, out, err);

    if (rc == 0 && s->train_last > 0 && s->train_last != batch)
        rc =
            build_graph(spec, &s->data, BUILD_TRAIN, s->train_last, &last, err);
    graph_destroy(&last);
    return rc;
}

/* ---- the plan -------------------------------------------------------------*/

static void
print_text(const char *title, char *text)
{
    printf("== %s ==\n%s\n", title, text != NULL ? text : "(no memory)\n");
    free(text);
}

static int
print_graphs(const struct spec *spec, const struct source *s, struct err *err)
{
    const struct autocast_policy policy = {
        .dtype = spec->amp.dtype,
        .fp32_regions = spec->amp.fp32_regions,
        .n_fp32_regions = spec->amp.n_fp32_regions,
    };
    struct graph *plain = NULL, *cast = NULL;
    int rc = build_batches(spec, s, &plain, err);

    if (rc == 0) {
        print_text("graph", graph_print(plain));
        rc = autocast_apply(plain, &policy, &cast, err);
    }
    if (rc == 0)
        print_text("cast plan", graph_print(cast));
    graph_destroy(&plain);
    graph_destroy(&cast);
    return rc;
}

/* Reads the initial weights, where there are any, into state. Of partial ones,
 * report->text says what fits; it is empty for all others. */
static int
check_weights(const struct spec *spec, struct state *state,
              struct ckpt_weights_report *report, struct err *err)
{
    report->text[0] = '\0';
    if (spec->initial_weights == NULL)
        return 0;
    if (!spec->initial_weights_partial)
        return ckpt_read_weights(spec->initial_weights, state, err);
    return ckpt_read_weights_partial(spec->initial_weights, state, report, err);
}

/* Whose each parameter is, and which initial weights fit. */
static int
check_state(const struct spec *spec, const struct source *s,
            struct state *state, int threads, struct err *err)
{
    const struct kernel_flat flat = backend_flat(backend_find(spec->device));
    struct optimizer *optimizer = NULL;
    struct ckpt_weights_report report;
    struct lrate lrate;
    int rc;

    lrate_init(&lrate, spec, s->total_iterations);
    rc = optimizer_create(spec, state, &flat, threads, &lrate, &optimizer, err);
    optimizer_destroy(&optimizer);
    if (rc == 0 && spec->train.ema_decay > 0)
        rc = state_start_ema(state, err);
    if (rc == 0)
        rc = check_weights(spec, state, &report, err);
    if (rc == 0 && report.text[0] != '\0')
        printf("== weights ==\n%s\n\n", report.text);
    return rc;
}

static int
print_totals(const struct spec *spec, const struct source *s,
             const struct variants *variants, int threads, struct err *err)
{
    struct state *state = NULL;
    int rc = state_create(program_graph(variants_program_at(variants, 0)),
                          optimizer_n_moments(spec), &state, err);
    int64_t n = 0;

    if (rc == 0)
        rc = check_state(spec, s, state, threads, err);
    if (rc != 0) {
        state_destroy(&state);
        return rc;
    }
    for (int i = 0; i < state->n_params; i++)
        n += state->param[i].n_elems;
    if (dataset_warning(s->train) != NULL)
        printf("warning: %s\n", dataset_warning(s->train));
    if (s->validation != NULL && dataset_warning(s->validation) != NULL)
        printf("warning: %s\n", dataset_warning(s->validation));
    char *policy = policy_format(spec, spec->device, threads);
    printf("== totals ==\n"
           "samples      %lld, validation %lld\n"
           "iterations   %lld, %lld an epoch\n"
           "parameters   %lld\n"
           "state        %zu bytes\n"
           "activations  %zu bytes\n"
           "policy       %s\n",
           (long long)dataset_n_samples(s->train),
           s->validation != NULL ? (long long)dataset_n_samples(s->validation)
                                 : 0LL,
           (long long)s->total_iterations, (long long)s->windows_per_epoch,
           (long long)n, state_n_bytes(state), variants_block_bytes(variants),
           policy != NULL ? policy : "");
    free(policy);
    state_destroy(&state);
    return 0;
}

/* What the step needs with autocast and without. */
static int
print_precisions(const struct variants_options *options, int64_t batch,
                 const struct program *program, struct err *err)
{
    const enum dtype low = options->spec->amp.dtype;
    struct spec plain = *options->spec;
    struct variants_options vo = *options;
    struct program *other = NULL;
    struct program_memory full, half;
    int rc;

    if (low == DTYPE_F32)
        return 0;
    plain.amp.dtype = DTYPE_F32;
    vo.spec = &plain;
    rc = variants_compile(&vo, BUILD_TRAIN, batch, false, &other, err);
    if (rc != 0)
        return rc;
    program_measure_memory(other, &full);
    program_measure_memory(program, &half);
    printf("== memory by precision ==\n"
           "               %14s %14s\n"
           "peak           %14zu %14zu\n"
           "lower bound    %14zu %14zu\n"
           "weight copies  %14zu %14zu\n"
           "workspace      %14zu %14zu\n"
           "parameters     %14zu %14zu\n"
           "gradients      %14zu %14zu\n"
           "buffers        %14zu %14zu\n\n",
           dtype_name(DTYPE_F32), dtype_name(low), full.peak, half.peak,
           full.lower_bound, half.lower_bound, full.copies, half.copies,
           full.workspace, half.workspace, full.params, half.params, full.grads,
           half.grads, full.buffers, half.buffers);
    program_destroy(&other);
    return 0;
}

/* What is watched; what a rule would change and cannot. */
static int
print_guards(const struct spec *spec, struct err *err)
{
    printf("== guards ==\n");
    for (int i = 0; i < spec->guard.n_rules; i++) {
        char *rule = spec_print_rule(spec, i);
        char why[GUARD_TEXT_MAX];

        if (rule == NULL)
            return err_set(err, ERR_NOMEM, "guards: no memory");
        printf("%2d  %s", i, rule);
        if (guard_is_in_effect(spec, &spec->guard.rule[i], why, sizeof(why)))
            printf("  (nothing to do: %s)", why);
        printf("\n");
        free(rule);
    }
    printf("\n");
    return 0;
}

static int
print_plan(const struct spec *spec, struct err *err)
{
    const int threads = worker_check_threads(spec);
    struct source s;
    struct variants *variants = NULL;
    const struct program *program = NULL;
    int rc = source_open(spec, &s, err);

    if (rc != 0)
        return rc;
    const int64_t batch = s.train_full > 0 ? s.train_full : s.train_last;
    const struct variants_options vo = {
        .spec = spec,
        .data = &s.data,
        .backend = backend_find(spec->device),
        .threads = threads,
    };
    if (vo.backend == NULL)
        rc = err_set(err, ERR_UNSUPPORTED, "device: there is no \"%s\" here",
                     spec->device);
    if (rc == 0)
        rc = print_graphs(spec, &s, err);
    if (rc == 0)
        rc = source_compile(&s, &vo, &variants, err);
    if (rc == 0) {
        program = variants_program_at(variants, 0);
        rc = source_check_model(&s, program_graph(program), err);
    }
    if (rc == 0) {
        print_text("program", program_print(program));
        print_text("memory", program_print_memory(program));
        rc = print_precisions(&vo, batch, program, err);
    }
    if (rc == 0)
        rc = print_guards(spec, err);
    if (rc == 0)
        rc = print_totals(spec, &s, variants, threads, err);
    variants_destroy(&variants);
    source_close(&s);
    return rc;
}

int
worker_check(const char *path)
{
    struct spec *spec = NULL;
    struct err err;
    int rc;

    err_clear(&err);
    rc = worker_check_load(path, &spec, &err);
    if (rc == 0)
        rc = print_plan(spec, &err);
    if (rc != 0)
        fprintf(stderr, "traind-worker: %s\n", err.msg);
    spec_destroy(&spec);
    return err_exit_code(rc);
}

/* ---- the data alone -------------------------------------------------------*/

/* Only a model that has to take weights is given memory. */
static int
check_graph_weights(const struct spec *spec, const struct graph *graph,
                    struct err *err)
{
    struct ckpt_weights_report report;
    struct state *state = NULL;
    int rc;

    if (spec->initial_weights == NULL)
        return 0;
    rc = state_create(graph, 0, &state, err);
    if (rc == 0)
        rc = check_weights(spec, state, &report, err);
    state_destroy(&state);
    return rc;
}

static int
check_data(const struct spec *spec, struct err *err)
{
    const struct autodiff_options plain = {.wgrad_pytorch = false};
    struct graph *graph = NULL, *trained = NULL;
    struct source s;
    int rc = source_open(spec, &s, err);

    if (rc != 0)
        return rc;
    rc = build_batches(spec, &s, &graph, err);
    if (rc == 0)
        rc = source_check_model(&s, graph, err);
    if (rc == 0)
        rc = autodiff_apply(graph, &plain, &trained, err);
    if (rc == 0)
        rc = check_graph_weights(spec, graph, err);
    graph_destroy(&trained);
    graph_destroy(&graph);
    source_close(&s);
    return rc;
}

int
worker_check_data(const char *path)
{
    struct spec *spec = NULL;
    struct err err;
    int rc;

    err_clear(&err);
    rc = worker_check_load(path, &spec, &err);
    if (rc == 0)
        rc = check_data(spec, &err);
    if (rc != 0)
        printf("%s\n", err.msg);
    spec_destroy(&spec);
    return err_exit_code(rc);
}
