/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cmd.h"
#include "ctl/format.h"
#include "ctl/session.h"
#include "proto/spec.h"

static int
run_explain_key(struct session *s, struct err *err)
{
    const char *key = args_at(s->args, 0);
    const char *doc = spec_explain_key(key);

    if (doc == NULL)
        return err_set(err, ERR_NOTFOUND, "a spec has no key \"%s\"", key);
    if (s->out.ops == &output_json) {
        fputs("{\"key\": ", s->out.f);
        format_put_json(s->out.f, key);
        fputs(", \"doc\": ", s->out.f);
        format_put_json(s->out.f, doc);
        fputs("}\n", s->out.f);
    } else if (s->out.ops == &output_parsable) {
        session_tell(s, "%s|%s", key, doc);
    } else {
        session_tell(s, "%s: %s", key, doc);
    }
    return 0;
}

const struct cmd cmd_explain_key = {
    .name = "explain-key",
    .synopsis = "KEY",
    .doc = "what a key of the spec means, as in amp.scaler.init_scale",
    .min_args = 1,
    .max_args = 1,
    .run = run_explain_key,
};
