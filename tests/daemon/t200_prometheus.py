#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What /metrics tells, against what the database and trainctl know."""
import contextlib
import math
import os
import signal
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from exposition import Scrape, promtool
from http_door import Http, HttpDaemon
from scenario import blobs, check, equal, main, mlp_spec, wait_for

OPEN = "application/openmetrics-text"
STATES = ("queued", "starting", "running", "stopping", "paused", "completed",
          "failed", "cancelled", "interrupted")


def lasting(s):
    """Figures that do not come and go with a job's last iteration."""
    return {key[0] for key in s.samples
            if not key[0].startswith("traind_job_")}


def scrape(h):
    """Both formats; they say the same of what stands still."""
    a = h.get("/metrics")
    equal(a.headers["Content-Type"],
          "text/plain; version=0.0.4; charset=utf-8", "the type")
    promtool("check", "metrics", text=a.body.decode())
    old = Scrape(a.body.decode())
    b = h.get("/metrics", Accept=OPEN + ";version=1.0.0,text/plain;q=0.5")
    equal(b.headers["Content-Type"],
          OPEN + "; version=1.0.0; charset=utf-8", "the type asked for")
    new = Scrape(b.body.decode(), openmetrics=True)
    equal(lasting(old) - lasting(new), set(), "only the older format has them")
    return new


def known(value):
    """As the exposition has it: what is no number has no line."""
    value = float(value) if value is not None else math.nan
    return None if math.isnan(value) else value


def one(d, query, *args):
    (value,), = d.sql(query, *args)
    return value or 0


def long_spec(d, **changes):
    blobs(d.dir)
    return mlp_spec(d.dir, **{"train": {"epochs": 100000}, **changes})


def by_state(d):
    rows = dict(d.sql("SELECT state, count(*) FROM job GROUP BY state"))
    return {(s,): rows.get(s, 0) for s in STATES}


def check_totals(d, s):
    """Totals of all jobs are what the tables hold."""
    for name, query in (
            ("updates", "SELECT count(*) FROM metric WHERE NOT skipped"),
            ("samples", "SELECT sum(samples) FROM metric"),
            ("scale_growths", "SELECT count(*) FROM scale_event WHERE"
             " cause = 'growth'"),
            ("scale_backoffs", "SELECT count(*) FROM scale_event WHERE"
             " cause = 'skip' AND after < before"),
            ("checkpoints", "SELECT count(*) FROM checkpoint"),
            ("jobs_submitted", "SELECT count(*) FROM job")):
        equal(s.get(f"traind_{name}_total"), one(d, query), name)
    verdicts = dict(d.sql("SELECT verdict, count(*) FROM incident"
                          " WHERE trigger = 'skip' GROUP BY verdict"))
    want = {(v or "none",): n for v, n in verdicts.items()}
    got = s.of("traind_updates_skipped_total")
    equal({k: n for k, n in got.items() if n}, want, "skips by verdict")
    equal(sum(got.values()), one(d, "SELECT count(*) FROM metric WHERE"
                                 " skipped"), "all skips")
    equal({k: n for k, n in s.of("traind_incidents_total").items() if n}, want,
          "incidents by verdict")


def nothing_has_happened():
    """a fresh daemon: every state at 0, no job's figures, nothing made up"""
    with HttpDaemon() as d:
        s = scrape(Http(d))
        equal(s.of("traind_jobs"), by_state(d), "jobs by state")
        equal([n for n in s.with_label("job")], [], "no jobs' figures")
        equal(set(s.of("traind_jobs_finished_total").values()), {0}, "ends")
        equal(s.get("traind_queue_oldest_age_seconds"), 0, "nobody waits")
        check(s.get("process_resident_memory_bytes") > 1e6, "memory")
        check(s.get("process_start_time_seconds") <=
              s.get("traind_start_time_seconds"), "born, then ready")
        wait_for("the file system to answer", lambda: scrape(Http(d)).get(
            "traind_state_dir_free_bytes"))


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def still(d, job):
    """A running job whose worker stands still, with all its events stored."""
    pid, = d.worker_pids(job)
    os.kill(pid, signal.SIGSTOP)
    wait_for("the worker to stand still", lambda: is_stopped(pid))
    attempt = d.status(job)["attempt"]
    events = os.path.join(d.job_dir(job), "attempts", str(attempt),
                          "events.jsonl")
    wait_for("its events to be stored", lambda: os.path.getsize(events) == one(
        d, "SELECT events_offset FROM attempt WHERE job = ? AND attempt = ?",
        job, attempt))
    d.ctl("scale", job)  # behind all that the database had to tell before
    return pid


def check_running(d, s, job):
    """Its figures are those of trainctl status and of the tables."""
    status, name = d.status(job), "traind_job_"
    for metric, want in (
            ("iteration", status["iteration"]),
            ("iterations_planned", status["total_iterations"]),
            ("loss", status["loss"]), ("learning_rate", status["lr"]),
            ("grad_norm", status["grad_norm"]),
            ("loss_scale", status["scale"]), ("loss_scale_floor", 1)):
        equal(s.get(name + metric, job=str(job)), known(want), metric)
    attempt = status["attempt"]
    for metric, query in (
            ("updates", "SELECT count(*) FROM metric WHERE NOT skipped AND"),
            ("updates_skipped", "SELECT count(*) FROM metric WHERE skipped"
             " AND"),
            ("samples", "SELECT sum(samples) FROM metric WHERE"),
            ("scale_growths", "SELECT count(*) FROM scale_event WHERE"
             " cause = 'growth' AND"),
            ("scale_backoffs", "SELECT count(*) FROM scale_event WHERE"
             " cause = 'skip' AND after < before AND")):
        equal(s.get(f"{name}{metric}_total", job=str(job)),
              one(d, query + " job = ? AND attempt = ?", job, attempt), metric)
    rows = dict(d.sql("SELECT verdict, count(*) FROM incident WHERE job = ?"
                      " AND attempt = ? GROUP BY verdict", job, attempt))
    equal({k[1]: n for k, n in s.of(name + "incidents_total").items() if n},
          {v or "none": n for v, n in rows.items()}, "incidents")
    equal(s.of(name + "info"), {(status["device"], str(job), status["name"],
                                 status["user"]): 1}, "info")


def figures_of_a_job_from_start_to_end():
    """before, during, after: as status and the database say, then gone"""
    with HttpDaemon() as d:
        h = Http(d)
        job = d.submit(long_spec(d, name='a "quoted" \\ näme'))
        d.wait_iteration(job, 60)
        pid = still(d, job)
        s = scrape(h)
        check(s.get("traind_job_updates_skipped_total", job=str(job)) > 0,
              "it has skipped")
        check_running(d, s, job)
        check_totals(d, s)
        equal(s.of("traind_jobs"), by_state(d), "jobs by state")
        now, start = s.get("traind_job_last_progress_timestamp_seconds",
                           job=str(job)), s.get("traind_start_time_seconds")
        check(start < now < start + 3600, "when it went on")
        os.kill(pid, signal.SIGCONT)
        d.ctl("cancel", job)
        d.wait_state(job, "cancelled")
        s = scrape(h)
        equal(s.with_label("job"), [], "no figure of it stays")
        equal(s.of("traind_jobs"), by_state(d), "jobs by state")
        check_totals(d, s)
        equal(s.get("traind_jobs_finished_total", result="cancelled"), 1, "end")
        equal(s.get("traind_job_run_seconds_count"), 1, "its time")
        equal(s.get("traind_job_queue_wait_seconds_count"), 1, "its wait")
        equal(s.get("traind_worker_starts_total"), 1, "workers")
        equal(s.get("traind_worker_exits_total", category="stopped"), 1, "end")


def attempts_count_from_their_own_start():
    """a rollback and a killed worker: totals go on, the job's begin again"""
    with HttpDaemon() as d:
        h = Http(d)
        # So many are kept that the one to go back to is.
        job = d.submit(long_spec(d, checkpoint={"every_updates": 10,
                                                "keep": 1000}))
        d.wait_iteration(job, 60)
        d.ctl("rollback", job, "--to", "last")
        wait_for("the next attempt", lambda: d.status(job)["attempt"] == 2 and
                 d.status(job)["state"] == "running")
        d.wait_iteration(job, d.status(job)["iteration"] + 10)
        still(d, job)
        s = scrape(h)
        check_running(d, s, job)
        check_totals(d, s)
        equal(s.of("traind_rollbacks_total"), {("guard",): 0, ("person",): 1},
              "rollbacks")
        check(s.get("traind_updates_total") >
              s.get("traind_job_updates_total", job=str(job)), "both attempts")
        d.kill_workers()
        wait_for("the third attempt", lambda: d.status(job)["attempt"] == 3 and
                 d.status(job)["state"] == "running")
        s = scrape(h)
        equal(s.get("traind_worker_exits_total", category="died"), 1, "killed")
        equal(s.get("traind_worker_starts_total"), 3, "workers")
        d.ctl("cancel", job)
        d.wait_state(job, "cancelled")


def a_restart_counts_anew():
    """counters begin at 0; what the database holds is still told"""
    with HttpDaemon() as d:
        job = d.submit(long_spec(d, train={"epochs": 2}))
        d.wait_state(job, "completed")
        waits = d.submit(long_spec(d))
        d.ctl("pause", waits)
        d.wait_state(waits, "paused")
        d.stop()
        d.start()
        s = scrape(Http(d))
        equal(s.of("traind_jobs"), by_state(d), "jobs by state")
        equal(s.get("traind_jobs", state="completed"), 1, "the one that ended")
        equal(s.get("traind_updates_total"), 0, "updates")
        equal(s.get("traind_jobs_submitted_total"), 0, "submitted")


def a_locked_database_keeps_no_scrape_waiting():
    """while nothing can be written figures are told, and why"""
    with HttpDaemon() as d:
        h = Http(d)
        job = d.submit(long_spec(d))
        d.wait_iteration(job, 20)
        with contextlib.closing(sqlite3.connect(d.db_path)) as db:
            db.isolation_level = None
            db.execute("BEGIN IMMEDIATE")
            wait_for("a call to wait",
                     lambda: scrape(h).get("traind_db_backlog"))
            wait_for("a call to be refused", lambda: scrape(h).get(
                "traind_db_errors_total", code="again"))
            db.execute("ROLLBACK")
        d.ctl("cancel", job)
        d.wait_state(job, "cancelled")
        s = scrape(h)
        check_totals(d, s)
        check(s.get("traind_db_size_bytes") >= 4096, "size")
        wait_for("the size of its log", lambda: scrape(h).get(
            "traind_db_wal_bytes") == os.path.getsize(d.db_path + "-wal"))


def announce_large_body(h):
    """Its length is enough to be refused."""
    c = h.connection()
    c.putrequest("POST", "/v1/jobs")
    c.putheader("Content-Length", "5000")
    c.endheaders()
    equal(c.getresponse().status, 413, "too large")
    c.close()


def those_who_ask_are_counted():
    """requests by pattern and by verb, never by what a client made up"""
    with HttpDaemon(http="max_body = 4KiB\n") as d:
        h = Http(d)
        announce_large_body(h)
        for path in ("/v1/jobs/1", "/v1/jobs/2", "/v1/jobs/x"):
            h.get(path, None)
        h.get("/nowhere", 404)
        h.ask("BREW", "/pot", None, None)
        d.try_ctl("status", "77")
        d.ctl("list")

        def counted():
            s = scrape(h)
            n = s.of("traind_http_requests_total")
            return s if n.get(("405", "other", "other")) or n.get(
                ("404", "other", "other")) else None
        s = wait_for("the last to be counted", counted)
        n = s.of("traind_http_requests_total")
        equal(n[("404", "/v1/jobs/{id}", "GET")], 2, "no such job")
        equal(n[("400", "/v1/jobs/{id}", "GET")], 1, "no job's name")
        equal(n[("404", "other", "GET")], 1, "no such path")
        equal(n[("413", "other", "POST")], 1, "a body too large")
        equal(s.get("traind_http_request_duration_seconds_count",
                    handler="/v1/jobs/{id}"), 3, "their times")
        equal(s.get("traind_ctl_requests_total", verb="status",
                    result="notfound"), 1, "refused")
        equal(s.get("traind_ctl_requests_total", verb="list", result="ok"), 1,
              "answered")
        check(s.get("traind_http_connections") >= 1, "this one")
        check(s.get("traind_db_commit_seconds_count") is not None, "commits")


def the_port_asks_for_a_token():
    """scope metrics is needed and enough; http.metrics_public opens it"""
    with HttpDaemon() as d:
        token = d.ctl("token", "create", "--scope", "metrics").strip()
        Http(d, "x").get("/metrics", 401)
        h = Http(d, token)
        h.get("/metrics")
        h.get("/v1/jobs", 403)
    with HttpDaemon(http="metrics_public = yes\n") as d:
        h = Http(d, "")
        h.get("/metrics")
        h.get("/v1/jobs", 401)


main(nothing_has_happened, figures_of_a_job_from_start_to_end,
     attempts_count_from_their_own_start, a_restart_counts_anew,
     a_locked_database_keeps_no_scrape_waiting,
     those_who_ask_are_counted, the_port_asks_for_a_token)
