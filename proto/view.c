/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/view.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A macro cannot learn which view it is expanded for, so each view hands its
 * name on with one line here; a view without its line does not compile. */
#define FIELD(view, type, name, doc)                                           \
    {#name, VIEW_##type, offsetof(struct view_##view, name), doc},
#define F_hello(type, name, doc)        FIELD(hello, type, name, doc)
#define F_job_ref(type, name, doc)      FIELD(job_ref, type, name, doc)
#define F_submit(type, name, doc)       FIELD(submit, type, name, doc)
#define F_validate(type, name, doc)     FIELD(validate, type, name, doc)
#define F_fault(type, name, doc)        FIELD(fault, type, name, doc)
#define F_list(type, name, doc)         FIELD(list, type, name, doc)
#define F_job(type, name, doc)          FIELD(job, type, name, doc)
#define F_query(type, name, doc)        FIELD(query, type, name, doc)
#define F_metric(type, name, doc)       FIELD(metric, type, name, doc)
#define F_scale(type, name, doc)        FIELD(scale, type, name, doc)
#define F_incident(type, name, doc)     FIELD(incident, type, name, doc)
#define F_checkpoint(type, name, doc)   FIELD(checkpoint, type, name, doc)
#define F_evaluation(type, name, doc)   FIELD(evaluation, type, name, doc)
#define F_attempt(type, name, doc)      FIELD(attempt, type, name, doc)
#define F_rollback(type, name, doc)     FIELD(rollback, type, name, doc)
#define F_rolled_back(type, name, doc)  FIELD(rolled_back, type, name, doc)
#define F_cancel(type, name, doc)       FIELD(cancel, type, name, doc)
#define F_wait(type, name, doc)         FIELD(wait, type, name, doc)
#define F_follow(type, name, doc)       FIELD(follow, type, name, doc)
#define F_notice(type, name, doc)       FIELD(notice, type, name, doc)
#define F_paths(type, name, doc)        FIELD(paths, type, name, doc)
#define F_sample(type, name, doc)       FIELD(sample, type, name, doc)
#define F_incident_ref(type, name, doc) FIELD(incident_ref, type, name, doc)
#define F_guard(type, name, doc)        FIELD(guard, type, name, doc)
#define F_went_back(type, name, doc)    FIELD(went_back, type, name, doc)
#define F_finding(type, name, doc)      FIELD(finding, type, name, doc)
#define F_range(type, name, doc)        FIELD(range, type, name, doc)
#define F_replay(type, name, doc)       FIELD(replay, type, name, doc)
#define F_events_query(type, name, doc) FIELD(events_query, type, name, doc)
#define F_event(type, name, doc)        FIELD(event, type, name, doc)
#define F_token_new(type, name, doc)    FIELD(token_new, type, name, doc)
#define F_token_ref(type, name, doc)    FIELD(token_ref, type, name, doc)
#define F_token(type, name, doc)        FIELD(token, type, name, doc)
#define F_priority(type, name, doc)     FIELD(priority, type, name, doc)
#define F_device(type, name, doc)       FIELD(device, type, name, doc)
#define F_pong(type, name, doc)         FIELD(pong, type, name, doc)
#define F_start(type, name, doc)        FIELD(start, type, name, doc)
#define F_order(type, name, doc)        FIELD(order, type, name, doc)
#define F_checkin(type, name, doc)      FIELD(checkin, type, name, doc)
#define F_beat(type, name, doc)         FIELD(beat, type, name, doc)

#define END                                                                    \
    {                                                                          \
        NULL, VIEW_I64, 0, NULL                                                \
    }
#define VIEW_FIELDS(view)                                                      \
    static const struct view_field fields_##view[] = {VIEW_##view(F_##view)    \
                                                          END};
VIEW_LIST(VIEW_FIELDS)

#define VIEW_ROW(view)                                                         \
    {#view, fields_##view,                                                     \
     (int)(sizeof(fields_##view) / sizeof(fields_##view[0])) - 1,              \
     sizeof(struct view_##view)},
const struct view_desc view_table[VIEW_ID_COUNT] = {VIEW_LIST(VIEW_ROW)};

void
view_init(enum view_id id, void *view)
{
    const struct view_desc *desc = &view_table[id];

    assert((int)id >= 0 && id < VIEW_ID_COUNT);
    memset(view, 0, desc->size_bytes);
    for (int i = 0; i < desc->n_fields; i++) {
        const struct view_field *f = &desc->fields[i];
        char *at = (char *)view + f->offset;

        switch (f->type) {
        case VIEW_F64: *(double *)at = (double)NAN; break;
        case VIEW_STR: *(const char **)at = ""; break;
        case VIEW_I64:
        case VIEW_BOOL:
        case VIEW_I64S:
        case VIEW_STRS: break; /* zero already */
        }
    }
}
