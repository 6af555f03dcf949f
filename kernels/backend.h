/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend: the list of backends, and who steps in for an empty slot.
 *
 * A backend is a name ("cpu") and its kernel tables, best first: "cpu" is
 * dnnl over cpu, "reference" is cpu alone. backend_find_kernel() asks
 * the tables in order and takes the first whose slot is there and supports the
 * signature. Static data, no state, any thread.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "kernels/kernel.h"

struct backend {
    const char *name;
    const struct kernel_table *const *tables; /* NULL-terminated, best first */
};

/* NULL when there is none such. */
const struct backend *backend_find(const char *name);

/* Backend i, for listing; NULL after the last. */
const struct backend *backend_at(int i);

/* The kernel for sig, or NULL: then err names op and dtypes
 * (ERR_UNSUPPORTED). *table_name, when not NULL, says whose it is. */
const struct kernel *backend_find_kernel(const struct backend *backend,
                                         const struct kernel_sig *sig,
                                         const char **table_name,
                                         struct err *err);

/* What its tables say of the code behind them, joined by "; "; "" when all of
 * it is ours. */
void backend_describe(const struct backend *backend, char *text, size_t size);

/* The flat kernels with every slot filled from the best table. */
struct kernel_flat backend_flat(const struct backend *backend);

#endif
