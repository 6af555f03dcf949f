/* SPDX-License-Identifier: Apache-2.0 */
/* What no message has: health, figures, who one is, and the interface's own
 * description. */
#include "daemon/http_api.h"

#include <pwd.h>
#include <string.h>

#include "daemon/http_openapi.h"
#include "daemon/http_problem.h"
#include "daemon/metrics.h"
#include "proto/text.h"

static void
answer_word(struct http_exchange *x, int status, const char *word)
{
    http_answer_fixed(x, status, "text/plain; charset=utf-8", word,
                      strlen(word));
}

void
http_give_alive(const struct http_call *call)
{
    answer_word(call->x, 200, "ok\n");
}

void
http_give_ready(const struct http_call *call)
{
    bool ready = call->d->ready && !call->d->draining;

    answer_word(call->x, ready ? 200 : 503, ready ? "ok\n" : "not ready\n");
}

void
http_give_openapi(const struct http_call *call)
{
    size_t len = 0;
    char *text = http_openapi_write(&len);

    http_api_answer_json(call->x, 200, text, len);
}

/* Those who can read it ask for it by name. */
static bool
wants_openmetrics(const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");

    return accept != NULL &&
           strstr(accept, "application/openmetrics-text") != NULL;
}

void
http_give_exposition(const struct http_call *call)
{
    const bool open = wants_openmetrics(call->x);
    size_t len = 0;
    char *text =
        metrics_render(call->d->metrics,
                       open ? METRICS_OPENMETRICS : METRICS_PROMETHEUS, &len);

    http_add_header(call->x, "Cache-Control", "no-store");
    http_add_header(call->x, "Vary", "Accept");
    http_answer_take(call->x, 200,
                     open ? "application/openmetrics-text; version=1.0.0; "
                            "charset=utf-8"
                          : "text/plain; version=0.0.4; charset=utf-8",
                     text, len);
}

static void
put_scopes(struct text *t, unsigned scopes)
{
    bool first = true;

    for (unsigned scope = 1; scope <= SCOPE_ALL; scope *= 2)
        if ((scopes & scope) != 0) {
            text_puts(t, first ? "" : ",");
            text_json_string(t, auth_scope_name(scope));
            first = false;
        }
}

void
http_give_whoami(const struct http_call *call)
{
    struct passwd account, *found = NULL;
    char buf[4096], *body;
    struct text t = {0};
    size_t len;

    if (getpwuid_r(call->peer.uid, &account, buf, sizeof(buf), &found) != 0)
        found = NULL;
    text_puts(&t, "{\"uid\":");
    text_json_int(&t, call->peer.uid);
    text_puts(&t, ",\"user\":");
    text_json_string(&t, found != NULL ? found->pw_name : "");
    text_puts(&t, call->peer.admin ? ",\"admin\":true,\"scopes\":["
                                   : ",\"admin\":false,\"scopes\":[");
    put_scopes(&t, call->peer.scopes);
    text_puts(&t, "],\"version\":");
    text_json_string(&t, TRAIND_VERSION);
    text_putc(&t, '}');
    body = text_take(&t, &len);
    http_api_answer_json(call->x, 200, body, len);
}
