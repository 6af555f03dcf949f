/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/command.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG_MAX 2048

#define HANDLER_CONTROL(name) command_##name
#define HANDLER_ORDER(name)   NULL
#define HANDLER_REPORT(name)  NULL
static command_fn *const handlers[MESSAGE_ID_COUNT] = {
#define MESSAGE(name, number, flow, right, request, reply, shape, doc)         \
    HANDLER_##flow(name),
#include "proto/messages.def"
#undef MESSAGE
};

void
command_refuse(struct request *request, int code, const char *fmt, ...)
{
    char text[ERR_SENTENCE_MAX];
    struct err err;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(&err, code, "%s", text);
    request_refuse(request, &err, NULL);
}

/* The store answers even while the daemon is taken apart; what a command would
 * change is gone by then. */
bool
command_is_over(const struct daemon *d, struct request *request)
{
    if (d->control != NULL)
        return false;
    request_drop(request);
    return true;
}

/* ---- which job ------------------------------------------------------------*/

enum ref_kind { REF_NUMBER, REF_MINE, REF_NAME, REF_INCIDENT };
struct ref {
    enum ref_kind kind;
    int64_t number;
    int64_t incident; /* that led to the number */
    const char *name; /* borrowed from the request */
};

struct lookup {
    struct daemon *d;
    struct request *request;
    struct ref ref;
};

/* The request's field `job`, wherever the view has it. */
static const char *
job_field(const struct request *request)
{
    const struct view_desc *view =
        &view_table[message_table[request->message].request];

    for (int i = 0; i < view->n_fields; i++)
        if (strcmp(view->fields[i].name, "job") == 0)
            return *(const char *const *)(const void *)((const char *)&request
                                                            ->args +
                                                        view->fields[i].offset);
    assert(!"a verb for owners names a job");
    return "";
}

static int
parse_ref(const char *text, struct ref *ref, struct err *err)
{
    char *end;

    if (strcmp(text, "@") == 0) {
        ref->kind = REF_MINE;
        return 0;
    }
    if (strncmp(text, "name:", 5) == 0 && text[5] != '\0') {
        ref->kind = REF_NAME;
        ref->name = text + 5;
        return 0;
    }
    errno = 0;
    ref->kind = REF_NUMBER;
    ref->number = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return err_set(err, ERR_USAGE,
                       "\"%.60s\" names no job: a number, @ (your last) or "
                       "name:NAME",
                       text);
    return 0;
}

static void
refuse_missing(struct request *request, const struct ref *ref)
{
    switch (ref->kind) {
    case REF_NUMBER:
        command_refuse(request, ERR_NOTFOUND, "there is no job %" PRId64,
                       ref->number);
        break;
    case REF_INCIDENT:
        command_refuse(request, ERR_NOTFOUND, "there is no incident %" PRId64,
                       ref->incident);
        break;
    case REF_MINE:
        command_refuse(request, ERR_NOTFOUND, "you have no job yet");
        break;
    case REF_NAME:
        command_refuse(request, ERR_NOTFOUND,
                       "you have no job named \"%.100s\"", ref->name);
        break;
    }
}

static void
call_handler(struct daemon *d, struct request *request, const struct ref *ref,
             const struct command_target *target)
{
    enum auth_role role = auth_role(&request->peer, target->view.uid);

    switch (auth_decide(request->message, role, d->conf.control_visibility)) {
    case AUTH_ALLOW: handlers[request->message](d, request, target); break;
    case AUTH_DENY:
        command_refuse(request, ERR_DENIED, "job %" PRId64 " belongs to %.60s",
                       target->id, target->view.user);
        break;
    case AUTH_HIDE: refuse_missing(request, ref); break;
    }
}

static void
use_live(struct daemon *d, struct request *request, const struct ref *ref,
         struct job *job)
{
    struct command_target target = {.id = job->row.view.id, .live = job};

    job_view(job, &target.view);
    call_handler(d, request, ref, &target);
}

static void
on_found(void *ctx, int rc, const void *items, int n, bool more,
         const struct err *err)
{
    struct lookup *l = ctx;
    const struct store_job *row = items;
    struct request *request = l->request;
    struct job *job;

    (void)more;
    if (command_is_over(l->d, request)) {
        free(l);
        return;
    }
    if (rc != 0) {
        request_refuse(request, err, NULL);
    } else if (n == 0) {
        refuse_missing(request, &l->ref);
    } else if ((job = jobs_find(&l->d->jobs, row->view.id)) != NULL) {
        use_live(l->d, request, &l->ref, job);
    } else {
        struct command_target target = {.id = row->view.id, .view = row->view};

        call_handler(l->d, request, &l->ref, &target);
    }
    free(l);
}

static void
look_up_ref(struct daemon *d, struct request *request, struct ref ref)
{
    struct lookup *l;
    struct job *job;

    job = ref.number > 0 ? jobs_find(&d->jobs, ref.number) : NULL;
    if (job != NULL) {
        use_live(d, request, &ref, job);
        return;
    }
    l = calloc(1, sizeof(*l));
    assert(l != NULL);
    l->d = d;
    l->request = request;
    l->ref = ref;
    if (ref.kind == REF_NUMBER || ref.kind == REF_INCIDENT)
        store_find_job(d->store, ref.number, on_found, l);
    else
        store_find_latest(d->store, request->peer.uid, ref.name, on_found, l);
}

/* An incident is its job's. */
static void
on_incident_job(void *ctx, int rc, const void *items, int n, bool more,
                const struct err *err)
{
    struct lookup *l = ctx;
    struct daemon *d = l->d;
    struct request *request = l->request;
    const struct view_incident *incident = items;

    (void)more;
    free(l);
    if (command_is_over(d, request))
        return;
    if (rc != 0)
        request_refuse(request, err, NULL);
    else if (n == 0)
        command_refuse(request, ERR_NOTFOUND, "there is no incident %" PRId64,
                       request->args.incident_ref.incident);
    else
        look_up_ref(d, request,
                    (struct ref){.kind = REF_INCIDENT,
                                 .number = incident->job,
                                 .incident = incident->id});
}

static void
look_up(struct daemon *d, struct request *request)
{
    struct ref ref = {0};
    struct err err;

    if (message_table[request->message].request == VIEW_ID_incident_ref) {
        struct lookup *l = calloc(1, sizeof(*l));

        assert(l != NULL);
        l->d = d;
        l->request = request;
        store_find_incident(d->store, request->args.incident_ref.incident,
                            on_incident_job, l);
    } else if (parse_ref(job_field(request), &ref, &err) != 0) {
        request_refuse(request, &err, NULL);
    } else {
        look_up_ref(d, request, ref);
    }
}

/* ---- dispatch -------------------------------------------------------------*/

void
command_handle(struct daemon *d, struct request *request)
{
    const struct message *message = &message_table[request->message];
    struct err err;

    err_clear(&err);
    if (codec_read(request->doc, 0, message->request, &request->args, &err) !=
        0)
        request_refuse(request, &err, NULL);
    else
        command_run(d, request);
}

void
command_run(struct daemon *d, struct request *request)
{
    const struct message *message = &message_table[request->message];

    assert(handlers[request->message] != NULL);
    /* A client may ask and go, and ask again: what it asked for is still
     * done, so the line must have an end. */
    if (store_backlog(d->store) >= BACKLOG_MAX && !request->peer.admin) {
        command_refuse(request, ERR_AGAIN,
                       "%d questions wait for the database already",
                       BACKLOG_MAX);
        return;
    }
    if (message->right == MESSAGE_ADMIN && !request->peer.admin)
        command_refuse(request, ERR_DENIED,
                       "%s is for administrators of this traind",
                       message->name);
    else if (message->right == MESSAGE_ANY || message->right == MESSAGE_ADMIN)
        handlers[request->message](d, request, NULL);
    else
        look_up(d, request);
}
