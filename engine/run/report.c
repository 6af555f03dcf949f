/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/report.h"

#include <math.h>

int
report_emit(const struct report *report, struct event *event, struct err *err)
{
    event->t_us = clock_wall_us(&report->clock);
    event->iteration = event->updates = event->skips = 0;
    if (report->state != NULL) {
        event->iteration = report->state->count.iteration;
        event->updates = report->state->count.updates;
        event->skips = report->state->count.skips;
    }
    return report->hooks.event(report->hooks.ctx, event, err);
}

int
report_warning_value(const struct report *report, const char *text,
                     double value, struct err *err)
{
    struct event e = {.kind = EVENT_WARNING};

    e.u.warning.text = text;
    e.u.warning.value = value;
    return report_emit(report, &e, err);
}

int
report_warning(const struct report *report, const char *text, struct err *err)
{
    return report_warning_value(report, text, (double)NAN, err);
}

int
report_sync(const struct report *report, struct err *err)
{
    return report->hooks.sync(report->hooks.ctx, err);
}

unsigned
report_orders(const struct report *report)
{
    return report->hooks.orders(report->hooks.ctx);
}
