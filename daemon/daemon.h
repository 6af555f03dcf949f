/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daemon: the one object of the process, and the names of its parts.
 *
 * Made by main.c; the modules that connect parts (flow, command_*, reconcile,
 * shutdown) take it, the parts themselves do not know it. Everything in it is
 * used on the loop's thread only.
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include "daemon/conf.h"
#include "daemon/device.h"
#include "daemon/jobs.h"
#include "daemon/notify.h"
#include "daemon/procfs.h"
#include "daemon/store.h"
#include "daemon/subscribe.h"
#include "daemon/waiters.h"

struct control;
struct http_api;
struct metrics;
struct room;
struct supervisor;
struct tokens;

#define DAEMON_PATH_MAX 1100

struct daemon {
    uv_loop_t *loop;
    struct conf conf;
    bool system; /* system paths and a service manager; else user mode */
    char state_dir[CONF_STR_MAX], db_path[DAEMON_PATH_MAX];
    char exec_path[DAEMON_PATH_MAX], worker_path[DAEMON_PATH_MAX];
    char boot_id[PROCFS_BOOT_ID_MAX];
    int64_t start_ms; /* uv_now() */
    struct notify notify;
    struct metrics *metrics; /* owned */
    struct room *room;       /* owned */
    struct store *store;     /* owned */
    struct ledger *ledger;   /* owned */
    struct jobs jobs;
    struct devices devices;
    struct supervisor *supervisor; /* owned */
    struct control *control;       /* owned; NULL before and after */
    struct tokens *tokens;         /* owned */
    struct http_api *http;         /* owned; NULL before and after */
    struct waiters waiters;
    struct subscribe subscribe;
    uv_timer_t schedule;
    bool ready;     /* reconciled: jobs may start */
    bool draining;  /* going down: none may */
    int background; /* store calls and work that a shutdown waits for */
};

#endif
