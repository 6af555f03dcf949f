/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/kernels/runner.h"

#define ROUNDS 11

static double
now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int
compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), compare_doubles);
    return v[n / 2];
}

/* Reads and writes `bytes` together, on as many threads as the kernels. */
static void
copy(char *dst, const char *src, size_t bytes, int threads)
{
    const size_t part = bytes / 2 / (size_t)threads;

#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < threads; i++)
        memcpy(dst + (size_t)i * part, src + (size_t)i * part, part);
}

static void
print_line(const struct runner *r, enum dtype t, double s, double copy_s)
{
    const struct kernel_sig *sig = &r->c.sig;
    const double bytes = op_bytes(sig->op, sig->in, sig->out);
    const double flops = op_flops(sig->op, &sig->params, sig->in, sig->out);

    printf("%-24s %-4s %-5s %9.3f ms %7.1f GB/s %5.0f %% of copy",
           op_info(sig->op)->name, dtype_short_name(t), r->table, s * 1e3,
           bytes / s * 1e-9, 100 * copy_s / s);
    if (op_info(sig->op)->reduce == OP_REDUCE_TAPS ||
        op_info(sig->op)->reduce == OP_REDUCE_PIXELS || flops > 8 * bytes)
        printf(" %8.1f GFLOP/s", flops / s * 1e-9);
    printf("\n");
    fflush(stdout);
}

static void
bench_case(const struct backend *backend, const struct kcase *c, enum dtype t,
           int threads)
{
    const size_t bytes =
        (size_t)op_bytes(c->sig.op, c->sig.in, c->sig.out) + 64;
    double times[ROUNDS], copies[ROUNDS];
    struct check_buf a, b;
    struct runner r;
    struct err err;

    if (!runner_open(&r, backend, c, threads, 1, &err)) {
        printf("%-24s %-4s: %s\n", op_info(c->sig.op)->name,
               dtype_short_name(t), err.msg);
        return;
    }
    check_buf_make(&a, bytes);
    check_buf_make(&b, bytes);
    for (int i = 0; i < ROUNDS + 1; i++) {
        const struct kernel_sig *sig = &r.c.sig;
        struct kernel_call call = {.sig = sig,
                                   .state = r.state,
                                   .workspace = r.workspace.data,
                                   .step = &r.step};
        double start;

        for (int j = 0; j < sig->n_in; j++)
            call.in[j] = sig->in[j].dtype == DTYPE_NONE ? NULL : r.in[j].data;
        for (int j = 0; j < sig->n_out; j++)
            call.out[j] =
                sig->out[j].dtype == DTYPE_NONE ? NULL : r.out[j].data;
        start = now_s();
        copy(a.data, b.data, bytes, threads);
        copies[i > 0 ? i - 1 : 0] = now_s() - start;
        start = now_s();
        r.kernel->run(&call);
        times[i > 0 ? i - 1 : 0] = now_s() - start;
    }
    print_line(&r, t, median(times, ROUNDS), median(copies, ROUNDS));
    check_buf_free(&a);
    check_buf_free(&b);
    runner_close(&r);
}

/* ---- the flat kernels ---------------------------------------------------- */

#define FLAT_N (8 << 20)

struct flat_bench {
    const char *name;
    double bytes; /* an element: read and written */
    void (*run)(const struct kernel_flat *flat, float *const v[4], int threads);
};

static void
run_unscale(const struct kernel_flat *flat, float *const v[4], int threads)
{
    struct kernel_unscale result;

    flat->unscale(v[0], FLAT_N, 0.999f, threads, &result);
}

static void
run_sgd(const struct kernel_flat *flat, float *const v[4], int threads)
{
    const struct kernel_sgd p = {.lr = 1e-3f, .momentum = 0.9f};

    flat->sgd(v[0], v[1], v[2], FLAT_N, 1, &p, threads);
}

static void
run_adamw(const struct kernel_flat *flat, float *const v[4], int threads)
{
    const struct kernel_adam p = {.lr = 1e-3f,
                                  .beta1 = 0.9f,
                                  .beta2 = 0.999f,
                                  .eps = 1e-8f,
                                  .weight_decay = 0.01f,
                                  .decoupled = true,
                                  .t = 10};

    flat->adam(v[0], v[1], v[2], v[3], FLAT_N, 1, &p, threads);
}

static void
run_find(const struct kernel_flat *flat, float *const v[4], int threads)
{
    flat->find_nonfinite(v[0], DTYPE_F32, FLAT_N, threads);
}

static void
bench_flat(const struct backend *backend, int threads)
{
    static const struct flat_bench list[] = {{"unscale", 8, run_unscale},
                                             {"sgd", 20, run_sgd},
                                             {"adamw", 28, run_adamw},
                                             {"find_nonfinite", 4, run_find}};
    const struct kernel_flat flat = backend_flat(backend);
    struct check_buf buf[4], a, b;
    float *v[4];

    check_buf_make(&a, FLAT_N * sizeof(float));
    check_buf_make(&b, FLAT_N * sizeof(float));
    for (int i = 0; i < 4; i++) {
        check_buf_make(&buf[i], FLAT_N * sizeof(float));
        v[i] = buf[i].data;
        for (int64_t j = 0; j < FLAT_N; j++)
            v[i][j] = 1e-3f * (float)(j % 1000);
    }
    for (int k = 0; k < 4; k++) {
        double times[ROUNDS], copies[ROUNDS], s;

        for (int i = 0; i < ROUNDS; i++) {
            double start = now_s();

            copy(a.data, b.data, 2 * FLAT_N * sizeof(float), threads);
            copies[i] = (now_s() - start) * list[k].bytes / 8;
            start = now_s();
            list[k].run(&flat, v, threads);
            times[i] = now_s() - start;
        }
        s = median(times, ROUNDS);
        printf("%-24s %-4s %-5s %9.3f ms %7.1f GB/s %5.0f %% of copy\n",
               list[k].name, "f32", "flat", s * 1e3,
               list[k].bytes * FLAT_N / s * 1e-9,
               100 * median(copies, ROUNDS) / s);
    }
    for (int i = 0; i < 4; i++)
        check_buf_free(&buf[i]);
    check_buf_free(&a);
    check_buf_free(&b);
}

int
bench_main(int op)
{
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    const char *name = getenv("BENCH_BACKEND");
    const char *asked = getenv("OMP_NUM_THREADS");
    const struct backend *backend =
        backend_find(name != NULL ? name : "reference");
    const int threads =
        asked != NULL ? atoi(asked) : (int)sysconf(_SC_NPROCESSORS_ONLN);

    if (backend == NULL || threads < 1) {
        fprintf(stderr, "checkkern: no such backend or thread count\n");
        return 2;
    }
    printf("backend %s, %d threads\n", backend->name, threads);
    for (int o = 0; o < OP_COUNT; o++)
        for (int t = 0; t < 3 && (op < 0 || op == o); t++) {
            struct kcase c;

            if (cases_bench((enum op)o, types[t], &c))
                bench_case(backend, &c, types[t], threads);
        }
    if (op < 0)
        bench_flat(backend, threads);
    return 0;
}
