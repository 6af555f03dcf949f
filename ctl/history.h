/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history: what the verbs that show a job's history have in common.
 *
 * The options --from, --to, --all-lines, --csv and the query made of them.
 */
#ifndef CTL_HISTORY_H
#define CTL_HISTORY_H

#include "ctl/session.h"

#define HISTORY_OPTIONS                                                        \
    {"from", 0, "N", "from iteration N on"},                                   \
        {"to", 0, "N", "up to iteration N"},                                   \
        {"all-lines", 0, NULL, "what a rollback left behind too"},             \
    {                                                                          \
        "csv", 0, NULL, "comma-separated with a heading, all fields"           \
    }

/* Fills the query from the arguments; *ref is malloc'd and what it borrows.
 * Switches the output for --csv. */
int history_query(struct session *s, struct view_query *query, char **ref,
                  struct err *err);
/* The whole of a verb that lists one message's records; `none` is said when
 * there are none. */
int history_list(struct session *s, enum message_id message,
                 const struct output_layout *layout, const char *none,
                 struct err *err);

#endif
