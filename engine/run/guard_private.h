/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard_private: what guard.c (when) and guard_change.c (what then) share.
 *
 * Included by these two alone.
 */
#ifndef ENGINE_RUN_GUARD_PRIVATE_H
#define ENGINE_RUN_GUARD_PRIVATE_H

#include "engine/run/guard.h"
#include "engine/run/spread.h"

#define GUARD_MAX_REGIONS  64
#define GUARD_REGION_BYTES (GUARD_MAX_REGIONS * EVENT_NAME_MAX)

/* Data positions in the order in which they came, the last ones. */
struct guard_windows {
    int64_t position[GUARD_MAX_WINDOWS];
    int64_t n; /* all that there were */
};

/* The last diagnosis that named regions. */
struct guard_cure {
    int64_t iteration; /* that it is of, as guard.n; 0: there is none */
    int n_regions;
    const char *region[GUARD_MAX_REGIONS]; /* into text */
    char text[GUARD_REGION_BYTES];
};

/* What a rule needs to remember. */
struct guard_rule {
    bool quiet;    /* has fired, and its condition has held since */
    uint8_t *ring; /* owned or NULL: of the last iterations, 1 for each that
                      counts; `at` is the oldest */
    int64_t at, n, sum;
    struct spread *spread; /* owned or NULL */
};

struct guard {
    const struct spec *spec; /* borrowed */
    int64_t rollbacks;
    double last_scale, least_scale; /* of checkpoints to go back to */
    struct guard_rule *rule;        /* owned; spec->guard.n_rules of them */

    int64_t n; /* iterations observed */
    struct {
        int64_t n, diagnosed;
        int64_t began;       /* the first of them, as n below */
        int64_t first, last; /* data positions; between there are no others */
    } streak;                /* of skips */
    int64_t n_floor; /* skips in a row, the last ones, made at the floor */
    struct {
        enum event_verdict verdict;
        int64_t n;
        bool fresh; /* one came since the last observation */
        char layer[EVENT_NAME_MAX];
        struct guard_windows windows;
    } run; /* of incidents with one verdict */
    struct guard_cure cure;
    int64_t data_position; /* of the iteration observed */
    double scale;          /* used in it */

    char *change;                         /* owned; of the last firing */
    int64_t pairs[2 * GUARD_MAX_WINDOWS]; /* of the last firing */
};

/* Fills in what the rollback of a rule changes. False: it is in effect
 * already, or not known; *why says so, as in "fc1 runs in float32 already". */
bool guard_change_make(struct guard *guard, const struct spec_guard *rule,
                       struct guard_firing *firing, char *why, size_t size);

#endif
