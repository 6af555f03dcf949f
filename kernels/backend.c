/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/backend.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/dnnl/dnnl.h"

static const struct kernel_table *const cpu_tables[] = {&dnnl_table, &cpu_table,
                                                        NULL};
static const struct kernel_table *const reference_tables[] = {&cpu_table, NULL};

static const struct backend backends[] = {
    {"cpu", cpu_tables},
    {"reference", reference_tables},
};

#define N_BACKENDS (int)(sizeof(backends) / sizeof(backends[0]))

const struct backend *
backend_at(int i)
{
    return i >= 0 && i < N_BACKENDS ? &backends[i] : NULL;
}

const struct backend *
backend_find(const char *name)
{
    for (int i = 0; i < N_BACKENDS; i++)
        if (strcmp(backends[i].name, name) == 0)
            return &backends[i];
    return NULL;
}

/* "linear(f16[2,3], f32[4,3])" for a person. */
static void
format_sig(const struct kernel_sig *sig, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "%s(", op_info(sig->op)->name);

    for (int i = 0; i < sig->n_in && at < size; i++) {
        char tensor[96];

        at += (size_t)snprintf(
            text + at, size - at, "%s%s", i > 0 ? ", " : "",
            tensor_format(&sig->in[i], tensor, sizeof(tensor)));
    }
    if (at < size)
        snprintf(text + at, size - at, ")");
}

const struct kernel *
backend_find_kernel(const struct backend *backend, const struct kernel_sig *sig,
                    const char **table_name, struct err *err)
{
    char text[256];

    for (const struct kernel_table *const *t = backend->tables; *t != NULL;
         t++) {
        const struct kernel *kernel = (*t)->op[sig->op];

        if (kernel == NULL)
            continue;
        assert(kernel->run != NULL);
        if (kernel->supports != NULL && !kernel->supports(sig))
            continue;
        if (table_name != NULL)
            *table_name = (*t)->name;
        return kernel;
    }
    format_sig(sig, text, sizeof(text));
    err_set(err, ERR_UNSUPPORTED, "%s: backend \"%s\" has no kernel for it",
            text, backend->name);
    return NULL;
}

void
backend_describe(const struct backend *backend, char *text, size_t size)
{
    size_t at = 0;

    assert(size > 0);
    text[0] = '\0';
    for (const struct kernel_table *const *t = backend->tables; *t != NULL;
         t++) {
        if ((*t)->describe == NULL)
            continue;
        if (at > 0)
            snprintf(text + at, size - at, "; ");
        at = strlen(text);
        (*t)->describe(text + at, size - at);
        at = strlen(text);
    }
}

struct kernel_flat
backend_flat(const struct backend *backend)
{
    struct kernel_flat flat = {.unscale = NULL};

    for (const struct kernel_table *const *t = backend->tables; *t != NULL;
         t++) {
        const struct kernel_flat *f = &(*t)->flat;

#define FILL(member)                                                           \
    if (flat.member == NULL)                                                   \
    flat.member = f->member
        FILL(unscale);
        FILL(sgd);
        FILL(adam);
        FILL(adagrad);
        FILL(rmsprop);
        FILL(lion);
        FILL(ema);
        FILL(find_nonfinite);
#undef FILL
    }
    assert(flat.unscale != NULL && flat.sgd != NULL && flat.adam != NULL &&
           flat.adagrad != NULL && flat.rmsprop != NULL && flat.lion != NULL &&
           flat.ema != NULL && flat.find_nonfinite != NULL);
    return flat;
}
