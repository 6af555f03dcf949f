/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diagnosis: which questions are asked of an iteration that went wrong.
 *
 * Where did it become non-finite? Is the same batch finite at a smaller loss
 * scale, in float32, in bfloat16, with autocast off at that layer alone? Which
 * smallest set of float32 regions cures it, and which samples cause it? Each
 * is a run of the same numbers (rerun); verdict.c makes of the answers what
 * people read. Numerics, section 4. Reads the state, never writes it; called
 * between step_compute() and step_commit(), or on numbers that were kept.
 */
#ifndef ENGINE_DIAGNOSE_DIAGNOSIS_H
#define ENGINE_DIAGNOSE_DIAGNOSIS_H

#include "engine/diagnose/verdict.h"

struct diagnosis {
    struct evidence evidence;
    struct verdict verdict;
    int64_t runs;
};

/* A smaller scale than this is never tried. */
#define DIAGNOSIS_MIN_SCALE 0x1p-24

/* lr: the rate of this iteration, for the sentence. ERR_NOMEM, or what
 * compiling says. */
int diagnosis_run(struct rerun *rerun, const struct rerun_case *c, double lr,
                  struct diagnosis *out, struct err *err);

/* Of what updates left (EVENT_TRIGGER_WEIGHTS): weights, moments, averages,
 * running statistics. *out says so, if they are bad. */
void diagnosis_check_state(const struct rerun *rerun, const struct state *state,
                           double lr, struct diagnosis *out);

/* Fills what an event tells of a diagnosis; its strings are borrowed. */
void diagnosis_fill_event(const struct diagnosis *d, struct event *event);

#endif
