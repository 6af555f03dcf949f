/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_problem.h"

#include "proto/text.h"

#define TYPE        "application/problem+json"
#define RETRY_AFTER "5" /* seconds */

const char *
http_problem_title(int status)
{
    switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return "Internal Server Error";
    }
}

static void
put_faults(struct text *t, const struct spec_faults *faults)
{
    text_puts(t, ",\"errors\":[");
    for (int i = 0; i < faults->n; i++) {
        const struct spec_fault *f = &faults->list[i];

        text_puts(t, i > 0 ? ",{\"path\":" : "{\"path\":");
        text_json_string(t, f->path);
        text_puts(t, ",\"line\":");
        text_json_int(t, f->line);
        text_puts(t, ",\"column\":");
        text_json_int(t, f->col);
        text_puts(t, ",\"message\":");
        text_json_string(t, f->message);
        text_putc(t, '}');
    }
    text_putc(t, ']');
}

static void
answer(struct http_exchange *x, int status, int code, const char *sentence,
       const struct spec_faults *faults)
{
    struct text t = {0};
    size_t len;
    char *body;

    text_puts(&t, "{\"type\":\"about:blank\",\"title\":");
    text_json_string(&t, http_problem_title(status));
    text_puts(&t, ",\"status\":");
    text_json_int(&t, status);
    text_puts(&t, ",\"detail\":");
    text_json_string(&t, sentence);
    text_puts(&t, ",\"error\":");
    text_json_string(&t, err_name(code));
    if (faults != NULL && faults->n > 0)
        put_faults(&t, faults);
    text_putc(&t, '}');
    body = text_take(&t, &len);
    if (status == 503)
        http_add_header(x, "Retry-After", RETRY_AFTER);
    if (status == 401)
        http_add_header(x, "WWW-Authenticate", "Bearer realm=\"traind\"");
    http_answer_take(x, status, TYPE, body, len);
}

void
http_problem(struct http_exchange *x, const struct err *err,
             const struct spec_faults *faults)
{
    answer(x, err_http_status(err->code), err->code,
           err->msg[0] != '\0' ? err->msg : err_line(err->code), faults);
}

void
http_problem_status(struct http_exchange *x, int status, int code,
                    const char *sentence)
{
    answer(x, status, code, sentence, NULL);
}
