/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side of `./dev bench step`. Reads lines and answers each with one line:
 *
 *   SPEC SECONDS     trains that spec for so long after five warm updates;
 *                    a JSON list of the milliseconds from one update's end to
 *                    the next, everything included but the recording
 *   floor SECONDS    GFLOP/s of a 1024 x 1024 x 1024 product in float32, the
 *                    best rate of a second's tries
 */
#include "engine/engine.h"
#include "kernels/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UPDATES 5
#define MAX_UPDATES  100000

struct timer {
    int64_t start_us, last_us, seconds_us;
    int n_steps, n;
    double ms[MAX_UPDATES];
};

static int64_t
now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void
die(const char *what)
{
    fprintf(stderr, "bench_step: %s\n", what);
    exit(1);
}

static int
on_event(void *ctx, const struct event *event, struct err *err)
{
    struct timer *t = ctx;
    int64_t now = now_us();

    (void)err;
    if (event->kind != EVENT_STEP)
        return 0;
    if (++t->n_steps == WARM_UPDATES)
        t->start_us = now;
    else if (t->n_steps > WARM_UPDATES && t->n < MAX_UPDATES)
        t->ms[t->n++] = (double)(now - t->last_us) * 1e-3;
    t->last_us = now;
    return 0;
}

static int
on_sync(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return 0;
}

static unsigned
on_orders(void *ctx)
{
    const struct timer *t = ctx;

    return t->start_us != 0 && now_us() - t->start_us > t->seconds_us
               ? REPORT_ABANDON
               : 0;
}

static struct spec *
read_spec(const char *path)
{
    struct spec_faults faults = {0};
    struct spec *spec = NULL;
    char *text = malloc(SPEC_MAX_BYTES);
    FILE *f = fopen(path, "r");
    size_t n;

    if (text == NULL || f == NULL)
        die(path);
    n = fread(text, 1, SPEC_MAX_BYTES, f);
    fclose(f);
    if (spec_parse(text, n, &spec, &faults) != 0)
        die(faults.list[0].message);
    spec_faults_fini(&faults);
    free(text);
    return spec;
}

static void
bench_spec(const char *path, double seconds, struct timer *t)
{
    struct spec *spec = read_spec(path);
    struct engine_options options = {
        .backend = "cpu",
        .threads = spec->threads,
        .directory = "/nonexistent", /* nothing is written */
        .attempt = 1,
        .threaded = true,
        .clock = clock_system(),
        .hooks = {t, on_event, on_sync, on_orders},
        .best = "",
    };
    struct engine *engine = NULL;
    enum event_outcome outcome;
    struct err err;

    memset(t, 0, sizeof(*t));
    t->seconds_us = (int64_t)(seconds * 1e6);
    err_clear(&err);
    if (engine_open(spec, &options, &engine, &err) != 0)
        die(err.msg);
    if (engine_run(engine, &outcome, &err) != 0)
        die(err.msg);
    engine_close(&engine);
    spec_destroy(&spec);
    for (int i = 0; i < t->n; i++)
        printf("%s%.4f", i == 0 ? "[" : ", ", t->ms[i]);
    printf("]\n");
}

static void
bench_floor(double seconds, int threads)
{
    const int64_t side = 1024, dim[2] = {side, side};
    struct kernel_sig sig = {
        .op = OP_LINEAR, .n_in = 3, .n_out = 1, .threads = threads};
    struct kernel_call call = {.sig = &sig};
    const struct kernel *kernel;
    struct err err;
    float *block;
    double best = INFINITY;
    size_t workspace = 0;

    sig.in[0] = sig.in[1] = sig.out[0] = tensor_make(DTYPE_F32, 2, dim);
    err_clear(&err);
    kernel = backend_find_kernel(backend_find("cpu"), &sig, NULL, &err);
    if (kernel == NULL ||
        (kernel->prepare && kernel->prepare(&sig, &call.state, &err) != 0))
        die(err.msg);
    if (kernel->workspace_bytes != NULL)
        workspace = kernel->workspace_bytes(&sig, call.state);
    block = aligned_alloc(64, (size_t)(3 * side * side) * sizeof(float));
    call.workspace = aligned_alloc(64, (workspace + 127) / 64 * 64);
    if (block == NULL || call.workspace == NULL)
        die("out of memory");
    for (int64_t i = 0; i < 3 * side * side; i++)
        block[i] = 1.0f + (float)(i % 7);
    call.in[0] = block;
    call.in[1] = block + side * side;
    call.out[0] = block + 2 * side * side;
    for (int64_t end = now_us() + (int64_t)(seconds * 1e6); now_us() < end;) {
        int64_t start = now_us();

        kernel->run(&call);
        best = fmin(best, (double)(now_us() - start));
    }
    if (kernel->release != NULL)
        kernel->release(call.state);
    free(call.workspace);
    free(block);
    printf("%.1f\n", 2.0 * (double)(side * side * side) / best * 1e-3);
}

int
main(int argc, char **argv)
{
    static struct timer timer;
    int threads = argc > 1 ? atoi(argv[1]) : 2;
    char what[4096];
    double seconds;

    while (scanf("%4095s %lf", what, &seconds) == 2) {
        if (strcmp(what, "floor") == 0)
            bench_floor(seconds, threads);
        else
            bench_spec(what, seconds, &timer);
        fflush(stdout);
    }
    return 0;
}
