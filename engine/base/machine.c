/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/machine.h"

#include <unistd.h>

int64_t
machine_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGE_SIZE);
    int64_t n_bytes;

    if (pages <= 0 || page_bytes <= 0 ||
        __builtin_mul_overflow(pages, page_bytes, &n_bytes))
        return INT64_MAX;
    return n_bytes;
}
