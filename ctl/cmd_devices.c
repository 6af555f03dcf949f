/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/session.h"

static int
run_devices(struct session *s, struct err *err)
{
    struct view_none none;

    view_init(VIEW_ID_none, &none);
    return session_list(s, MESSAGE_ID_devices, &none, &layout_devices, err);
}

const struct cmd cmd_devices = {
    .name = "devices",
    .synopsis = "",
    .doc = "what jobs run on, and which job has it now",
    .run = run_devices,
};
