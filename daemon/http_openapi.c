/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/http_openapi.h"

#include <ctype.h>
#include <string.h>

#include "daemon/http_route.h"
#include "proto/text.h"

/* ---- schemas --------------------------------------------------------------*/

static const char *
schema_of(enum view_field_type type)
{
    switch (type) {
    case VIEW_I64: return "\"type\":\"integer\",\"format\":\"int64\"";
    case VIEW_F64:
        return "\"anyOf\":[{\"type\":\"number\"},{\"enum\":[\"NaN\","
               "\"Infinity\",\"-Infinity\"]}]";
    case VIEW_BOOL: return "\"type\":\"boolean\"";
    case VIEW_STR: return "\"type\":\"string\"";
    case VIEW_I64S:
        return "\"type\":\"array\",\"items\":{\"type\":\"integer\",\"format\":"
               "\"int64\"}";
    case VIEW_STRS: return "\"type\":\"array\",\"items\":{\"type\":\"string\"}";
    }
    return "";
}

static void
put_field(struct text *t, const struct view_field *f)
{
    text_json_string(t, f->name);
    text_puts(t, ":{");
    text_puts(t, schema_of(f->type));
    text_puts(t, ",\"description\":");
    text_json_string(t, f->doc);
    text_putc(t, '}');
}

/* request: without the field that the path fills, and nothing else allowed;
 * a reply may get further fields in a later version. */
static void
put_object(struct text *t, enum view_id id, bool request, const char *without)
{
    const struct view_desc *view = &view_table[id];
    bool first = true;

    text_puts(t, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < view->n_fields; i++) {
        if (strcmp(view->fields[i].name, without) == 0)
            continue;
        text_puts(t, first ? "" : ",");
        put_field(t, &view->fields[i]);
        first = false;
    }
    text_puts(t, request ? "},\"additionalProperties\":false}" : "}}");
}

static void
put_schemas(struct text *t)
{
    bool used[VIEW_ID_COUNT] = {false};

    for (int i = 0; i < http_n_routes; i++)
        if (http_routes[i].give == NULL)
            used[message_table[http_routes[i].message].reply] = true;
    used[VIEW_ID_event] = true;
    text_puts(t, "\"schemas\":{\"problem\":{\"type\":\"object\",\"required\":["
                 "\"type\",\"title\",\"status\",\"detail\",\"error\"],"
                 "\"properties\":{\"type\":{\"type\":\"string\"},\"title\":{"
                 "\"type\":\"string\"},\"status\":{\"type\":\"integer\"},"
                 "\"detail\":{\"type\":\"string\"},\"error\":{\"type\":"
                 "\"string\"},\"errors\":{\"type\":\"array\",\"items\":{"
                 "\"type\":\"object\",\"properties\":{\"path\":{\"type\":"
                 "\"string\"},\"line\":{\"type\":\"integer\"},\"column\":{"
                 "\"type\":\"integer\"},\"message\":{\"type\":\"string\"}}}}"
                 "}}");
    for (int i = 0; i < VIEW_ID_COUNT; i++)
        if (used[i]) {
            text_putc(t, ',');
            text_json_string(t, view_table[i].name);
            text_putc(t, ':');
            put_object(t, (enum view_id)i, false, "");
        }
    text_putc(t, '}');
}

/* ---- operations -----------------------------------------------------------*/

static void
put_ref(struct text *t, const char *view)
{
    text_puts(t, "{\"$ref\":\"#/components/schemas/");
    text_puts(t, view);
    text_puts(t, "\"}");
}

static void
put_content(struct text *t, const char *view, bool many)
{
    text_puts(t, "\"content\":{\"application/json\":{\"schema\":");
    if (many)
        text_puts(t, "{\"type\":\"object\",\"required\":[\"items\",\"more\"],"
                     "\"properties\":{\"more\":{\"type\":\"boolean\"},"
                     "\"items\":{\"type\":\"array\",\"items\":");
    put_ref(t, view);
    text_puts(t, many ? "}}}}}" : "}}");
}

static void
put_response(struct text *t, const char *status, const char *doc,
             const char *view, bool many)
{
    text_json_string(t, status);
    text_puts(t, ":{\"description\":");
    text_json_string(t, doc);
    if (view != NULL) {
        text_putc(t, ',');
        put_content(t, view, many);
    }
    text_puts(t, "},");
}

static void
put_plain(struct text *t, const char *status, const char *type)
{
    text_json_string(t, status);
    text_puts(t, ":{\"description\":\"done\",\"content\":{");
    text_json_string(t, type);
    text_puts(t, ":{}}},");
}

static void
put_give_responses(struct text *t, const struct http_route *r)
{
    if (r->give == http_give_events) {
        put_response(t, "200",
                     "a page; a stream with Accept: "
                     "text/event-stream",
                     "event", true);
    } else if (r->give == http_give_logs) {
        put_plain(t, "200", "text/plain");
        put_plain(t, "206", "text/plain");
    } else if (r->give == http_give_exposition) {
        text_puts(t, "\"200\":{\"description\":\"by Accept\",\"content\":{"
                     "\"text/plain\":{},"
                     "\"application/openmetrics-text\":{}}},");
    } else if (r->give == http_give_whoami || r->give == http_give_openapi) {
        put_plain(t, "200", "application/json");
    } else {
        put_plain(t, "200", "text/plain");
        if (r->give == http_give_ready)
            put_plain(t, "503", "text/plain");
    }
}

static void
put_responses(struct text *t, const struct http_route *r)
{
    text_puts(t, "\"responses\":{");
    if (r->give != NULL) {
        put_give_responses(t, r);
    } else {
        const struct message *m = &message_table[r->message];

        put_response(t, r->message == MESSAGE_ID_submit ? "201" : "200", m->doc,
                     view_table[m->reply].name, m->shape == MESSAGE_MANY);
        if (m->shape == MESSAGE_LATER)
            put_response(t, "202", "still under way: the job as it is", "job",
                         false);
    }
    if (strcmp(r->method, "GET") == 0)
        put_response(t, "304", "what the caller has is still true", NULL,
                     false);
    text_puts(t, "\"default\":{\"description\":\"a problem\",\"content\":{"
                 "\"application/problem+json\":{\"schema\":");
    put_ref(t, "problem");
    text_puts(t, "}}}}");
}

static void
put_parameter(struct text *t, bool *first, const char *name, const char *in,
              const char *schema, const char *doc)
{
    text_puts(t, *first ? "{\"name\":" : ",{\"name\":");
    *first = false;
    text_json_string(t, name);
    text_puts(t, ",\"in\":");
    text_json_string(t, in);
    text_puts(t, strcmp(in, "path") == 0 ? ",\"required\":true,\"schema\":{"
                                         : ",\"schema\":{");
    text_puts(t, schema);
    text_puts(t, "},\"description\":");
    text_json_string(t, doc);
    text_putc(t, '}');
}

static const char number[] =
    "\"type\":\"integer\",\"format\":\"int64\",\"minimum\":1";
static const char job[] =
    "\"type\":\"string\",\"pattern\":"
    "\"^([0-9]{1,18}|@|name:[^\\\\u0000-\\\\u001f\\\\u007f-\\\\u009f/]+)$\"";

static bool
is_spec(const struct http_route *r)
{
    return r->message == MESSAGE_ID_submit || r->message == MESSAGE_ID_validate;
}

static void
put_message_parameters(struct text *t, const struct http_route *r, bool *first)
{
    const struct message *m = &message_table[r->message];
    const struct view_desc *view = &view_table[m->request];

    for (int i = 0; i < view->n_fields; i++) {
        const struct view_field *f = &view->fields[i];

        if (strcmp(f->name, r->field) == 0)
            put_parameter(t, first, "id", "path",
                          f->type == VIEW_I64 ? number : job, f->doc);
        else if (strcmp(r->method, "GET") == 0 && f->type != VIEW_STRS)
            put_parameter(t, first, f->name, "query", schema_of(f->type),
                          f->doc);
    }
    if (r->message == MESSAGE_ID_submit) {
        put_parameter(t, first, "priority", "query", schema_of(VIEW_I64),
                      "higher runs first");
        put_parameter(t, first, "Idempotency-Key", "header",
                      "\"type\":\"string\",\"maxLength\":200",
                      "a second submit with it returns the same job");
    }
    if (m->shape == MESSAGE_LATER)
        put_parameter(t, first,
                      r->message == MESSAGE_ID_wait ? "timeout" : "wait",
                      "query",
                      "\"type\":\"integer\",\"minimum\":0,\"maximum\":"
                      "600",
                      "seconds; then a 202, default 20");
}

static void
put_give_parameters(struct text *t, const struct http_route *r, bool *first)
{
    static const char count[] = "\"type\":\"integer\",\"minimum\":0";

    if (r->give == http_give_events) {
        put_parameter(t, first, "after", "query", count, "events after this");
        put_parameter(t, first, "job", "query", count, "of one job; 0 = all");
        put_parameter(t, first, "limit", "query",
                      "\"type\":\"integer\",\"minimum\":0,\"maximum\":1000",
                      "at most so many");
        put_parameter(t, first, "latest", "query", "\"type\":\"boolean\"",
                      "the last so many, not the first");
        put_parameter(t, first, "wait", "query",
                      "\"type\":\"integer\",\"minimum\":0,\"maximum\":60",
                      "seconds to wait for one");
    } else if (r->give == http_give_logs) {
        put_parameter(t, first, "id", "path", job, "number, @ or name:NAME");
        put_parameter(t, first, "attempt", "query", number,
                      "default: the latest");
        put_parameter(t, first, "tail", "query", number, "last lines only");
        put_parameter(t, first, "stream", "query",
                      "\"enum\":[\"stdout\",\"stderr\"]", "default stdout");
    }
}

static void
put_body(struct text *t, const struct http_route *r)
{
    if (strcmp(r->method, "POST") != 0 && strcmp(r->method, "PATCH") != 0)
        return;
    text_puts(t, "\"requestBody\":{\"required\":");
    text_puts(t, is_spec(r) ? "true" : "false");
    text_puts(t, ",\"content\":{\"application/json\":{\"schema\":");
    if (r->message == MESSAGE_ID_validate)
        text_puts(t, "{}"); /* faults are its answer */
    else if (is_spec(r))
        text_puts(t, "{\"type\":\"object\",\"required\":[\"data\",\"model\","
                     "\"loss\",\"optimizer\"]}");
    else
        put_object(t, message_table[r->message].request, true, r->field);
    text_puts(t, "}}},");
}

static void
put_operation(struct text *t, const struct http_route *r)
{
    bool first = true;
    char method[8];
    size_t n = strlen(r->method);

    for (size_t i = 0; i <= n; i++)
        method[i] = (char)tolower((unsigned char)r->method[i]);
    text_json_string(t, method);
    text_puts(t, ":{\"summary\":");
    text_json_string(t, r->doc);
    text_puts(t, ",\"parameters\":[");
    if (r->give != NULL)
        put_give_parameters(t, r, &first);
    else
        put_message_parameters(t, r, &first);
    text_puts(t, "],");
    put_body(t, r);
    put_responses(t, r);
    text_puts(t, r->scope == 0 ? ",\"security\":[]}" : "}");
}

static bool
is_first_of_path(int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(http_routes[k].pattern, http_routes[i].pattern) == 0)
            return false;
    return true;
}

static void
put_path(struct text *t, int i)
{
    bool first = true;

    text_json_string(t, http_routes[i].pattern);
    text_puts(t, ":{");
    for (int k = i; k < http_n_routes; k++)
        if (strcmp(http_routes[k].pattern, http_routes[i].pattern) == 0) {
            text_puts(t, first ? "" : ",");
            put_operation(t, &http_routes[k]);
            first = false;
        }
    text_putc(t, '}');
}

char *
http_openapi_write(size_t *len)
{
    struct text t = {0};
    bool first = true;

    text_puts(&t, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"traind\","
                  "\"version\":");
    text_json_string(&t, TRAIND_VERSION);
    text_puts(&t, ",\"license\":{\"name\":\"Apache-2.0\",\"identifier\":"
                  "\"Apache-2.0\"}},\"security\":[{\"token\":[]}],\"paths\":{");
    for (int i = 0; i < http_n_routes; i++)
        if (is_first_of_path(i)) {
            text_puts(&t, first ? "" : ",");
            put_path(&t, i);
            first = false;
        }
    text_puts(&t, "},\"components\":{\"securitySchemes\":{\"token\":{\"type\":"
                  "\"http\",\"scheme\":\"bearer\"}},");
    put_schemas(&t);
    text_puts(&t, "}}");
    return text_take(&t, len);
}
