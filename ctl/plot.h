/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plot: a curve drawn with characters.
 *
 * Pure: points in, text out, the same text for the same points, so that tests
 * compare listings. In braille (2 x 4 dots a character) where the terminal
 * speaks UTF-8, with "*" elsewhere. Points are in order of x; those that are
 * not finite leave a gap in nothing but themselves. A point may stand for a
 * group of values: then lo and hi are the group's extremes and both show.
 *
 *   1.2 | *
 *       |  **
 *   0.3 |    *****
 *       +---------
 *        1    2345   iteration
 *  skips   ^
 */
#ifndef CTL_PLOT_H
#define CTL_PLOT_H

#include <stdbool.h>

struct plot_point {
    double x, y, lo, hi;
};

enum plot_axis {
    PLOT_LINEAR,
    PLOT_AUTO, /* logarithmic when all is positive and spans 100x or more */
    PLOT_LOG2  /* ends at powers of two */
};

struct plot {
    const char *title, *x_title;
    const struct plot_point *points;
    int n_points;
    bool steps; /* y holds until the next point */
    enum plot_axis axis;
    double x_min, x_max; /* both 0: the points' */
    const double *marks; /* places on the x axis */
    int n_marks;
    const char *marks_title; /* NULL: no line of marks */
};

struct plot_style {
    int width, height; /* whole width and rows of the curve, in characters */
    bool utf8, color;
};

/* malloc'd text of whole lines; NULL: no memory. Says so in a line when there
 * is nothing to draw. */
char *plot_render(const struct plot *plot, const struct plot_style *style);

#endif
