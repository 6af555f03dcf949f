/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "ctl/cmd.h"
#include "ctl/session.h"

#define EXIT_FINDINGS 1

static int
check_store(struct session *s, struct err *err)
{
    struct view_none none;

    view_init(VIEW_ID_none, &none);
    const int rc =
        session_list(s, MESSAGE_ID_fsck, &none, &layout_findings, err);
    if (rc < 0)
        return rc;
    if (s->out.n_rows == 0) {
        session_say(s, "the store is consistent");
        return 0;
    }
    session_say(s, "%" PRId64 " findings", s->out.n_rows);
    return EXIT_FINDINGS;
}

static int
run_admin(struct session *s, struct err *err)
{
    const char *what = args_at(s->args, 0);

    if (strcmp(what, "fsck") == 0)
        return check_store(s, err);
    return err_set(err, ERR_USAGE, "admin %.60s: there is fsck", what);
}

const struct cmd cmd_admin = {
    .name = "admin",
    .synopsis = "fsck",
    .doc = "for administrators: check every promise about the database's rows",
    .detail = "fsck asks the running daemon's database for rows that "
              "contradict each other and lists them. It exits with 0 when "
              "there are none and with 1 otherwise.",
    .min_args = 1,
    .max_args = 1,
    .run = run_admin,
};
