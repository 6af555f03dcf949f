/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rangetable: what traind-worker says of an iteration that it ran again.
 *
 * Runs the program with the user's own rights, reads its lines (a record
 * replay, then records range) and shows them: for a person some lines of
 * words, the table and what to look at in it; as JSON one object of both; as
 * csv and parsable the table alone. For the verbs replay and ranges.
 */
#ifndef CTL_RANGETABLE_H
#define CTL_RANGETABLE_H

#include "ctl/session.h"

/* What may be tried on the same numbers, and the form of the table. */
#define RANGETABLE_OPTIONS                                                     \
    {"amp", 0, "DTYPE", "float32, float16 or bfloat16 instead"},               \
        {"fp32-region", 0, "PATH",                                             \
         "autocast off at this layer too; may be repeated"},                   \
        {"scale", 0, "X", "another loss scale"},                               \
        {"threads", 0, "N", "of the program; default: as recorded"},           \
        {"backend", 0, "NAME", "kernels to use; default: as recorded"},        \
    {                                                                          \
        "csv", 0, NULL, "the table, comma-separated with a heading"            \
    }

/* words: what comes before the options above, n of them: "--replay", DIR.
 * input: a text for the program's standard input, or "". The exit status: 0, 1
 * when a replay without changes gave other bits, that of the program when it
 * could not do it (it has said why), or negative. */
int rangetable_show(struct session *s, const char *const *words, int n,
                    const char *input, struct err *err);

#endif
