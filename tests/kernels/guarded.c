/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/kernels/guarded.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/convert.h"

uint32_t
guarded_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

void *
guarded_alloc(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);

    assert_non_null(p);
    return p;
}

/* About uniform in [-1, 1), never of a size that a half cannot tell. */
static void *
alloc_random(const struct tensor_desc *t, uint32_t seed)
{
    const int64_t n = tensor_n_elems(t);
    void *p = guarded_alloc(tensor_n_bytes(t));

    for (int64_t i = 0; i < n; i++)
        convert_put(p, t->dtype, i,
                    (float)((int)(guarded_random(&seed) % 4096) - 2048) / 2048);
    return p;
}

static unsigned char *
alloc_between_guards(size_t bytes)
{
    unsigned char *p = guarded_alloc(bytes + 2 * CANARY);

    memset(p, CANARY_VALUE, bytes + 2 * CANARY);
    return p;
}

static void
assert_guards(const unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < CANARY; i++) {
        assert_int_equal(p[i], CANARY_VALUE);
        assert_int_equal(p[CANARY + bytes + i], CANARY_VALUE);
    }
}

void
guarded_init(struct guarded *c, const struct kernel_sig *sig)
{
    memset(c, 0, sizeof(*c));
    c->sig = *sig;
    for (int i = 0; i < sig->n_in; i++)
        if (dtype_is_float(sig->in[i].dtype))
            c->in[i] = alloc_random(&sig->in[i], 77u + (uint32_t)i);
        else if (sig->in[i].dtype != DTYPE_NONE)
            c->in[i] = guarded_alloc(tensor_n_bytes(&sig->in[i]));
    c->out_bytes = tensor_n_bytes(&sig->out[0]);
    c->out = alloc_between_guards(c->out_bytes);
}

void
guarded_fini(struct guarded *c)
{
    for (int i = 0; i < OP_MAX_IN; i++)
        free(c->in[i]);
    free(c->out);
}

void
guarded_run(struct guarded *c, const struct kernel *kernel, int n, void *second)
{
    struct kernel_call call = {.sig = &c->sig};
    struct err err = {0};
    unsigned char *first = guarded_alloc(c->out_bytes), *workspace = NULL;
    size_t bytes = 0;

    if (kernel->prepare != NULL)
        assert_int_equal(kernel->prepare(&c->sig, &call.state, &err), 0);
    if (kernel->workspace_bytes != NULL)
        bytes = kernel->workspace_bytes(&c->sig, call.state);
    workspace = alloc_between_guards(bytes);
    memset(workspace + CANARY, 0xff, bytes); /* NaN, whatever the dtype */
    for (int i = 0; i < OP_MAX_IN; i++)
        call.in[i] = c->in[i];
    call.out[0] = c->out + CANARY;
    call.out[1] = second;
    call.workspace = workspace + CANARY;
    for (int i = 0; i < n; i++) {
        memset(call.out[0], 0xff, c->out_bytes);
        kernel->run(&call);
        assert_guards(c->out, c->out_bytes);
        assert_guards(workspace, bytes);
        if (i == 0)
            memcpy(first, call.out[0], c->out_bytes);
        assert_memory_equal(first, call.out[0], c->out_bytes);
    }
    if (kernel->release != NULL)
        kernel->release(call.state);
    free(workspace);
    free(first);
}

double
guarded_result(const struct guarded *c, int64_t i)
{
    return (double)convert_get(c->out + CANARY, c->sig.out[0].dtype, i);
}

void
guarded_fail(const struct guarded *c, const char *table, int64_t i, double got,
             double want, double tolerance)
{
    char a[96], b[96];

    fail_msg("%s %s(%s, %s) threads %d at %lld: %.9g, not %.9g +- %.3g", table,
             op_info(c->sig.op)->name,
             tensor_format(&c->sig.in[0], a, sizeof(a)),
             tensor_format(&c->sig.in[c->sig.n_in > 1 ? 1 : 0], b, sizeof(b)),
             c->sig.threads, (long long)i, got, want, tolerance);
}
