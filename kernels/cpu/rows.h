/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows: how to walk a matrix of rows x channels, channels fastest, fast and in
 * a fixed order, however few the channels are.
 *
 * Several rows side by side make a line of 512 to 1024 elements (or one row,
 * when it is longer), so that a loop over a line vectorizes for one channel
 * as well as for a thousand. Lines are grouped into chunks, the items of
 * parallel_run(); bounds depend on the shape alone. Sums over a chunk are kept
 * per position of the line and folded to channels at its end. Pure.
 */
#ifndef KERNELS_CPU_ROWS_H
#define KERNELS_CPU_ROWS_H

#include "proto/dtype.h"

#include <stdint.h>

#define ROWS_SEGMENT 1024 /* a line is worked on in pieces of this size */
#define ROWS_GROUP   4    /* so many lines are summed in one go */

struct rows_plan {
    int64_t n;        /* elements */
    int64_t channels; /* may be 0 */
    int64_t line;     /* elements in a line, a multiple of channels */
    int64_t chunk;    /* elements in a chunk, a multiple of line */
    int64_t n_chunks;
};

struct rows_plan rows_make_plan(int64_t n, int64_t channels);

/* Elements [begin, end) of chunk i. */
void rows_chunk_range(const struct rows_plan *plan, int64_t i, int64_t *begin,
                      int64_t *end);

/* Views of the same segment of up to ROWS_GROUP lines: the elements from at
 * on, width of them each, the next line `line` further, while whole ones are
 * left before end; then a last, shorter one by itself. */
struct rows_group {
    const float *line[ROWS_GROUP];
    int n_lines;
    int64_t width;
};

/* buf: ROWS_GROUP x ROWS_SEGMENT floats, for halves. */
struct rows_group rows_view(const struct rows_plan *plan, const void *data,
                            enum dtype dtype, int64_t at, int64_t end,
                            int64_t width, float *buf);

/* sum[i] += each line's element i, in the order of the lines. */
void rows_add(const struct rows_group *g, float *sum);

/* Moments about mean, which has a number for each position: s1 += x - mean,
 * s2 += (x - mean)^2. */
void rows_add_moments(const struct rows_group *x, const float *mean, float *s1,
                      float *s2);

/* s1 += dy, s2 += dy (x - mean). */
void rows_add_products(const struct rows_group *dy, const struct rows_group *x,
                       const float *mean, float *s1, float *s2);

/* Width of a segment of the line that starts at column. */
int64_t rows_segment(const struct rows_plan *plan, int64_t column);

/* Adds sum[0 .. width) of the segment at column into channel[0 ..): the
 * doubles of all channels, in the order of the columns. */
void rows_fold(const struct rows_plan *plan, int64_t column, int64_t width,
               const float *sum, double *channel);

/* line[j] = channel[j mod channels] for a whole line. */
void rows_spread(const struct rows_plan *plan, const float *channel,
                 float *line);

#endif
