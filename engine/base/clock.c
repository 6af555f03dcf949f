/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/base/clock.h"

#include <time.h>

static int64_t
read_us(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t
system_wall_us(void *ctx)
{
    (void)ctx;
    return read_us(CLOCK_REALTIME);
}

static int64_t
system_mono_us(void *ctx)
{
    (void)ctx;
    return read_us(CLOCK_MONOTONIC);
}

struct clock
clock_system(void)
{
    return (struct clock){system_wall_us, system_mono_us, 0};
}
