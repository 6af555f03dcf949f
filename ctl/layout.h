/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout: which columns a person sees of each kind of record.
 *
 * Tables only; the machine forms (json, parsable, csv) show every field of the
 * view and need none of this.
 */
#ifndef CTL_LAYOUT_H
#define CTL_LAYOUT_H

#include "ctl/output.h"

extern const struct output_layout layout_jobs, layout_attempts, layout_metrics,
    layout_scale, layout_skips, layout_incidents, layout_checkpoints,
    layout_faults, layout_notices, layout_evaluations, layout_guards,
    layout_findings, layout_rollbacks, layout_events, layout_devices,
    layout_tokens;

/* "43% 1005/2345", "17", or "" when it never began. */
void layout_put_progress(const struct view_job *job, char *cell, size_t n);

#endif
