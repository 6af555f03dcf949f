/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "ctl/cmd.h"
#include "ctl/session.h"
#include "proto/codec.h"

static int
put_json(struct session *s, const struct view_hello *hello, struct err *err)
{
    char *daemon = NULL;
    size_t len = 0;

    if (hello != NULL) {
        daemon = codec_write_view(VIEW_ID_hello, hello, 0, &len);
        if (daemon == NULL)
            return err_set(err, ERR_NOMEM, "out of memory");
    }
    fprintf(s->out.f,
            "{\"version\": \"%s\", \"proto_min\": %d, \"proto_max\": "
            "%d, \"daemon\": %s}\n",
            TRAIND_VERSION, MESSAGE_PROTO_MIN, MESSAGE_PROTO_MAX,
            daemon != NULL ? daemon : "null");
    free(daemon);
    return 0;
}

/* Works without a daemon, but says so. */
static int
run_version(struct session *s, struct err *err)
{
    const struct view_hello *hello = NULL;
    int rc = session_link(s, err);

    if (rc == 0)
        hello = client_hello(link_client(s->link));
    else if (rc != ERR_UNREACHABLE && rc != ERR_DENIED)
        return rc;
    else
        session_say(s, "%s", err->msg);
    if (s->out.ops == &output_json)
        return put_json(s, hello, err);
    if (s->out.ops == &output_parsable) {
        session_tell(s, "%s|%d|%d|%s", TRAIND_VERSION, MESSAGE_PROTO_MIN,
                     MESSAGE_PROTO_MAX, hello != NULL ? hello->version : "");
        return 0;
    }
    session_tell(s, "trainctl %s, protocol %d to %d", TRAIND_VERSION,
                 MESSAGE_PROTO_MIN, MESSAGE_PROTO_MAX);
    if (hello != NULL)
        session_tell(s, "traind %s, protocol %lld to %lld, %s, state in %s",
                     hello->version, (long long)hello->proto_min,
                     (long long)hello->proto_max, link_path(s->link),
                     hello->state_dir);
    return 0;
}

const struct cmd cmd_version = {
    .name = "version",
    .synopsis = "",
    .doc = "versions of client, daemon and protocol",
    .run = run_version,
};
