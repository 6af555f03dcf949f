/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dnnl/onednn.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_OPENMP)
#include <omp.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct onednn {
    enum pdesc_kind kind;
    int threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    int n_args; /* the scratchpad is the last, when there is one */
    dnnl_exec_arg_t arg[PDESC_MAX + 1]; /* memory owned, data the caller's */
    int place[PDESC_MAX];               /* arg[i] is tensor place[i] */
    size_t scratch_bytes;
};

/* oneDNN asks OpenMP how many threads there are, at creation and again at
 * execution; the setting belongs to the calling thread alone. */
static int
threads_enter(int threads)
{
#if defined(_OPENMP)
    const int saved = omp_get_max_threads();

    if (saved != threads)
        omp_set_num_threads(threads);
    return saved;
#else
    return threads;
#endif
}

static void
threads_leave(int saved)
{
#if defined(_OPENMP)
    if (omp_get_max_threads() != saved)
        omp_set_num_threads(saved);
#else
    (void)saved;
#endif
}

static int
status_set(struct err *err, dnnl_status_t status, const char *what)
{
    switch ((int)status) {
    case dnnl_success: return 0;
    case dnnl_out_of_memory:
        return err_set(err, ERR_NOMEM, "oneDNN: out of memory for %s", what);
    case dnnl_unimplemented:
        return err_set(err, ERR_UNSUPPORTED, "oneDNN: has no %s for these",
                       what);
    }
    return err_set(err, ERR_UNSUPPORTED, "oneDNN: %s: status %d", what,
                   (int)status);
}

static const char *
kind_name(enum pdesc_kind kind)
{
    static const char *const names[] = {
        [PDESC_MATMUL] = "product",
        [PDESC_CONV] = "convolution",
        [PDESC_CONV_DX] = "convolution towards the input",
        [PDESC_CONV_DW] = "convolution towards the weight",
        [PDESC_REORDER] = "reorder",
    };

    return names[kind];
}

/* Its reference code is slower than ours. Its general convolution multiplies
 * padding like data, and 0 x inf would be NaN where there is no term at all. */
static bool
is_declined(const struct pdesc_problem *problem, const_dnnl_primitive_desc_t pd)
{
    const bool gathers =
        problem->kind == PDESC_CONV || problem->kind == PDESC_CONV_DW;

    if (strncmp(pdesc_name(pd), "ref", 3) == 0)
        return true;
    return gathers && (problem->padding[0] > 0 || problem->padding[1] > 0) &&
           strstr(pdesc_name(pd), "gemm") != NULL;
}

int
onednn_check(const struct pdesc_problem *problem, int threads, struct err *err)
{
    const int saved = threads_enter(threads);
    dnnl_engine_t engine = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t status = dnnl_engine_create(&engine, dnnl_cpu, 0);

    if (status == dnnl_success)
        status = pdesc_create(problem, engine, &pd);
    if (status == dnnl_success && is_declined(problem, pd))
        status = dnnl_unimplemented;
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    if (engine != NULL)
        dnnl_engine_destroy(engine);
    threads_leave(saved);
    return status_set(err, status, kind_name(problem->kind));
}

static dnnl_status_t
add_arg(struct onednn *p, int arg, int place)
{
    dnnl_exec_arg_t *a = &p->arg[p->n_args];
    const dnnl_status_t status =
        pdesc_create_memory(p->pd, arg, p->engine, &a->memory);

    if (status != dnnl_success)
        return status;
    a->arg = arg;
    if (p->n_args < PDESC_MAX)
        p->place[p->n_args] = place;
    p->n_args++;
    return dnnl_success;
}

/* Code is generated here. present: which tensors there are, as bits. */
static dnnl_status_t
finish(struct onednn *p, unsigned present)
{
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, p->pd);

    if (status == dnnl_success)
        status = dnnl_stream_create(&p->stream, p->engine,
                                    dnnl_stream_default_flags);
    for (int i = 0; i < PDESC_MAX && status == dnnl_success; i++)
        if (present >> i & 1u)
            status = add_arg(p, pdesc_arg(p->kind, i), i);
    if (status != dnnl_success)
        return status;
    p->scratch_bytes = pdesc_bytes(p->pd, DNNL_ARG_SCRATCHPAD);
    if (p->scratch_bytes > 0)
        status = add_arg(p, DNNL_ARG_SCRATCHPAD, -1);
    return status;
}

int
onednn_create(const struct pdesc_problem *problem, int threads,
              struct onednn **prim, struct err *err)
{
    struct onednn *p = calloc(1, sizeof(*p));
    const int saved = threads_enter(threads);
    unsigned present = 0;
    dnnl_status_t status = dnnl_out_of_memory;

    *prim = NULL;
    if (p == NULL)
        goto out;
    p->kind = problem->kind;
    p->threads = threads;
    for (int i = 0; i < PDESC_MAX; i++)
        if (problem->tensor[i].dtype != DTYPE_NONE)
            present |= 1u << i;
    status = dnnl_engine_create(&p->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = pdesc_create(problem, p->engine, &p->pd);
    if (status == dnnl_success && is_declined(problem, p->pd))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = finish(p, present);
out:
    threads_leave(saved);
    if (status != dnnl_success)
        onednn_destroy(&p);
    *prim = p;
    return status_set(err, status, kind_name(problem->kind));
}

int
onednn_create_reorder(const struct onednn *prim,
                      const struct pdesc_problem *problem, int i, int threads,
                      struct onednn **reorder, struct err *err)
{
    struct onednn *p = calloc(1, sizeof(*p));
    const int saved = threads_enter(threads);
    dnnl_status_t status = dnnl_out_of_memory;
    bool equal = false;

    *reorder = NULL;
    if (p == NULL)
        goto out;
    p->kind = PDESC_REORDER;
    p->threads = threads;
    status = dnnl_engine_create(&p->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = pdesc_create_reorder(problem, prim->pd, i, i != PDESC_OUT,
                                      p->engine, &p->pd);
    equal = status == dnnl_success && p->pd == NULL;
    if (status == dnnl_success && !equal)
        status = finish(p, 3u);
out:
    threads_leave(saved);
    if (status != dnnl_success || equal)
        onednn_destroy(&p);
    *reorder = p;
    return status_set(err, status, kind_name(PDESC_REORDER));
}

void
onednn_destroy(struct onednn **prim)
{
    struct onednn *p = *prim;

    *prim = NULL;
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_args; i++)
        dnnl_memory_destroy(p->arg[i].memory);
    if (p->primitive != NULL)
        dnnl_primitive_destroy(p->primitive);
    if (p->pd != NULL)
        dnnl_primitive_desc_destroy(p->pd);
    if (p->stream != NULL)
        dnnl_stream_destroy(p->stream);
    if (p->engine != NULL)
        dnnl_engine_destroy(p->engine);
    free(p);
}

size_t
onednn_tensor_bytes(const struct onednn *prim, int i)
{
    return pdesc_bytes(prim->pd, pdesc_arg(prim->kind, i));
}

bool
onednn_same_tensor(const struct onednn *a, const struct onednn *b, int i)
{
    assert(a->kind == b->kind);
    return pdesc_same(a->pd, b->pd, pdesc_arg(a->kind, i));
}

size_t
onednn_scratch_bytes(const struct onednn *prim)
{
    return prim->scratch_bytes;
}

const char *
onednn_name(const struct onednn *prim)
{
    return pdesc_name(prim->pd);
}

/* Arguments were checked at creation: a refusal here is a program error. */
void
onednn_run(struct onednn *prim, void *const data[PDESC_MAX], void *scratch)
{
    const int saved = threads_enter(prim->threads);
    dnnl_status_t status = dnnl_success;

    for (int i = 0; i < prim->n_args && status == dnnl_success; i++) {
        const bool is_scratch = prim->arg[i].arg == DNNL_ARG_SCRATCHPAD;
        void *p = is_scratch ? scratch : data[prim->place[i]];

        assert(p != NULL);
        status = dnnl_memory_set_data_handle(prim->arg[i].memory, p);
    }
    assert(status == dnnl_success);
    status = dnnl_primitive_execute(prim->primitive, prim->stream, prim->n_args,
                                    prim->arg);
    assert(status == dnnl_success);
    status = dnnl_stream_wait(prim->stream);
    assert(status == dnnl_success);
    threads_leave(saved);
}

bool
onednn_has_bf16(void)
{
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned bf16 = (unsigned)dnnl_cpu_isa_avx512_core_bf16;

    return (isa & bf16) == bf16;
}

#if defined(__x86_64__)
static bool
is_intel(void)
{
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

    return __get_cpuid(0, &eax, &ebx, &ecx, &edx) &&
           ebx == signature_INTEL_ebx && ecx == signature_INTEL_ecx &&
           edx == signature_INTEL_edx;
}
#else
static bool
is_intel(void)
{
    return false;
}
#endif

/* vdpbf16ps starts every other cycle on Intel's cores (half the rate of
 * float32) and every cycle on AMD's; tiles (AMX) are far above both. */
bool
onednn_bf16_pays(void)
{
    const unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned amx = (unsigned)dnnl_cpu_isa_avx512_core_amx;

    return (isa & amx) == amx || (onednn_has_bf16() && !is_intel());
}

void
onednn_describe(char *text, size_t size)
{
    static const char prefix[] = "cpu_isa_";
    const dnnl_version_t *v = dnnl_version();
    const dnnl_cpu_isa_hints_t hints = dnnl_get_cpu_isa_hints();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());

    if (strncmp(isa, prefix, sizeof(prefix) - 1) == 0)
        isa += sizeof(prefix) - 1;
    snprintf(text, size, "oneDNN %d.%d.%d, %s%s", v->major, v->minor, v->patch,
             isa, onednn_bf16_pays() ? ", native bf16" : "");
    if (hints != dnnl_cpu_isa_no_hints) {
        const size_t at = strlen(text);

        snprintf(text + at, size - at, ", %s", dnnl_cpu_isa_hints2str(hints));
    }
}
