/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failpoint: named places where a test kills the process or breaks a call.
 *
 * Read once from $TRAIND_FAILPOINT: "name[:count]" raises SIGKILL when the
 * place is passed for the count-th time (default 1), "name[:count]=ENOSPC"
 * makes it return that errno instead. Always compiled in: promises about
 * crashes are tested on the program that is shipped. Without the variable a
 * place costs one load and one branch. A text of any other form arms nothing.
 * The one global of the engine; places may be passed on any thread.
 */
#ifndef ENGINE_BASE_FAILPOINT_H
#define ENGINE_BASE_FAILPOINT_H

#include <stdbool.h>

/* 0, or the errno to pretend; does not return when it kills. */
int failpoint_hit(const char *name);

/* For tests, before threads are made: arms anew; NULL disarms. False when the
 * text has no meaning (nothing is armed then). */
bool failpoint_arm(const char *text);

#endif
