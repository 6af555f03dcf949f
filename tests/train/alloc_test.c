/* SPDX-License-Identifier: Apache-2.0 */
/* A step allocates nothing: allocations of this process are counted from the
 * end of step 2 to the end of step 20. What is allocated before is what the
 * plan said, to the byte. */
#include "tests/train/harness.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>

/* glibc's own, under the names that an interposed malloc may use. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

/* oneDNN allocates when it executes a primitive; that is not ours to change,
 * so its calls are counted apart. */
#define MAX_RANGES 16
static struct {
    uintptr_t start, end;
} onednn[MAX_RANGES];
static int n_onednn;

static atomic_bool counting, listing;
static atomic_int n_ours, n_onednns;

static int
find_onednn(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    if (strstr(info->dlpi_name, "libdnnl") == NULL &&
        strstr(info->dlpi_name, "libstdc++") == NULL)
        return 0;
    for (int i = 0; i < info->dlpi_phnum && n_onednn < MAX_RANGES; i++) {
        const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        onednn[n_onednn].start = at;
        onednn[n_onednn++].end = at + info->dlpi_phdr[i].p_memsz;
    }
    return 0;
}

static void
count(void *caller)
{
    const uintptr_t at = (uintptr_t)caller;

    if (!atomic_load(&counting))
        return;
    for (int i = 0; i < n_onednn; i++)
        if (at >= onednn[i].start && at < onednn[i].end) {
            atomic_fetch_add(&n_onednns, 1);
            return;
        }
    atomic_fetch_add(&n_ours, 1);
}

/* Aligned blocks that were asked for while listing. */
#define MAX_BLOCKS 256
static struct {
    const void *at;
    size_t n_bytes;
} blocks[MAX_BLOCKS];
static atomic_int n_blocks;

static void *
list_block(void *at, size_t n_bytes)
{
    if (atomic_load(&listing)) {
        const int i = atomic_fetch_add(&n_blocks, 1);
        if (i < MAX_BLOCKS) {
            blocks[i].at = at;
            blocks[i].n_bytes = n_bytes;
        }
    }
    return at;
}

#define CALLER __builtin_return_address(0)

void *
malloc(size_t n)
{
    count(CALLER);
    return __libc_malloc(n);
}

void *
calloc(size_t n, size_t size)
{
    count(CALLER);
    return __libc_calloc(n, size);
}

void *
realloc(void *p, size_t n)
{
    count(CALLER);
    return __libc_realloc(p, n);
}

void *
aligned_alloc(size_t align, size_t n)
{
    count(CALLER);
    return list_block(__libc_memalign(align, n), n);
}

int
posix_memalign(void **p, size_t align, size_t n)
{
    count(CALLER);
    *p = __libc_memalign(align, n);
    return *p != NULL ? 0 : ENOMEM;
}

/* Bytes that were asked for at this place; 0: none were. */
static size_t
bytes_at(const void *at)
{
    for (int i = 0; i < n_blocks && i < MAX_BLOCKS; i++)
        if (at != NULL && blocks[i].at == at)
            return blocks[i].n_bytes;
    return 0;
}

static bool
is_listed(size_t n_bytes)
{
    for (int i = 0; i < n_blocks && i < MAX_BLOCKS; i++)
        if (blocks[i].n_bytes == n_bytes)
            return true;
    return false;
}

static void
check_memory(const struct engine *engine, const struct event *started)
{
    const struct state *s = engine_state(engine);
    size_t n_bytes = bytes_at(s->weights) + bytes_at(s->grads) +
                     bytes_at(s->buffers) + bytes_at(s->buffers_pending) +
                     bytes_at(s->ema);

    for (int i = 0; i < STATE_MAX_MOMENTS; i++)
        n_bytes += bytes_at(s->moment[i]);
    assert_int_equal(n_bytes, started->u.started.state_bytes);
    assert_true(is_listed((size_t)started->u.started.activation_bytes));
}

static struct event started; /* of the run under way */

static int
on_event(void *ctx, const struct event *e, struct err *err)
{
    (void)ctx;
    (void)err;
    if (e->kind == EVENT_STARTED)
        started = *e;
    if (e->kind == EVENT_STEP)
        atomic_store(&counting, e->iteration >= 2 && e->iteration < 20);
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
    (void)ctx;
    return 0;
}

static void
run_counted(const char *dtype, const char *norm, const char *optimizer)
{
    enum { SAMPLES = 70, PIXELS = 12 * 12 };
    static float x[SAMPLES * PIXELS];
    int64_t y[SAMPLES];
    const int64_t dim[4] = {SAMPLES, 1, 12, 12};
    enum event_outcome outcome;
    struct engine *engine = NULL;
    struct harness h;
    char text[2048];

    for (int i = 0; i < SAMPLES * PIXELS; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < SAMPLES; i++)
        y[i] = i % 5;
    harness_init(&h);
    harness_npy_f32(&h, "x.npy", 4, dim, x);
    harness_npy_i64(&h, "y.npy", SAMPLES, y);
    snprintf(text, sizeof(text),
             "{'name': 't', 'threads': 2, 'data': {'train': {'format': 'npy', "
             "'input': 'x.npy', 'target': 'y.npy'}, 'batch_size': 16, "
             "'shuffle': true}, 'model': [{'conv2d': {'out_channels': 8, "
             "'kernel_size': 3, 'padding': 1}}, %s, 'relu', "
             "{'max_pool2d': {'kernel_size': 2}}, 'flatten', {'dropout': {'p': "
             "0.1}}, {'linear': {'out_features': 32}}, 'gelu', "
             "{'layer_norm': {}}, {'linear': {'out_features': 5}}], 'loss': "
             "'cross_entropy', 'optimizer': %s, 'amp': {'dtype': '%s', "
             "'scaler': {'init_scale': 256}}, 'train': {'epochs': 9, "
             "'accumulate': 2, 'clip_grad_norm': 1, 'ema': {'decay': 0.9}}}",
             norm, optimizer, dtype);
    harness_spec(&h, text);
    const struct engine_options o = {
        .backend = "cpu",
        .threads = 2,
        .directory = h.dir,
        .attempt = 1,
        .threaded = true,
        .clock = clock_system(),
        .hooks = {NULL, on_event, on_sync, on_orders},
        .best = "",
    };
    atomic_store(&n_blocks, 0);
    atomic_store(&listing, true);
    assert_int_equal(engine_open(h.spec, &o, &engine, &h.err), 0);
    atomic_store(&listing, false);
    assert_true(engine_total_iterations(engine) > 20);
    atomic_store(&n_ours, 0);
    atomic_store(&n_onednns, 0);
    assert_int_equal(engine_run(engine, &outcome, &h.err), 0);
    print_message("%s: oneDNN allocates %d times in 18 steps\n", dtype,
                  atomic_load(&n_onednns));
    assert_int_equal(atomic_load(&n_ours), 0);
    check_memory(engine, &started);
    engine_close(&engine);
    harness_fini(&h);
}

static void
test_alloc_float32(void **unused)
{
    (void)unused;
    run_counted("float32", "{'batch_norm2d': {}}", "{'adamw': {'lr': 0.001}}");
}

static void
test_alloc_bfloat16(void **unused)
{
    (void)unused;
    run_counted("bfloat16", "{'batch_norm2d': {}}",
                "{'sgd': {'lr': 0.01, 'momentum': 0.9}}");
}

static void
test_alloc_float16(void **unused)
{
    (void)unused;
    run_counted("float16", "{'batch_norm2d': {}}", "{'adam': {'lr': 0.001}}");
}

/* Buffers of no bytes are counted as such. */
static void
test_alloc_without_buffers(void **unused)
{
    (void)unused;
    run_counted("float32", "{'group_norm': {'num_groups': 2}}",
                "{'sgd': {'lr': 0.01}}");
}

/* The counter counts. */
static void
test_alloc_counter_works(void **unused)
{
    (void)unused;
    atomic_store(&n_ours, 0);
    atomic_store(&counting, true);
    void *volatile p = malloc(10);
    free(p);
    p = aligned_alloc(64, 64);
    free(p);
    atomic_store(&counting, false);
    assert_int_equal(atomic_load(&n_ours), 2);
    assert_true(n_onednn > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_counter_works),
        cmocka_unit_test(test_alloc_float32),
        cmocka_unit_test(test_alloc_bfloat16),
        cmocka_unit_test(test_alloc_float16),
        cmocka_unit_test(test_alloc_without_buffers),
    };

    dl_iterate_phdr(find_onednn, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
