/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/bar.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ctl/format.h"

#define MIN_BAR 10
#define MAX_BAR 40

enum part {
    PART_PERCENT,
    PART_ITERATIONS,
    PART_UPDATES,
    PART_SKIPS,
    PART_LOSS,
    PART_SCALE,
    PART_SPEED,
    PART_ETA,
    PART_COUNT
};

/* The least wanted first. */
static const enum part droppable[] = {PART_UPDATES,   PART_SPEED, PART_SCALE,
                                      PART_SKIPS,     PART_LOSS,  PART_ETA,
                                      PART_ITERATIONS};

struct parts {
    char text[PART_COUNT][FORMAT_MAX];
};

static double
share_done(const struct bar_state *s)
{
    if (s->total_iterations <= 0)
        return 0;
    double share = (double)s->iteration / (double)s->total_iterations;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* Of steady width, so that the bar beside it does not dance. */
static void
write_loss(double loss, char *out, size_t n)
{
    if (fabs(loss) >= 0.001 && fabs(loss) < 1000)
        snprintf(out, n, "%.4f", loss);
    else
        format_real(loss, out, n);
}

static void
write_parts(const struct bar_state *s, struct parts *p)
{
    char number[FORMAT_MAX];
    int digits = snprintf(NULL, 0, "%" PRId64, s->total_iterations);

    memset(p, 0, sizeof(*p));
    if (s->total_iterations > 0) {
        /* 100% is said when it is true, not when it rounds to it. */
        snprintf(p->text[PART_PERCENT], FORMAT_MAX, "%3d%%",
                 (int)floor(share_done(s) * 100));
        snprintf(p->text[PART_ITERATIONS], FORMAT_MAX,
                 "%*" PRId64 "/%" PRId64 " it", digits, s->iteration,
                 s->total_iterations);
    } else {
        snprintf(p->text[PART_ITERATIONS], FORMAT_MAX, "%" PRId64 " it",
                 s->iteration);
    }
    snprintf(p->text[PART_UPDATES], FORMAT_MAX, "%*" PRId64 " updates", digits,
             s->updates);
    snprintf(p->text[PART_SKIPS], FORMAT_MAX, "%" PRId64 " skip%s", s->skips,
             s->skips == 1 ? "" : "s");
    if (!isnan(s->loss)) {
        write_loss(s->loss, number, 16);
        snprintf(p->text[PART_LOSS], FORMAT_MAX, "loss %.16s", number);
    }
    if (!isnan(s->scale)) {
        format_scale(s->scale, number, 16);
        snprintf(p->text[PART_SCALE], FORMAT_MAX, "scale %.16s", number);
    }
    if (isfinite(s->iterations_per_s) && s->iterations_per_s > 0)
        snprintf(p->text[PART_SPEED], FORMAT_MAX, "%.1f it/s",
                 s->iterations_per_s);
    if (isfinite(s->eta_s) && s->eta_s > 0) {
        format_duration(s->eta_s, number, 24);
        snprintf(p->text[PART_ETA], FORMAT_MAX, "ETA %.24s", number);
    }
}

/* Columns that the parts take, two blanks between them. */
static int
parts_width(const struct parts *p)
{
    int width = 0;

    for (int i = 0; i < PART_COUNT; i++)
        if (p->text[i][0] != '\0')
            width += (int)strlen(p->text[i]) + (width > 0 ? 2 : 0);
    return width;
}

static size_t
put_bar(char *out, size_t n, double share, int columns, bool utf8)
{
    /* Eighths of a column: U+2588 full, U+258F one eighth. */
    int eighths = (int)floor(share * columns * 8), used = 0;
    size_t len = 0;

    assert((size_t)columns * 3 + 3 < n);
    out[len++] = '[';
    for (; used < eighths / 8; used++)
        len += (size_t)snprintf(out + len, n - len, "%s",
                                utf8 ? "\xe2\x96\x88" : "#");
    if (utf8 && eighths % 8 > 0 && used < columns) {
        len += (size_t)snprintf(out + len, n - len, "\xe2\x96%c",
                                0x90 - eighths % 8);
        used++;
    }
    for (; used < columns; used++)
        out[len++] = ' ';
    out[len++] = ']';
    out[len] = '\0';
    return len;
}

void
bar_format(const struct bar_state *state, int width, bool utf8, char *out,
           size_t n)
{
    struct parts p;
    size_t len = 0;
    int bar = 0, state_width = 0;

    assert(n >= BAR_MAX);
    write_parts(state, &p);
    if (strcmp(state->state, "running") != 0 && state->state[0] != '\0') {
        len = (size_t)snprintf(out, n, "%.24s  ", state->state);
        state_width = (int)len;
    }
    /* "[bar]  " beside the percentage, then the parts. */
    int wanted = state->total_iterations > 0 ? MIN_BAR + 4 : 0;
    for (size_t d = 0; d < sizeof(droppable) / sizeof(droppable[0]) &&
                       parts_width(&p) + wanted + state_width > width;
         d++)
        p.text[droppable[d]][0] = '\0';
    if (wanted > 0) {
        bar = width - parts_width(&p) - 4 - state_width;
        bar = bar > MAX_BAR ? MAX_BAR : bar;
    }
    bool first = true;
    out[len] = '\0';
    for (int i = 0; i < PART_COUNT; i++) {
        if (p.text[i][0] == '\0')
            continue;
        len += (size_t)snprintf(out + len, n - len, "%s%s", first ? "" : "  ",
                                p.text[i]);
        first = false;
        if (i == PART_PERCENT && bar >= MIN_BAR) {
            out[len++] = ' ';
            len += put_bar(out + len, n - len, share_done(state), bar, utf8);
        }
    }
}

void
bar_init(struct bar *bar, FILE *f, bool tty, bool utf8)
{
    *bar = (struct bar){.f = f, .tty = tty, .utf8 = utf8, .last_ms = -1};
}

void
bar_update(struct bar *bar, const struct bar_state *state, int width,
           int64_t now_ms, bool force)
{
    char line[BAR_MAX];
    int64_t pause_ms = bar->tty ? BAR_REDRAW_MS : BAR_PLAIN_MS;

    if (!force && bar->last_ms >= 0 && now_ms - bar->last_ms < pause_ms &&
        (!bar->tty || bar->shown))
        return;
    /* The last column stays free: some terminals wrap when it is written. */
    bar_format(state, bar->tty ? width - 1 : 200, bar->utf8, line,
               sizeof(line));
    if (bar->tty)
        fprintf(bar->f, "\r%s\033[K", line);
    else
        fprintf(bar->f, "%s\n", line);
    fflush(bar->f);
    bar->shown = bar->tty;
    bar->last_ms = now_ms;
}

void
bar_clear(struct bar *bar)
{
    if (!bar->shown)
        return;
    fputs("\r\033[K", bar->f);
    fflush(bar->f);
    bar->shown = false;
}
