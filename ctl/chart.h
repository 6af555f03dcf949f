/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chart: a job's history as plots on the terminal.
 *
 * Asks the daemon for just as many points as there are dots and lets plot.c
 * draw them. Text output only.
 */
#ifndef CTL_CHART_H
#define CTL_CHART_H

#include "ctl/session.h"

/* The training loss over the iterations of the query; job for where it stands.
 */
int chart_put_loss(struct session *s, const struct view_query *query,
                   const struct view_job *job, struct err *err);
/* The loss scale in powers of two, skips marked. */
int chart_put_scale(struct session *s, const struct view_query *query,
                    const struct view_job *job, struct err *err);

#endif
