/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/plot.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/format.h"

#define MIN_COLUMNS 8
#define MAX_LABEL   12

struct canvas {
    const struct plot *plot;
    const struct plot_style *style;
    int columns, rows;   /* characters of the curve */
    int sub_x, sub_y;    /* dots per character */
    int dots_x, dots_y;  /* whole grid */
    uint8_t *dot;        /* owned; dots_y x dots_x, row 0 at the top */
    double x_min, x_max; /* dots_x spans these */
    double y_min, y_max; /* transformed: after the axis' logarithm */
    enum { LINEAR, LOG10, LOG2 } axis;
};

/* ---- ranges --------------------------------------------------------------*/

static double
transform(const struct canvas *c, double y)
{
    switch (c->axis) {
    case LINEAR: return y;
    case LOG10: return log10(y);
    case LOG2: return log2(y);
    }
    return NAN;
}

static double
untransform(const struct canvas *c, double t)
{
    switch (c->axis) {
    case LINEAR: return t;
    case LOG10: return pow(10, t);
    case LOG2: return exp2(t);
    }
    return NAN;
}

/* A point's extremes where they are known, else its value. */
static double
point_lo(const struct plot_point *p)
{
    return isfinite(p->lo) && p->lo < p->y ? p->lo : p->y;
}

static double
point_hi(const struct plot_point *p)
{
    return isfinite(p->hi) && p->hi > p->y ? p->hi : p->y;
}

static bool
is_drawable(const struct canvas *c, const struct plot_point *p)
{
    return isfinite(p->x) && isfinite(p->y) &&
           (c->axis == LINEAR || point_lo(p) > 0);
}

static void
choose_axis(struct canvas *c, double lo, double hi)
{
    switch (c->plot->axis) {
    case PLOT_LINEAR: c->axis = LINEAR; break;
    case PLOT_AUTO: c->axis = lo > 0 && hi / lo >= 100 ? LOG10 : LINEAR; break;
    case PLOT_LOG2: c->axis = LOG2; break;
    }
}

/* A range without height gets one, so that a flat line has a place. */
static void
set_y_range(struct canvas *c, double lo, double hi)
{
    c->y_min = transform(c, lo);
    c->y_max = transform(c, hi);
    if (c->axis == LOG2) {
        c->y_min = floor(c->y_min);
        c->y_max = ceil(c->y_max);
        if (c->y_min == c->y_max) {
            c->y_min -= 1;
            c->y_max += 1;
        }
    } else if (c->y_max - c->y_min <= fabs(c->y_max) * 1e-9) {
        double half = c->y_max != 0 ? fabs(c->y_max) * 0.5 : 1;
        c->y_min -= half;
        c->y_max += half;
    }
}

/* False when there is nothing to draw. */
static bool
find_ranges(struct canvas *c)
{
    const struct plot *plot = c->plot;
    double lo = INFINITY, hi = -INFINITY;

    c->axis = plot->axis == PLOT_LOG2 ? LOG2 : LINEAR;
    c->x_min = plot->x_min;
    c->x_max = plot->x_max;
    bool given = c->x_min != 0 || c->x_max != 0;
    if (!given) {
        c->x_min = INFINITY;
        c->x_max = -INFINITY;
    }
    for (int i = 0; i < plot->n_points; i++) {
        const struct plot_point *p = &plot->points[i];
        if (!is_drawable(c, p))
            continue;
        lo = fmin(lo, point_lo(p));
        hi = fmax(hi, point_hi(p));
        if (!given) {
            c->x_min = fmin(c->x_min, p->x);
            c->x_max = fmax(c->x_max, p->x);
        }
    }
    if (lo > hi)
        return false;
    choose_axis(c, lo, hi);
    set_y_range(c, lo, hi);
    return true;
}

/* ---- dots ----------------------------------------------------------------*/

static int
clamp(double v, int max)
{
    return !(v > 0) ? 0 : v > max ? max : (int)v; /* NaN is 0 */
}

static int
dot_x(const struct canvas *c, double x)
{
    if (c->x_max <= c->x_min)
        return 0;
    return clamp(
        floor((x - c->x_min) / (c->x_max - c->x_min) * (c->dots_x - 1) + 0.5),
        c->dots_x - 1);
}

static int
dot_y(const struct canvas *c, double y)
{
    double share = (transform(c, y) - c->y_min) / (c->y_max - c->y_min);

    return clamp(floor((1 - share) * (c->dots_y - 1) + 0.5), c->dots_y - 1);
}

static void
draw_column(struct canvas *c, int x, int y0, int y1)
{
    int from = y0 < y1 ? y0 : y1, to = y0 < y1 ? y1 : y0;

    for (int y = from; y <= to; y++)
        c->dot[(size_t)y * (size_t)c->dots_x + (size_t)x] = 1;
}

/* From one point to the next: straight, or level and then at once. */
static void
draw_segment(struct canvas *c, int x0, int y0, int x1, int y1)
{
    int last = y0;

    for (int x = x0; x <= x1; x++) {
        int y = y1;
        if (x < x1)
            y = c->plot->steps
                    ? y0
                    : y0 + (int)floor((double)(y1 - y0) * (x - x0) / (x1 - x0) +
                                      0.5);
        draw_column(c, x, last, y);
        last = y;
    }
}

static void
draw_curve(struct canvas *c)
{
    int last_x = -1, last_y = 0;

    for (int i = 0; i < c->plot->n_points; i++) {
        const struct plot_point *p = &c->plot->points[i];
        if (!is_drawable(c, p) || p->x < c->x_min || p->x > c->x_max)
            continue;
        int x = dot_x(c, p->x), y = dot_y(c, p->y);
        if (last_x >= 0)
            draw_segment(c, last_x, last_y, x, y);
        draw_column(c, x, dot_y(c, point_hi(p)), dot_y(c, point_lo(p)));
        last_x = x;
        last_y = y;
    }
    if (c->plot->steps && last_x >= 0)
        draw_segment(c, last_x, last_y, c->dots_x - 1, last_y);
}

/* ---- text ----------------------------------------------------------------*/

static bool
is_set(const struct canvas *c, int x, int y)
{
    return c->dot[(size_t)y * (size_t)c->dots_x + (size_t)x] != 0;
}

/* U+2800 + bits: dots 1-3 and 7 are the left column, 4-6 and 8 the right. */
static void
put_braille(const struct canvas *c, FILE *f, int column, int row)
{
    static const int bit[4][2] = {{0, 3}, {1, 4}, {2, 5}, {6, 7}};
    unsigned bits = 0;

    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 2; x++)
            if (is_set(c, column * 2 + x, row * 4 + y))
                bits |= 1u << bit[y][x];
    if (bits == 0)
        putc(' ', f);
    else
        fprintf(f, "\xe2%c%c", 0xa0 + (int)(bits >> 6),
                0x80 + (int)(bits & 0x3f));
}

static void
put_cell(const struct canvas *c, FILE *f, int column, int row)
{
    if (c->style->utf8)
        put_braille(c, f, column, row);
    else
        putc(is_set(c, column, row) ? '*' : ' ', f);
}

static void
format_label(const struct canvas *c, double t, char *label, size_t n)
{
    double y = untransform(c, t);

    if (c->axis == LOG2)
        format_scale(y, label, n);
    else
        snprintf(label, n, "%.4g", fabs(y) < 1e-12 ? 0 : y);
}

/* The label of a row, or "": the top, the bottom and, where the grid of the
 * axis allows it, the middle. */
static void
row_label(const struct canvas *c, int row, char *label, size_t n)
{
    double middle = (c->y_min + c->y_max) / 2;

    label[0] = '\0';
    if (row == 0)
        format_label(c, c->y_max, label, n);
    else if (row == c->rows - 1)
        format_label(c, c->y_min, label, n);
    else if (c->rows % 2 == 1 && row == c->rows / 2 &&
             (c->axis != LOG2 || middle == floor(middle)))
        format_label(c, middle, label, n);
}

static int
label_width(const struct canvas *c)
{
    char label[FORMAT_MAX];
    size_t width = c->plot->marks_title ? strlen(c->plot->marks_title) : 0;

    for (int row = 0; row < c->rows; row++) {
        row_label(c, row, label, sizeof(label));
        if (strlen(label) > width)
            width = strlen(label);
    }
    return width < MAX_LABEL ? (int)width : MAX_LABEL;
}

/* Trailing blanks are cut: a line that somebody pastes stays as it was. */
static void
put_curve_row(const struct canvas *c, FILE *f, int row)
{
    int end = c->columns;

    for (; end > 0; end--) {
        bool any = false;
        for (int y = 0; y < c->sub_y; y++)
            for (int x = 0; x < c->sub_x; x++)
                any = any ||
                      is_set(c, (end - 1) * c->sub_x + x, row * c->sub_y + y);
        if (any)
            break;
    }
    for (int column = 0; column < end; column++)
        put_cell(c, f, column, row);
    putc('\n', f);
}

static void
put_x_axis(const struct canvas *c, FILE *f, int indent)
{
    char from[FORMAT_MAX], to[FORMAT_MAX];
    bool utf8 = c->style->utf8;

    fprintf(f, "%*s %s", indent, "", utf8 ? "\xe2\x94\x94" : "+");
    for (int i = 0; i < c->columns; i++)
        fputs(utf8 ? "\xe2\x94\x80" : "-", f);
    snprintf(from, sizeof(from), "%.10g", c->x_min);
    snprintf(to, sizeof(to), "%.10g", c->x_max);
    const char *title = c->plot->x_title;
    int room = c->columns - (int)(strlen(from) + strlen(to) + strlen(title));
    if (room < 2) { /* too narrow for the title */
        room += (int)strlen(title);
        title = "";
    }
    int left = room / 2 > 0 ? room / 2 : 1;
    int right = room - left > 0 ? room - left : 0;
    fprintf(f, "\n%*s %s%*s%s%*s%s\n", indent + 1, "", from, left, "", title,
            right, "", to);
}

static void
put_marks(const struct canvas *c, FILE *f, int indent)
{
    int end = 0;
    bool *marked;

    if (c->plot->marks_title == NULL || c->plot->n_marks == 0)
        return;
    marked = calloc((size_t)c->columns, sizeof(*marked));
    if (marked == NULL)
        return; /* the curve is worth showing all the same */
    for (int i = 0; i < c->plot->n_marks; i++) {
        double x = c->plot->marks[i];
        if (!(x >= c->x_min && x <= c->x_max))
            continue;
        int column = dot_x(c, x) / c->sub_x;
        marked[column] = true;
        end = column + 1 > end ? column + 1 : end;
    }
    fprintf(f, "%*.*s  %s", indent, MAX_LABEL, c->plot->marks_title,
            c->style->color ? "\033[31m" : "");
    for (int i = 0; i < end; i++)
        fputs(!marked[i] ? " " : c->style->utf8 ? "\xe2\x96\xb2" : "^", f);
    fprintf(f, "%s\n", c->style->color ? "\033[0m" : "");
    free(marked);
}

static void
put_plot(const struct canvas *c, FILE *f, int indent)
{
    char label[FORMAT_MAX];

    fprintf(f, "%s%s\n", c->plot->title,
            c->axis == LOG10 ? " (logarithmic)" : "");
    for (int row = 0; row < c->rows; row++) {
        row_label(c, row, label, sizeof(label));
        fprintf(f, "%*.*s %s", indent, MAX_LABEL, label,
                c->style->utf8 ? "\xe2\x94\x82" : "|");
        put_curve_row(c, f, row);
    }
    put_x_axis(c, f, indent);
    put_marks(c, f, indent);
}

static bool
init_canvas(struct canvas *c, int *indent)
{
    c->rows = c->style->height;
    c->sub_x = c->style->utf8 ? 2 : 1;
    c->sub_y = c->style->utf8 ? 4 : 1;
    *indent = label_width(c);
    c->columns = c->style->width - *indent - 2;
    if (c->columns < MIN_COLUMNS)
        c->columns = MIN_COLUMNS;
    c->dots_x = c->columns * c->sub_x;
    c->dots_y = c->rows * c->sub_y;
    c->dot = calloc((size_t)c->dots_x, (size_t)c->dots_y);
    return c->dot != NULL;
}

char *
plot_render(const struct plot *plot, const struct plot_style *style)
{
    struct canvas c = {.plot = plot, .style = style};
    char *text = NULL;
    size_t len = 0;
    int indent = 0;
    FILE *f = open_memstream(&text, &len);

    assert(style->height >= 2);
    if (f == NULL)
        return NULL;
    if (!find_ranges(&c)) {
        fprintf(f, "%s: nothing to draw yet\n", plot->title);
    } else if (init_canvas(&c, &indent)) {
        draw_curve(&c);
        put_plot(&c, f, indent);
    }
    free(c.dot);
    if (fclose(f) != 0 || len == 0) {
        free(text);
        text = NULL;
    }
    return text;
}
