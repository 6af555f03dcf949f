/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/history.h"

#include <stdlib.h>

int
history_query(struct session *s, struct view_query *query, char **ref,
              struct err *err)
{
    int rc = session_one_ref(s, 0, ref, err);

    view_init(VIEW_ID_query, query);
    query->job = *ref;
    if (rc == 0)
        rc = args_i64(s->args, "from", 0, 0, INT64_MAX, &query->from, err);
    if (rc == 0)
        rc = args_i64(s->args, "to", 0, 0, INT64_MAX, &query->to, err);
    if (rc == 0 && query->to > 0 && query->to < query->from)
        rc = err_set(err, ERR_USAGE, "--to lies before --from");
    if (rc < 0)
        return rc;
    query->all_lines = args_flag(s->args, "all-lines");
    if (args_flag(s->args, "csv")) {
        if (!output_is_text(&s->out))
            return err_set(err, ERR_USAGE, "--csv and --%s exclude each other",
                           s->out.ops->name);
        s->out.ops = &output_csv;
    }
    return 0;
}

int
history_list(struct session *s, enum message_id message,
             const struct output_layout *layout, const char *none,
             struct err *err)
{
    struct view_query query;
    char *ref = NULL;
    int rc = history_query(s, &query, &ref, err);

    if (rc == 0)
        rc = session_list(s, message, &query, layout, err);
    if (rc == 0 && s->out.n_rows == 0)
        session_say(s, "%s", none);
    free(ref);
    return rc;
}
