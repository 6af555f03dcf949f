/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main: program traind, from its arguments to its exit status.
 *
 * Puts the parts together in an order that matters: configuration, lock,
 * socket (bound but closed), database, jobs, reconciliation, and only then
 * clients, the queue and READY=1. Takes them apart in the reverse order.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/command.h"
#include "daemon/control.h"
#include "daemon/flow.h"
#include "daemon/http_api.h"
#include "daemon/jobdir.h"
#include "daemon/lock.h"
#include "daemon/metrics.h"
#include "daemon/options.h"
#include "daemon/reap.h"
#include "daemon/reconcile.h"
#include "daemon/room.h"
#include "daemon/shutdown.h"
#include "daemon/tokens.h"

#define WANTED_NOFILE 65536
#define BALLAST_BYTES (32 * 1024 * 1024)

/* What main.c alone needs besides the daemon. */
struct boot {
    struct daemon d;
    struct options options;
    struct listen listen;
    struct listen http; /* fd -1: no Unix socket for HTTP */
    int lock_fd;
    struct shutdown *shutdown; /* owned */
    struct view_hello hello;
    uv_timer_t watchdog;
    struct err err; /* why it went down again while starting */
};

static struct boot *
boot_of(struct daemon *d)
{
    return (struct boot *)(void *)((char *)d - offsetof(struct boot, d));
}

/* ---- before anything ------------------------------------------------------*/

static void
prepare_process(void)
{
    struct rlimit files;

    umask(0077);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        files.rlim_cur < WANTED_NOFILE) {
        files.rlim_cur =
            files.rlim_max < WANTED_NOFILE ? files.rlim_max : WANTED_NOFILE;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            log_warn("limit of open files");
    }
    reap_adopt_orphans();
}

static int
print_conf(const struct conf *conf)
{
    char line[CONF_STR_MAX + 64];

    for (int i = 0; conf_describe(conf, i, line, sizeof(line)); i++)
        printf("%s\n", line);
    return fflush(stdout) == 0 ? 0 : err_exit_code(ERR_IO);
}

/* ---- clients --------------------------------------------------------------*/

static void
on_request(void *ctx, struct request *request)
{
    command_handle(ctx, request);
}

static void
on_credit(void *ctx, struct session *session, int64_t id, int64_t n)
{
    struct daemon *d = ctx;

    subscribe_credit(&d->subscribe, session, id, n);
}

static void
on_answered(void *ctx, enum message_id message, int code)
{
    struct daemon *d = ctx;

    metrics_ctl_request(d->metrics, message, code);
}

static int
open_control(struct boot *b, struct err *err)
{
    struct daemon *d = &b->d;
    const struct session_hooks hooks = {on_request, on_credit, on_answered,
                                        NULL, d};
    struct control_options o = {
        .session = {.loop = d->loop,
                    .max_message = (size_t)d->conf.control_max_message,
                    .idle_timeout_ms = d->conf.control_idle_timeout,
                    .request_timeout_ms = d->conf.control_request_timeout,
                    .hello = &b->hello},
        .max_clients = (int)d->conf.control_max_clients,
        .admin_group = d->conf.control_admin_group};

    view_init(VIEW_ID_hello, &b->hello);
    b->hello.hello = "traind";
    b->hello.proto_min = MESSAGE_PROTO_MIN;
    b->hello.proto_max = MESSAGE_PROTO_MAX;
    b->hello.version = TRAIND_VERSION;
    b->hello.state_dir = d->state_dir;
    b->hello.database = d->db_path;
    return control_open(&o, &b->listen, &hooks, &d->control, err);
}

/* ---- figures --------------------------------------------------------------*/

/* For a scrape: what others hold anyway. */
static void
look(void *ctx, struct metrics_live *out)
{
    const struct daemon *d = ctx;

    out->jobs = &d->jobs;
    out->db_backlog = store_backlog(d->store);
    if (d->control != NULL)
        out->ctl_clients = control_clients(d->control);
    if (d->http != NULL)
        out->http_connections = http_api_connections(d->http);
    out->events_dropped = d->subscribe.dropped;
    out->free_bytes = room_free_bytes(d->room);
    out->size_bytes = room_size_bytes(d->room);
}

static void
on_count(void *ctx, const char *state, int64_t n)
{
    struct daemon *d = ctx;

    metrics_jobs_found(d->metrics, job_state_parse(state), n);
}

/* ---- watchdog -------------------------------------------------------------*/

static void
on_pong(void *ctx, int rc, int64_t id, const struct err *err)
{
    struct daemon *d = ctx;

    (void)id;
    d->background--;
    if (rc == 0)
        notify_send(&d->notify, "WATCHDOG=1");
    else
        log_errx("watchdog: database: %s", err->msg);
}

/* Through the store's thread: a daemon with a stuck database is not alive. */
static void
on_watchdog(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    d->background++;
    store_ping(d->store, on_pong, d);
}

/* ---- going down -----------------------------------------------------------*/

static void
close_store(void *ctx, int rc, const void *items, int n, bool more,
            const struct err *err)
{
    struct daemon *d = ctx;

    (void)rc;
    (void)items;
    (void)n;
    (void)more;
    (void)err;
    store_close(&d->store);
}

/* Everything is settled: let go of it, clients first. */
static void
take_apart(struct daemon *d)
{
    struct boot *b = boot_of(d);
    struct view_list none;

    http_api_close(&d->http);
    listen_remove(&b->http);
    waiters_fini(&d->waiters);
    subscribe_fini(&d->subscribe);
    if (d->control != NULL)
        control_close(&d->control);
    else
        listen_remove(&b->listen);
    if (supervisor_count(d->supervisor) == 0)
        supervisor_destroy(&d->supervisor);
    room_close(&d->room);
    tokens_close(&d->tokens);
    ledger_destroy(&d->ledger);
    uv_close((uv_handle_t *)&d->schedule, NULL);
    uv_close((uv_handle_t *)&b->watchdog, NULL);
    shutdown_destroy(&b->shutdown);
    /* Behind every answer that is still on its way: after it none comes. */
    view_init(VIEW_ID_list, &none);
    none.limit = 1;
    store_list_jobs(d->store, -1, &none, close_store, d);
}

static void
on_down(struct daemon *d)
{
    if (supervisor_count(d->supervisor) > 0) {
        /* Workers that cannot be waited for: leave everything to the kernel
         * and to the next start. */
        log_errx("leaving at once");
        listen_remove(&boot_of(d)->listen);
        listen_remove(&boot_of(d)->http);
        _exit(err_exit_code(ERR_IO));
    }
    take_apart(d);
}

/* ---- coming up ------------------------------------------------------------*/

static void
on_reconciled(struct daemon *d)
{
    struct boot *b = boot_of(d);

    if (d->draining)
        return; /* asked to go before it came */
    if (http_api_open(d, &b->http, &d->http, &b->err) != 0 ||
        open_control(b, &b->err) != 0) {
        take_apart(d);
        return;
    }
    d->ready = true;
    log_info("ready: version %s, state %s, socket %s, %d jobs", TRAIND_VERSION,
             d->state_dir, b->listen.path, d->jobs.n);
    notify_send(&d->notify, "READY=1\nSTATUS=%d jobs", d->jobs.n);
    if (d->notify.watchdog_ms > 0)
        uv_timer_start(&b->watchdog, on_watchdog,
                       (uint64_t)d->notify.watchdog_ms,
                       (uint64_t)d->notify.watchdog_ms);
    flow_schedule_soon(d);
}

static int
find_programs(struct boot *b, struct err *err)
{
    struct daemon *d = &b->d;
    int rc = options_find_program("traind-exec", d->exec_path,
                                  sizeof(d->exec_path), err);

    if (rc != 0)
        return rc;
    if (b->options.worker == NULL)
        return options_find_program("traind-worker", d->worker_path,
                                    sizeof(d->worker_path), err);
    if (realpath(b->options.worker, d->worker_path) == NULL ||
        access(d->worker_path, X_OK) != 0)
        return err_set(err, ERR_CONFIG, "%s: no program", b->options.worker);
    return 0;
}

static int
open_socket(struct boot *b, struct err *err)
{
    const struct conf *conf = &b->d.conf;
    const struct listen_options o = {.path = conf->control_socket,
                                     .mode = (mode_t)conf->control_mode,
                                     .group = conf->control_group};
    int rc = listen_inherit(&b->listen, err);

    if (rc != 0 || b->listen.fd >= 0)
        return rc;
    rc = options_prepare_socket_dir(&b->options, conf, err);
    if (rc != 0)
        return rc;
    return listen_open(&o, &b->listen, err);
}

/* The other socket, for those who speak HTTP. */
static int
open_http_socket(struct boot *b, struct err *err)
{
    const struct conf *conf = &b->d.conf;
    const struct listen_options o = {.path = conf->http_socket,
                                     .mode = (mode_t)conf->control_mode,
                                     .group = conf->control_group};

    if (o.path[0] == '\0' || strcmp(o.path, "off") == 0)
        return 0;
    return listen_open(&o, &b->http, err);
}

static int
open_state(struct boot *b, struct err *err)
{
    struct daemon *d = &b->d;
    struct store_options o = {
        .path = d->db_path,
        .commit_interval_ms = d->conf.db_commit_interval,
        .keep_metrics = d->conf.metrics_keep,
        .ballast_bytes = BALLAST_BYTES,
        .allow_network_fs = d->conf.db_allow_network_fs,
        .watch = {metrics_db_commit, metrics_db_error, d->metrics}};
    int rc;

    snprintf(d->state_dir, sizeof(d->state_dir), "%s",
             d->conf.daemon_state_dir);
    snprintf(d->db_path, sizeof(d->db_path), "%s/traind.db", d->state_dir);
    rc = jobdir_init(d->state_dir, d->system && geteuid() == 0, err);
    if (rc == 0)
        rc = lock_acquire(d->state_dir, &b->lock_fd, err);
    if (rc == 0)
        rc = open_socket(b, err);
    if (rc == 0)
        rc = open_http_socket(b, err);
    if (rc == 0)
        rc = store_open(&o, d->loop, &d->store, err);
    if (rc == 0 && store_warning(d->store)[0] != '\0')
        log_warnx("%s", store_warning(d->store));
    return rc;
}

static int
make_parts(struct boot *b, struct err *err)
{
    struct daemon *d = &b->d;
    struct ledger_hooks ledger_hooks = flow_ledger_hooks;
    struct supervisor_hooks hooks = flow_supervisor_hooks;
    struct supervisor_options o = {
        .loop = d->loop,
        .store = d->store,
        .exec_path = d->exec_path,
        .worker_path = d->worker_path,
        .boot_id = d->boot_id,
        .stop_grace_ms = d->conf.daemon_shutdown_grace,
        .kill_grace_ms = d->conf.jobs_kill_grace,
        .heartbeat_timeout_ms = d->conf.jobs_heartbeat_timeout,
        .log_piece_bytes = d->conf.logs_per_job_max / (d->conf.logs_rotate + 1),
        .log_pieces = (int)d->conf.logs_rotate};

    ledger_hooks.ctx = hooks.ctx = d;
    procfs_boot_id(d->boot_id);
    device_init(&d->devices, (int)d->conf.device_cpu,
                (int)d->conf.device_threads);
    d->start_ms = (int64_t)uv_now(d->loop);
    d->ledger = ledger_create(d->loop, d->store, &ledger_hooks);
    d->supervisor = supervisor_create(&o, &hooks);
    b->shutdown = shutdown_create(d, on_down);
    d->room = room_open(d->loop, d->state_dir);
    if (d->ledger == NULL || d->supervisor == NULL || b->shutdown == NULL ||
        d->room == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    d->tokens = tokens_open(d->store, err);
    if (d->tokens == NULL)
        return err->code;
    flow_init(d);
    subscribe_init(&d->subscribe, d->loop);
    uv_timer_init(d->loop, &b->watchdog);
    b->watchdog.data = d;
    if (store_count_final(d->store, on_count, d, err) != 0)
        return err->code;
    return reconcile_load(d, err);
}

static int
start(struct boot *b, struct err *err)
{
    struct daemon *d = &b->d;
    const struct metrics_options figures = {.look = look, .ctx = d};
    int rc;

    d->loop = uv_default_loop();
    d->system = b->options.system;
    notify_open(&d->notify);
    d->metrics = metrics_create(&figures);
    if (d->metrics == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    rc = find_programs(b, err);
    if (rc == 0)
        rc = open_state(b, err);
    if (rc == 0)
        rc = make_parts(b, err);
    return rc;
}

static int
run(struct boot *b)
{
    struct daemon *d = &b->d;
    struct err err;
    int rc;

    b->lock_fd = -1;
    b->listen.fd = b->http.fd = -1;
    err_clear(&err);
    prepare_process();
    rc = start(b, &err);
    if (rc != 0) {
        log_errx("%s", err.msg);
        notify_send(&d->notify, "STATUS=%s\nERRNO=1", err.msg);
        if (b->listen.fd >= 0)
            listen_remove(&b->listen);
        if (b->http.fd >= 0)
            listen_remove(&b->http);
        /* Nothing has begun; the kernel takes the rest apart. */
        return err_exit_code(rc);
    }
    reconcile_start(d, on_reconciled);
    uv_run(d->loop, UV_RUN_DEFAULT);
    jobs_fini(&d->jobs);
    metrics_destroy(&d->metrics);
    lock_release(&b->lock_fd);
    notify_close(&d->notify);
    rc = uv_loop_close(d->loop);
    assert(rc == 0);
    if (b->err.code != 0)
        log_errx("%s", b->err.msg);
    else
        log_info("down");
    return err_exit_code(b->err.code);
}

int
main(int argc, char **argv)
{
    static struct boot boot; /* large, and alive as long as the process */
    struct err err;
    int rc;

    log_open();
    rc = options_parse(argc, argv, &boot.options, &err);
    if (rc != 0) {
        fprintf(stderr, "traind: %s\n%s", err.msg, options_usage);
        return err_exit_code(rc);
    }
    if (boot.options.action == OPTIONS_HELP)
        return fputs(options_usage, stdout) < 0;
    if (boot.options.action == OPTIONS_VERSION)
        return printf("traind %s\n", TRAIND_VERSION) < 0;
    rc = options_load_conf(&boot.options, &boot.d.conf, &err);
    if (rc != 0) {
        log_errx("%s", err.msg);
        return err_exit_code(rc);
    }
    log_set_level(boot.d.conf.logs_level);
    if (boot.options.action == OPTIONS_CHECK_CONFIG)
        return print_conf(&boot.d.conf);
    return run(&boot);
}
