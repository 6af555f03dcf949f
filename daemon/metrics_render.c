/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that was counted, as one text, in the order of metrics.def. */
#include "daemon/metrics_private.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#include "daemon/procfs.h"

#define UNIT_NONE    ""
#define UNIT_SECONDS "seconds"
#define UNIT_BYTES   "bytes"
const struct exposition_family metrics_families[METRICS_ID_COUNT] = {
#define METRIC(id, type, unit, labels, name, help)                             \
    [METRICS_ID_##id] = {name, EXPOSITION_##type, UNIT_##unit, labels, help},
#include "daemon/metrics.def"
#undef METRIC
};

const char *
metrics_verdict_name(int verdict)
{
    return verdict == EVENT_VERDICT_NONE
               ? "none"
               : event_verdict_name((enum event_verdict)verdict);
}

/* ---- ways to put one ------------------------------------------------------*/

static void
put(struct exposition *e, enum metrics_id id, double value)
{
    exposition_put(e, &metrics_families[id], NULL, value);
}

static void
put_with(struct exposition *e, enum metrics_id id, const char *label,
         double value)
{
    exposition_put(e, &metrics_families[id], &label, value);
}

/* Below 0: unknown. */
static double
known(int64_t n)
{
    return n >= 0 ? (double)n : (double)NAN;
}

/* ---- parts ----------------------------------------------------------------*/

static void
render_process(const struct metrics *m, struct exposition *e)
{
    struct procfs_usage u;
    struct rlimit files;
    char protocol[16];

    procfs_own_usage(&u);
    put(e, METRICS_ID_cpu_seconds, u.cpu_seconds);
    put(e, METRICS_ID_open_fds, known(u.open_fds));
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        put(e, METRICS_ID_max_fds, (double)files.rlim_cur);
    put(e, METRICS_ID_virtual_memory, known(u.virtual_bytes));
    put(e, METRICS_ID_resident_memory, known(u.resident_bytes));
    put(e, METRICS_ID_process_start, (double)m->process_start_us / 1e6);
    snprintf(protocol, sizeof(protocol), "%d", MESSAGE_PROTO_MAX);
    exposition_put(e, &metrics_families[METRICS_ID_build],
                   (const char *const[]){TRAIND_VERSION, protocol}, 1);
    put(e, METRICS_ID_start, (double)m->start_us / 1e6);
}

static double
oldest_age(const struct metrics *m, const struct jobs *jobs)
{
    const int64_t now = metrics_now_us(m);
    int64_t oldest = now;

    for (int i = 0; jobs != NULL && i < jobs->n; i++)
        if (jobs->v[i]->stored == JOB_QUEUED && jobs->v[i]->queued_us < oldest)
            oldest = jobs->v[i]->queued_us;
    return (double)(now - oldest) / 1e6;
}

static void
render_states(const struct metrics *m, const struct metrics_live *live,
              struct exposition *e)
{
    for (int s = 0; s < JOB_STATE_COUNT; s++) {
        uint64_t n = m->final[s];

        if (!job_state_is_final((enum job_state)s) && live->jobs != NULL)
            n = (uint64_t)jobs_count(live->jobs, (enum job_state)s);
        put_with(e, METRICS_ID_jobs, job_state_name((enum job_state)s),
                 (double)n);
    }
}

static void
render_queue(const struct metrics *m, const struct metrics_live *live,
             struct exposition *e)
{
    render_states(m, live, e);
    put(e, METRICS_ID_jobs_submitted, (double)m->submitted);
    for (int s = 0; s < JOB_STATE_COUNT; s++)
        if (job_state_is_final((enum job_state)s))
            put_with(e, METRICS_ID_jobs_finished,
                     job_state_name((enum job_state)s), (double)m->finished[s]);
    exposition_put_histogram(e, &metrics_families[METRICS_ID_queue_wait], NULL,
                             &m->wait);
    exposition_put_histogram(e, &metrics_families[METRICS_ID_run], NULL,
                             &m->run);
    put(e, METRICS_ID_queue_oldest, oldest_age(m, live->jobs));
    put(e, METRICS_ID_worker_starts, (double)m->starts);
    for (int c = 0; c < OBITUARY_CATEGORY_COUNT; c++)
        put_with(e, METRICS_ID_worker_exits,
                 obituary_category_name((enum obituary_category)c),
                 (double)m->exits[c]);
}

static void
render_training(const struct metrics *m, struct exposition *e)
{
    put(e, METRICS_ID_updates, (double)m->updates);
    for (int v = 0; v < METRICS_VERDICTS; v++)
        put_with(e, METRICS_ID_updates_skipped, metrics_verdict_name(v),
                 (double)m->skipped[v]);
    put(e, METRICS_ID_samples, (double)m->samples);
    put(e, METRICS_ID_scale_growths, (double)m->growths);
    put(e, METRICS_ID_scale_backoffs, (double)m->backoffs);
    for (int v = 0; v < METRICS_VERDICTS; v++)
        put_with(e, METRICS_ID_incidents, metrics_verdict_name(v),
                 (double)m->incidents[v]);
    for (int a = 0; a < METRICS_ACTIONS; a++)
        put_with(e, METRICS_ID_guards_fired,
                 event_action_name((enum event_action)a), (double)m->guards[a]);
    put_with(e, METRICS_ID_rollbacks, "person", (double)m->rollbacks[0]);
    put_with(e, METRICS_ID_rollbacks, "guard", (double)m->rollbacks[1]);
    put(e, METRICS_ID_checkpoints, (double)m->checkpoints);
    put(e, METRICS_ID_checkpoint_failures, (double)m->failures);
}

static void
render_database(const struct metrics *m, const struct metrics_live *live,
                struct exposition *e)
{
    put(e, METRICS_ID_db_size, known(m->db_bytes));
    put(e, METRICS_ID_db_wal, known(m->wal_bytes));
    exposition_put_histogram(e, &metrics_families[METRICS_ID_db_commit], NULL,
                             &m->commit);
    for (int i = 0; store_troubles[i] != 0; i++)
        put_with(e, METRICS_ID_db_errors, err_name(store_troubles[i]),
                 (double)m->db_errors[-store_troubles[i]]);
    put(e, METRICS_ID_db_backlog, live->db_backlog);
    put(e, METRICS_ID_state_dir_free, known(live->free_bytes));
    put(e, METRICS_ID_state_dir_size, known(live->size_bytes));
}

static void
render_http(const struct metrics *m, struct exposition *e)
{
    for (int i = 0; i < m->n_kinds; i++) {
        const struct metrics_request_kind *k = &m->kinds[i];
        char code[16];

        snprintf(code, sizeof(code), "%d", k->status != 0 ? k->status : 499);
        exposition_put(e, &metrics_families[METRICS_ID_http_requests],
                       (const char *const[]){k->route, k->method, code},
                       (double)k->n);
    }
    for (int i = 0; i < m->n_routes; i++)
        exposition_put_histogram(
            e, &metrics_families[METRICS_ID_http_request_duration],
            &m->routes[i].route, &m->routes[i].seconds);
}

static void
render_ctl(const struct metrics *m, struct exposition *e)
{
    for (int i = 0; i < MESSAGE_ID_COUNT; i++)
        for (int code = 0; code < METRICS_ERRORS; code++)
            if (m->ctl[i][code] > 0)
                exposition_put(e, &metrics_families[METRICS_ID_ctl_requests],
                               (const char *const[]){message_table[i].name,
                                                     err_name(-code)},
                               (double)m->ctl[i][code]);
}

char *
metrics_render(struct metrics *m, enum metrics_format format, size_t *len)
{
    struct exposition e = {.openmetrics = format == METRICS_OPENMETRICS};
    struct metrics_live live = {.free_bytes = -1, .size_bytes = -1};

    m->o.look(m->o.ctx, &live);
    render_process(m, &e);
    render_queue(m, &live, &e);
    render_training(m, &e);
    metrics_job_render(m, &e);
    render_database(m, &live, &e);
    render_http(m, &e);
    put(&e, METRICS_ID_http_connections, live.http_connections);
    render_ctl(m, &e);
    put(&e, METRICS_ID_ctl_clients, live.ctl_clients);
    put(&e, METRICS_ID_events_dropped, (double)live.events_dropped);
    return exposition_take(&e, len);
}
