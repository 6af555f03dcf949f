/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_kernels: where the time of a training step goes, kernel by kernel.
 *
 * usage: bench_kernels [DTYPE] [THREADS] [SECONDS] [BACKEND]
 *        (float32, 2, 3, cpu)
 *
 * Runs the steps of bench_models in order, as a training step does, so that
 * caches are in the state they have there; prints for each kernel the best
 * and the median time over all rounds, with GFLOP/s and GB/s of the median.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/backend.h"
#include "kernels/cpu/convert.h"
#include "tests/bench/bench_models.h"

#define MAX_ROUNDS 4096
#define WARM_UP    5

struct measure {
    struct kernel_sig sig;
    const struct kernel *kernel;
    const char *table;
    struct kernel_call call;
    double *seconds; /* [MAX_ROUNDS] */
};

struct bench {
    struct bench_model model;
    int threads;
    void *data[BENCH_MAX_VALUES];
    struct measure at[BENCH_MAX_STEPS];
    struct kernel_flat flat;
    float *block[4]; /* w, g, m, v */
    double *update_seconds, *total_seconds;
};

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *
alloc_zero(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

    if (p == NULL) {
        fprintf(stderr, "bench_kernels: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

/* Small random numbers of both signs; class 0 .. 9 for targets. */
static void
fill(void *p, const struct tensor_desc *t)
{
    uint32_t state = 1;

    for (int64_t i = 0; i < tensor_n_elems(t); i++) {
        state = state * 1664525u + 1013904223u;
        if (t->dtype == DTYPE_I32)
            ((int32_t *)p)[i] = (int32_t)(state >> 8) % 10;
        else
            convert_put(p, t->dtype, i,
                        (float)((int)(state >> 8 & 1023) - 512) / 8192);
    }
}

static void
make_sig(const struct bench *b, const struct bench_step *step,
         struct kernel_sig *sig)
{
    *sig = (struct kernel_sig){.op = step->op,
                               .params = step->params,
                               .n_in = step->n_in,
                               .n_out = step->n_out,
                               .threads = b->threads};
    for (int i = 0; i < step->n_in; i++)
        if (step->in[i] >= 0)
            sig->in[i] = b->model.value[step->in[i]];
    for (int i = 0; i < step->n_out; i++)
        sig->out[i] = b->model.value[step->out[i]];
}

static void
prepare(struct bench *b, int i, const struct backend *backend)
{
    static const struct kernel_step numbers = {.seed = 1, .iteration = 1};
    const struct bench_step *step = &b->model.step[i];
    struct measure *m = &b->at[i];
    struct err err = {0};

    make_sig(b, step, &m->sig);
    m->kernel = backend_find_kernel(backend, &m->sig, &m->table, &err);
    m->call.sig = &m->sig;
    m->call.step = &numbers;
    if (m->kernel == NULL ||
        (m->kernel->prepare != NULL &&
         m->kernel->prepare(&m->sig, &m->call.state, &err) != 0)) {
        fprintf(stderr, "bench_kernels: %s\n", err.msg);
        exit(1);
    }
    if (m->kernel->workspace_bytes != NULL)
        m->call.workspace =
            alloc_zero(m->kernel->workspace_bytes(&m->sig, m->call.state));
    for (int j = 0; j < step->n_in; j++)
        m->call.in[j] = step->in[j] >= 0 ? b->data[step->in[j]] : NULL;
    for (int j = 0; j < step->n_out; j++)
        m->call.out[j] = b->data[step->out[j]];
    m->seconds = alloc_zero(MAX_ROUNDS * sizeof(double));
}

static void
bench_init(struct bench *b, const struct backend *backend)
{
    for (int i = 0; i < b->model.n_values; i++) {
        b->data[i] = alloc_zero(tensor_n_bytes(&b->model.value[i]));
        fill(b->data[i], &b->model.value[i]);
    }
    for (int i = 0; i < b->model.n_steps; i++)
        prepare(b, i, backend);
    b->flat = backend_flat(backend);
    for (int i = 0; i < 4; i++)
        b->block[i] = alloc_zero((size_t)b->model.n_params * sizeof(float));
    b->update_seconds = alloc_zero(MAX_ROUNDS * sizeof(double));
    b->total_seconds = alloc_zero(MAX_ROUNDS * sizeof(double));
}

/* Unscale and check, then AdamW: what follows a backward pass. */
static void
run_update(struct bench *b, int64_t t)
{
    const struct kernel_adam adam = {.lr = 1e-3f,
                                     .beta1 = 0.9f,
                                     .beta2 = 0.999f,
                                     .eps = 1e-8f,
                                     .weight_decay = 0.01f,
                                     .decoupled = true,
                                     .t = t};
    struct kernel_unscale result;
    const int64_t n = b->model.n_params;

    b->flat.unscale(b->block[1], n, 0.5f, b->threads, &result);
    b->flat.adam(b->block[0], b->block[1], b->block[2], b->block[3], n, 1,
                 &adam, b->threads);
}

static void
run_round(struct bench *b, int round)
{
    const double start = now();
    double last = start;

    for (int i = 0; i < b->model.n_steps; i++) {
        double t;

        b->at[i].kernel->run(&b->at[i].call);
        t = now();
        if (round >= 0)
            b->at[i].seconds[round] = t - last;
        last = t;
    }
    run_update(b, round + WARM_UP + 1);
    if (round >= 0) {
        b->update_seconds[round] = now() - last;
        b->total_seconds[round] = now() - start;
    }
}

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
median(double *seconds, int n, double *best)
{
    qsort(seconds, (size_t)n, sizeof(double), compare);
    *best = seconds[0];
    return seconds[n / 2];
}

static void
print_kernel(struct measure *m, int rounds)
{
    const struct kernel_sig *s = &m->sig;
    const double flops = op_flops(s->op, &s->params, s->in, s->out);
    const double bytes = op_bytes(s->op, s->in, s->out);
    double best;
    const double mid = median(m->seconds, rounds, &best);
    char shape[64];

    printf("  %-19s %-11s %-26s %8.3f %8.3f %8.1f %7.1f\n",
           op_info(s->op)->name, m->table,
           tensor_format(&s->out[0], shape, sizeof(shape)), 1e3 * best,
           1e3 * mid, flops / mid * 1e-9, bytes / mid * 1e-9);
}

static void
bench_run(struct bench *b, enum dtype t, double seconds)
{
    const double start = now();
    double best, mid;
    int rounds = 0;

    for (int i = -WARM_UP; i < 0; i++)
        run_round(b, i);
    while (rounds < MAX_ROUNDS && (rounds < 10 || now() - start < seconds))
        run_round(b, rounds++);
    printf("%s %s, batch %d, %d thread%s, %d rounds\n"
           "  %-19s %-11s %-26s %8s %8s %8s %7s\n",
           b->model.name, dtype_name(t), (int)b->model.batch, b->threads,
           b->threads > 1 ? "s" : "", rounds, "kernel", "from", "output",
           "best ms", "med ms", "GFLOP/s", "GB/s");
    for (int i = 0; i < b->model.n_steps; i++)
        print_kernel(&b->at[i], rounds);
    mid = median(b->update_seconds, rounds, &best);
    printf("  %-58s %8.3f %8.3f\n", "unscale, adamw", 1e3 * best, 1e3 * mid);
    mid = median(b->total_seconds, rounds, &best);
    printf("  %-58s %8.3f %8.3f\n", "in all", 1e3 * best, 1e3 * mid);
}

static void
bench_fini(struct bench *b)
{
    for (int i = 0; i < b->model.n_steps; i++) {
        struct measure *m = &b->at[i];

        if (m->kernel->release != NULL)
            m->kernel->release(m->call.state);
        free(m->call.workspace);
        free(m->seconds);
    }
    for (int i = 0; i < b->model.n_values; i++)
        free(b->data[i]);
    for (int i = 0; i < 4; i++)
        free(b->block[i]);
    free(b->update_seconds);
    free(b->total_seconds);
}

int
main(int argc, char **argv)
{
    void (*const models[])(struct bench_model *,
                           enum dtype) = {bench_models_cnn, bench_models_mlp};
    const enum dtype t = argc > 1 ? dtype_parse(argv[1]) : DTYPE_F32;
    const int threads = argc > 2 ? atoi(argv[2]) : 2;
    const double seconds = argc > 3 ? atof(argv[3]) : 3;
    const struct backend *backend = backend_find(argc > 4 ? argv[4] : "cpu");

    if (backend == NULL || threads < 1 ||
        (t != DTYPE_F32 && !dtype_is_half(t))) {
        fprintf(stderr, "usage: bench_kernels "
                        "[float32|bfloat16|float16] [THREADS] [SECONDS] "
                        "[cpu|reference]\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        static struct bench b;

        memset(&b, 0, sizeof(b));
        b.threads = threads;
        models[i](&b.model, t);
        bench_init(&b, backend);
        bench_run(&b, t, seconds);
        bench_fini(&b);
    }
    return 0;
}
