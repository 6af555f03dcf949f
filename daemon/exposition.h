/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exposition: figures as the text that Prometheus scrapes.
 *
 * A writer for two formats, text 0.0.4 and OpenMetrics 1.0: names, units and
 * help come from a family's row, a sample brings values only. The header of a
 * family is written with its first sample, so a family without samples is not
 * there at all; all samples of one family are put one after the other. Pure.
 */
#ifndef DAEMON_EXPOSITION_H
#define DAEMON_EXPOSITION_H

#include "proto/text.h"

#define EXPOSITION_LABELS_MAX 4

enum exposition_type {
    EXPOSITION_INFO, /* name ends in _info, value 1 */
    EXPOSITION_GAUGE,
    EXPOSITION_COUNTER, /* name ends in _total */
    EXPOSITION_HISTOGRAM
};

struct exposition_family {
    const char *name; /* whole, as in text 0.0.4 */
    enum exposition_type type;
    const char *unit;   /* what the name ends in, before _total; "" none */
    const char *labels; /* "job,verdict"; "" none */
    const char *help;   /* no quotes, no backslashes */
};

/* Counts of what was at most `le`, and more than the bound before it. */
#define EXPOSITION_BOUNDS_MAX 16
struct exposition_histogram {
    const double *le; /* ascending, constants */
    int n;
    uint64_t count[EXPOSITION_BOUNDS_MAX + 1]; /* the last: above all */
    double sum;
};
void exposition_observe(struct exposition_histogram *h, double value);

struct exposition {
    struct text text;
    bool openmetrics;
    const struct exposition_family *open; /* its header is written */
};

/* values: one for each label, in order. NaN: unknown, nothing is written. */
void exposition_put(struct exposition *e, const struct exposition_family *f,
                    const char *const *values, double value);
void exposition_put_histogram(struct exposition *e,
                              const struct exposition_family *f,
                              const char *const *values,
                              const struct exposition_histogram *h);
/* The text, malloc'd; NULL: no memory. */
char *exposition_take(struct exposition *e, size_t *len);

#endif
