/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/runner.h"

#include <string.h>

static size_t
bytes_of(const struct tensor_desc *t)
{
    return t->dtype == DTYPE_NONE ? 0 : tensor_n_bytes(t);
}

static void
make_buffers(struct runner *r, uint64_t seed)
{
    struct check_rng rng = {seed * 0x9E3779B97F4A7C15ULL + 1};
    struct kernel_sig *sig = &r->c.sig;

    for (int i = 0; i < sig->n_in; i++) {
        const struct tensor_desc *t = &sig->in[i];

        check_buf_make(&r->in[i], bytes_of(t));
        check_buf_make(&r->in_copy[i], bytes_of(t));
        if (t->dtype == DTYPE_NONE)
            continue;
        check_fill(r->in[i].data, t, r->c.fill[i], &rng, sig, r->c.classes);
        if (r->in[i].bytes > 0)
            memcpy(r->in_copy[i].data, r->in[i].data, r->in[i].bytes);
    }
    for (int i = 0; i < sig->n_out; i++)
        check_buf_make(&r->out[i], bytes_of(&sig->out[i]));
}

bool
runner_open(struct runner *r, const struct backend *backend,
            const struct kcase *c, int threads, uint64_t seed, struct err *err)
{
    memset(r, 0, sizeof(*r));
    r->c = *c;
    r->c.sig.threads = threads;
    r->step = (struct kernel_step){
        .seed = 42, .iteration = 3, .micro_batch = c->micro_batch};
    r->kernel = backend_find_kernel(backend, &r->c.sig, &r->table, err);
    if (r->kernel == NULL)
        return false;
    if (r->kernel->prepare != NULL &&
        r->kernel->prepare(&r->c.sig, &r->state, err) != 0)
        return false;
    make_buffers(r, seed);
    check_buf_make(&r->workspace,
                   r->kernel->workspace_bytes != NULL
                       ? r->kernel->workspace_bytes(&r->c.sig, r->state)
                       : 0);
    return true;
}

void
runner_close(struct runner *r)
{
    if (r->kernel != NULL && r->kernel->release != NULL)
        r->kernel->release(r->state);
    for (int i = 0; i < OP_MAX_IN; i++) {
        check_buf_free(&r->in[i]);
        check_buf_free(&r->in_copy[i]);
    }
    for (int i = 0; i < OP_MAX_OUT; i++)
        check_buf_free(&r->out[i]);
    check_buf_free(&r->workspace);
}

static bool
same_desc(const struct tensor_desc *a, const struct tensor_desc *b)
{
    return a->dtype == b->dtype && a->layout == b->layout &&
           tensor_same_shape(a, b);
}

/* STATS_TRACK updates both of its first inputs. */
static int
n_aliases(const struct runner *r)
{
    return r->c.sig.op == OP_STATS_TRACK ? 2 : 1;
}

bool
runner_may_alias(const struct runner *r)
{
    const int in = op_info(r->c.sig.op)->inplace;

    return in >= 0 && same_desc(&r->c.sig.in[in], &r->c.sig.out[0]);
}

void
runner_run(struct runner *r, bool in_place)
{
    const struct kernel_sig *sig = &r->c.sig;
    const int first = op_info(sig->op)->inplace;
    struct kernel_call call = {.sig = sig,
                               .state = r->state,
                               .workspace = r->workspace.data,
                               .step = &r->step};

    for (int i = 0; i < sig->n_in; i++)
        call.in[i] = sig->in[i].dtype == DTYPE_NONE ? NULL : r->in[i].data;
    for (int i = 0; i < sig->n_out; i++) {
        memset(r->out[i].data, 0x5a, r->out[i].bytes);
        call.out[i] = sig->out[i].dtype == DTYPE_NONE ? NULL : r->out[i].data;
    }
    memset(r->workspace.data, 0x5a, r->workspace.bytes);
    if (!in_place) {
        r->kernel->run(&call);
        return;
    }
    for (int i = 0; i < n_aliases(r); i++)
        call.out[i] = r->in[first + i].data;
    r->kernel->run(&call);
    for (int i = 0; i < n_aliases(r); i++) {
        memcpy(r->out[i].data, call.out[i], r->out[i].bytes);
        memcpy(r->in[first + i].data, r->in_copy[first + i].data,
               r->in[first + i].bytes);
    }
}

bool
runner_intact(const struct runner *r)
{
    bool intact = check_buf_intact(&r->workspace);

    for (int i = 0; i < r->c.sig.n_in; i++)
        intact = intact && check_buf_intact(&r->in[i]) &&
                 memcmp(r->in[i].data, r->in_copy[i].data, r->in[i].bytes) == 0;
    for (int i = 0; i < r->c.sig.n_out; i++)
        intact = intact && check_buf_intact(&r->out[i]);
    return intact;
}
