/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story: one incident as a person reads it, on one screen.
 *
 * What happened, where, when, through which samples; what was asked of it and
 * what the answers were; the verdict and the cure, ready to paste or to apply.
 * Pure: the record in, lines out.
 */
#ifndef CTL_STORY_H
#define CTL_STORY_H

#include "ctl/session.h"

void story_put_incident(const struct session *s,
                        const struct view_incident *incident);

/* What a verdict means, a sentence's part; "" for one that is not known. */
const char *story_meaning(const char *verdict);

#endif
