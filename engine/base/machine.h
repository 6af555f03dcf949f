/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine: how much this computer has of what a program may use up.
 *
 * For those who take sizes from a stranger: asking for more memory than there
 * is does not fail here, it gets the process killed later. Asks the system,
 * keeps nothing. Any thread.
 */
#ifndef ENGINE_BASE_MACHINE_H
#define ENGINE_BASE_MACHINE_H

#include <stdint.h>

/* Of memory, swap left out; INT64_MAX where the system does not say. */
int64_t machine_memory_bytes(void);

#endif
