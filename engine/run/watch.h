/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch: what the loop tells the guards, and the events of what they say.
 *
 * Turns results of a step and of an evaluation, and incidents, into what
 * guard.h takes; emits GUARD when one fires, and keeps what ends the run. Acts
 * on nothing: the loop does. Called by the loop in the order of the run; all it
 * is given is borrowed.
 */
#ifndef ENGINE_RUN_WATCH_H
#define ENGINE_RUN_WATCH_H

#include "engine/run/guard.h"
#include "engine/run/incidents.h"

struct watch {
    struct guard *guard;
    const struct incidents *incidents;
    const struct state *state;
    const struct report *report;

    /* Its own; zero at the start. */
    bool fired; /* a guard ends the run: firing, whose action is no `continue`
                 */
    struct guard_firing firing;
};

/* After incidents_look(), before it is told: what there was. */
void watch_look(struct watch *w);
/* After incidents_tell(); position is that of the window of the iteration. */
int watch_iteration(struct watch *w, const struct step_result *r,
                    int64_t position, struct err *err);

/* After the event of a whole evaluation. at_end: nothing is left to pause. */
int watch_evaluation(struct watch *w, const struct evaluate_result *result,
                     bool bad, bool at_end, struct err *err);

/* After a checkpoint was made. */
void watch_checkpoint(struct watch *w);

/* "guard 0 (consecutive_skips): 20 updates ..."; w->fired. */
void watch_format(const struct watch *w, char *text, size_t size);

#endif
