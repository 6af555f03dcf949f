/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bar: the progress line of a running job.
 *
 * bar_format() is pure text. struct bar shows it: redrawn in place on a
 * terminal, a plain line every few seconds elsewhere. The clock is the
 * caller's. Lines of the caller's own go out between bar_clear() and the next
 * bar_update().
 */
#ifndef CTL_BAR_H
#define CTL_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BAR_MAX       1024 /* bytes, enough for any width */
#define BAR_PLAIN_MS  5000 /* between plain lines */
#define BAR_REDRAW_MS 50   /* between redraws */

struct bar_state {
    const char *state; /* the job's, borrowed for the call */
    int64_t iteration, updates, skips, total_iterations;
    double loss, scale, iterations_per_s, eta_s;
};

/* One line of at most `width` columns, no line feed. What does not fit is left
 * out, the least wanted first. */
void bar_format(const struct bar_state *state, int width, bool utf8, char *out,
                size_t n);

struct bar {
    FILE *f; /* borrowed */
    bool tty, utf8;
    bool shown;      /* a line stands on the terminal */
    int64_t last_ms; /* when something was last written, -1 = never */
};

void bar_init(struct bar *bar, FILE *f, bool tty, bool utf8);
/* Shows the state, if it is time; always when `now` is to be the last word. */
void bar_update(struct bar *bar, const struct bar_state *state, int width,
                int64_t now_ms, bool force);
void bar_clear(struct bar *bar);

#endif
