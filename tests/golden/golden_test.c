/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes, tested by text: a spec in, every listing on the way out.
 *
 * NAME.json becomes the graph as built, after autocast, after autodiff, after
 * recompute where the spec asks for it, the program with places, its memory
 * map, and the graph of evaluation; each is compared with the committed
 * NAME.STAGE.txt. `golden_test --update` writes them anew: read the difference
 * before committing it. Runs in the root of the sources.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/graph/build.h"
#include "engine/pass/autocast.h"
#include "engine/pass/autodiff.h"
#include "engine/pass/program.h"
#include "engine/pass/recompute.h"

#define DIR "tests/golden/"

static bool updating;

/* A spec and the shape of the data it would find. */
struct subject {
    const char *name;
    struct build_data data;
};

static const struct subject mlp = {"mlp",
                                   {.rank = 1,
                                    .dim = {20},
                                    .target_elems = 3,
                                    .target_rank = 1,
                                    .target_dim = {3}}};
static const struct subject fashion_cnn = {
    "fashion-cnn", {.rank = 3, .dim = {1, 28, 28}, .target_is_class = true}};
static const struct subject resnet = {
    "resnet", {.rank = 3, .dim = {3, 16, 16}, .target_is_class = true}};
static const struct subject gpt = {"gpt",
                                   {.rank = 1,
                                    .dim = {8},
                                    .input_is_tokens = true,
                                    .target_is_class = true,
                                    .target_rank = 1,
                                    .target_dim = {8}}};
static const struct subject unet = {"unet",
                                    {.rank = 3,
                                     .dim = {1, 8, 8},
                                     .target_is_class = true,
                                     .target_rank = 2,
                                     .target_dim = {8, 8}}};
static const struct subject resnet8 = {
    "resnet8", {.rank = 3, .dim = {3, 16, 16}, .target_is_class = true}};

/* ---- kernels that nobody runs ----------------------------------------------
 * How much a kernel wants is its own business and changes with its code; the
 * listings are about the passes. Convolutions want 64 KiB here, all others none. */

static struct kernel_table table;
static const struct kernel_table *const tables[] = {&table, NULL};
static const struct backend backend = {"reference", tables};

static size_t
conv_workspace(const struct kernel_sig *sig, void *state)
{
    const enum op_reduce reduce = op_info(sig->op)->reduce;

    (void)state;
    return reduce == OP_REDUCE_TAPS || reduce == OP_REDUCE_PIXELS ? 65536 : 0;
}

static void
never_run(const struct kernel_call *call)
{
    fail_msg("%s runs", op_info(call->sig->op)->name);
}

static const struct kernel kernel = {.workspace_bytes = conv_workspace,
                                     .run = never_run};

static void
fill_table(void)
{
    table.name = "cpu";
    for (int i = 0; i < OP_COUNT; i++)
        table.op[i] = &kernel;
}

/* ---- listings ------------------------------------------------------------- */

/* The whole file, NUL-terminated; NULL when it is not there. */
static char *
read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long size;

    if (f == NULL)
        return NULL;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    text = calloc((size_t)size + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    return text;
}

static void
write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
}

/* Says where two texts part. */
static void
complain(const char *path, const char *want, const char *have)
{
    int line = 1;

    for (;;) {
        const size_t nw = strcspn(want, "\n"), nh = strcspn(have, "\n");

        if (nw != nh || memcmp(want, have, nw) != 0 || want[nw] != have[nh]) {
            fail_msg("%s:%d differs\n  is      %.*s\n  listed  %.*s\n"
                     "(golden_test --update writes the listings anew)",
                     path, line, (int)nh, have, (int)nw, want);
        }
        want += nw + 1;
        have += nh + 1;
        line++;
    }
}

/* Takes the text. */
static void
compare_take(const struct subject *s, const char *stage, char *text)
{
    char path[128];
    char *want;

    assert_non_null(text);
    snprintf(path, sizeof(path), DIR "%s.%s.txt", s->name, stage);
    if (updating)
        write_file(path, text);
    want = read_file(path);
    if (want == NULL)
        fail_msg("%s is not there", path);
    if (strcmp(want, text) != 0)
        complain(path, want, text);
    free(want);
    free(text);
}

static struct spec *
load_spec(const struct subject *s)
{
    struct spec_faults faults = {NULL, 0};
    struct spec *spec = NULL;
    char path[128];
    char *text;

    snprintf(path, sizeof(path), DIR "%s.json", s->name);
    text = read_file(path);
    assert_non_null(text);
    if (spec_parse(text, strlen(text), &spec, &faults) != 0)
        fail_msg("%s:%d: %s: %s", path, faults.list[0].line,
                 faults.list[0].path, faults.list[0].message);
    spec_faults_fini(&faults);
    free(text);
    return spec;
}

/* The graph as built for `mode`, and after autocast. */
static struct graph *
build_cast(const struct subject *s, const struct spec *spec,
           enum build_mode mode, const char *stage)
{
    const struct autocast_policy policy = {
        spec->amp.dtype, spec->amp.fp32_regions, spec->amp.n_fp32_regions};
    struct graph *plain = NULL, *cast = NULL;
    struct err err;

    if (build_graph(spec, &s->data, mode, spec->data.batch_size, &plain,
                    &err) != 0 ||
        autocast_apply(plain, &policy, &cast, &err) != 0)
        fail_msg("%s: %s", s->name, err.msg);
    if (mode == BUILD_TRAIN)
        compare_take(s, "graph", graph_print(plain));
    compare_take(s, stage, graph_print(cast));
    graph_destroy(&plain);
    return cast;
}

/* Frees the graph, and makes the one that computes blocks again. */
static struct graph *
recompute_take(const struct subject *s, const struct spec *spec,
               struct graph *full)
{
    const char **blocks = NULL;
    struct recompute_options options = {NULL, 0};
    struct graph *out = NULL;
    struct err err;

    if (spec->train.n_recompute == 0)
        return full;
    if (build_find_blocks(spec, &blocks, &options.n_blocks, &err) != 0)
        fail_msg("%s: %s", s->name, err.msg);
    options.block = blocks;
    if (recompute_apply(full, &options, &out, &err) != 0)
        fail_msg("%s: %s", s->name, err.msg);
    compare_take(s, "recompute", graph_print(out));
    graph_destroy(&full);
    free(blocks);
    return out;
}

static void
check(const struct subject *s)
{
    struct spec *spec = load_spec(s);
    const struct autodiff_options diff = {
        .wgrad_pytorch = spec->amp.wgrad_rounding == SPEC_WGRAD_PYTORCH,
        .accumulate = spec->train.accumulate > 1};
    const struct program_options options = {.backend = &backend, .threads = 1};
    struct graph *cast = NULL, *full = NULL;
    struct program *program = NULL;
    struct err err;

    cast = build_cast(s, spec, BUILD_TRAIN, "autocast");
    if (autodiff_apply(cast, &diff, &full, &err) != 0)
        fail_msg("%s: %s", s->name, err.msg);
    compare_take(s, "autodiff", graph_print(full));
    full = recompute_take(s, spec, full);
    if (program_compile_take(full, &options, &program, &err) != 0)
        fail_msg("%s: %s", s->name, err.msg);
    compare_take(s, "program", program_print(program));
    compare_take(s, "memory", program_print_memory(program));
    program_destroy(&program);
    graph_destroy(&cast);
    cast = build_cast(s, spec, BUILD_EVAL, "evaluation");
    graph_destroy(&cast);
    spec_destroy(&spec);
}

static int
set_up(void **state)
{
    (void)state;
    fill_table();
    return 0;
}

static void
test_golden_mlp(void **state)
{
    (void)state;
    check(&mlp);
}

static void
test_golden_fashion_cnn(void **state)
{
    (void)state;
    check(&fashion_cnn);
}

static void
test_golden_resnet(void **state)
{
    (void)state;
    check(&resnet);
}

static void
test_golden_gpt(void **state)
{
    (void)state;
    check(&gpt);
}

static void
test_golden_unet(void **state)
{
    (void)state;
    check(&unet);
}

static void
test_golden_resnet8(void **state)
{
    (void)state;
    check(&resnet8);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_mlp),
        cmocka_unit_test(test_golden_fashion_cnn),
        cmocka_unit_test(test_golden_resnet),
        cmocka_unit_test(test_golden_gpt),
        cmocka_unit_test(test_golden_unet),
        cmocka_unit_test(test_golden_resnet8),
    };

    updating = argc == 2 && strcmp(argv[1], "--update") == 0;
    return cmocka_run_group_tests(tests, set_up, NULL);
}
