#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that trainctl can ask, asked over HTTP: the same answers."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from http_door import Http, HttpDaemon
from scenario import (blobs, check, check_ledger, equal, main, mlp_spec,
                      wait_for)

HISTORIES = ("metrics", "scale", "skips", "incidents", "evaluations",
             "checkpoints", "guards", "rollbacks", "attempts")


def job_spec(d, **changes):
    blobs(d.dir)
    return mlp_spec(d.dir, **changes)


def long_spec(d):
    return job_spec(d, train={"epochs": 100000})


def a_job_from_submit_to_end():
    """submit, follow, read back: one job, all over HTTP"""
    with HttpDaemon() as d:
        h = Http(d)
        spec = json.dumps(job_spec(d))
        equal(h.post("/v1/validate", spec).json,
              {"items": [], "more": False}, "a good spec has no faults")
        a = h.post("/v1/jobs?priority=3", spec, 201, Idempotency_Key="once")
        job = a.json["id"]
        equal(a.headers["Location"], f"/v1/jobs/{job}", "where it is")
        equal(a.json["priority"], 3, "its priority")
        again = h.post("/v1/jobs", spec, 201, Idempotency_Key="once").json
        equal(again["id"], job, "the same key, the same job")
        end = h.get(f"/v1/jobs/{job}/wait?timeout=600").json
        equal(end["state"], "completed", end["reason"])
        equal(h.get(f"/v1/jobs/{job}").json, d.status(job), "status")
        equal([j["id"] for j in h.get("/v1/jobs?all=true").json["items"]],
              [job], "the list")
        for what in HISTORIES:
            page = h.get(f"/v1/jobs/{job}/{what}").json
            said = d.ask(what, job=str(job))
            equal(page["items"], said["items"], what)
            equal(page["more"], said.get("more", False), what)
        few = h.get(f"/v1/jobs/name:scenario/metrics?max_points=5").json
        check(0 < len(few["items"]) <= 5, "a thinned curve")
        equal(sum(m["n"] for m in few["items"]), end["iteration"],
              "it stands for every iteration")
        check_ledger(d, job)


def orders_are_carried_out():
    """pause, resume, checkpoint, rollback, cancel; and refusals"""
    with HttpDaemon() as d:
        h = Http(d)
        job = h.post("/v1/jobs", long_spec(d), 201).json["id"]
        d.wait_iteration(job, 30)
        c = h.post(f"/v1/jobs/{job}/checkpoint").json
        equal(c["cause"], "demand", "a checkpoint now")
        equal(h.post(f"/v1/jobs/{job}/pause").json["state"], "paused", "pause")
        h.post(f"/v1/jobs/{job}/pause")
        check(h.post(f"/v1/jobs/{job}/resume", {}).json["state"] in
              ("queued", "starting", "running"), "resume")
        d.wait_iteration(job, c["iteration"] + 5)
        dry = h.post(f"/v1/jobs/{job}/rollback",
                     {"to": "last", "dry_run": True}).json
        check(dry["iteration"] >= c["iteration"], "what would happen")
        equal(h.get(f"/v1/jobs/{job}/rollbacks").json["items"], [],
              "nothing has")
        a = h.post(f"/v1/jobs/{job}/rollback",
                   {"to": "last", "set": ["amp.dtype=bfloat16"]}, 409)
        check("accept" in a.json["detail"], a)
        back = h.post(f"/v1/jobs/{job}/rollback", {"to": "last"}).json
        check(back["iteration"] >= c["iteration"], "gone back")
        wait_for("the rollback to be written down", lambda: h.get(
            f"/v1/jobs/{job}/rollbacks").json["items"])
        equal(h.post(f"/v1/jobs/{job}/cancel",
                     {"reason": "seen enough"}).json["state"], "cancelled",
              "cancel")
        a = h.post(f"/v1/jobs/{job}/pause", None, 409)
        check("final state" in a.json["detail"], a)
        check_ledger(d, job)


def a_place_in_the_queue():
    """PATCH and trainctl priority: who runs first"""
    with HttpDaemon() as d:
        h = Http(d)
        first = h.post("/v1/jobs", long_spec(d), 201).json["id"]
        d.wait_iteration(first, 1)
        spec = job_spec(d, train={"epochs": 1})
        a, b, c = (h.post("/v1/jobs", spec, 201).json["id"] for _ in range(3))
        j = h.ask("PATCH", f"/v1/jobs/{c}", {"priority": 5}, 200).json
        equal((j["id"], j["priority"]), (c, 5), "the job as it is now")
        d.ctl("priority", a, "--", "-3")
        equal(d.sql("SELECT priority FROM job WHERE id IN (?, ?, ?)"
                    " ORDER BY id", a, b, c), [(-3,), (0,), (5,)], "written")
        h.ask("PATCH", f"/v1/jobs/{c}", {"priority": 1e9}, 400)
        h.ask("PATCH", f"/v1/jobs/{c}", {"priority": 10 ** 9}, 400)
        h.ask("PATCH", f"/v1/jobs/{c}", {"name": "x"}, 400)
        h.post(f"/v1/jobs/{first}/cancel")
        for job in (a, b, c):
            h.get(f"/v1/jobs/{job}/wait?timeout=600")
        equal([r[0] for r in d.sql("SELECT id FROM job WHERE id <> ?"
                                   " ORDER BY start_us", first)], [c, b, a],
              "the order they ran in")
        h.ask("PATCH", f"/v1/jobs/{c}", {"priority": 1}, 409)


def a_long_answer_is_promised():
    """an order that outlasts the caller's patience is a 202 and goes on"""
    with HttpDaemon() as d:
        h = Http(d)
        job = h.post("/v1/jobs", long_spec(d), 201).json["id"]
        d.wait_iteration(job, 5)
        a = h.get(f"/v1/jobs/{job}/wait?timeout=0", 202)
        equal(a.json["id"], job, "the job meanwhile")
        h.post(f"/v1/jobs/{job}/cancel?wait=0", None, None)
        d.wait_state(job, "cancelled")


def bad_questions_are_told():
    """wrong paths, methods, bodies, parameters: status and sentence"""
    with HttpDaemon() as d:
        h = Http(d)
        job = h.post("/v1/jobs", job_spec(d), 201).json["id"]
        for method, path, body, status, word in (
                ("GET", "/v1/jobs/77", None, 404, "no job 77"),
                ("GET", "/v1/jobs/x", None, 400, "names no job"),
                ("GET", "/v1/nowhere", None, 404, "no such path"),
                ("GET", "/v1/jobs/", None, 404, "no such path"),
                ("GET", "/v1/jobs?limit=many", None, 400, "limit"),
                ("GET", f"/v1/jobs/{job}/metrics?points=3", None, 400,
                 "max_points"),
                ("GET", f"/v1/jobs/{job}/cancel", None, 405, "method"),
                ("PUT", f"/v1/jobs/{job}", {}, 405, "method"),
                ("POST", "/v1/jobs", "{", 422, "fault"),
                ("POST", "/v1/jobs", None, 400, "body"),
                ("POST", f"/v1/jobs/{job}/cancel", "[1]", 400, "object"),
                ("POST", f"/v1/jobs/{job}/cancel", "{\"x\":1}", 400,
                 "reason"),
                ("POST", f"/v1/jobs/{job}/cancel", {"job": 5}, 400, "job"),
                ("GET", "/v1/incidents/9", None, 404, "no incident 9"),
                ("GET", "/v1/events?wait=9999", None, 400, "wait"),
                ("GET", f"/v1/jobs/{job}/logs?stream=x", None, 400,
                 "stdout")):
            a = h.ask(method, path, body, status)
            equal(a.headers["Content-Type"], "application/problem+json", path)
            check(word in a.json["detail"], f"{path}: {a}")
            equal(a.json["status"], status, path)
        a = h.ask("GET", f"/v1/jobs/{job}/cancel", None, 405)
        equal(a.headers["Allow"], "POST", "how it is asked")
        bad = job_spec(d, loss="cross_entrop")
        a = h.post("/v1/jobs", json.dumps(bad, indent=1), 422)
        (fault,) = [f for f in a.json["errors"] if f["path"] == "loss"]
        check(fault["line"] > 1 and "cross_entropy" in fault["message"], fault)
        relative = job_spec(d)
        relative["data"]["train"]["input"] = "x.npy"
        check("absolute" in h.post("/v1/jobs", relative, 422).json["detail"],
              "relative paths have no meaning here")


def pollers_get_304():
    """an unchanged answer is not sent again"""
    with HttpDaemon() as d:
        h = Http(d)
        job = h.post("/v1/jobs", job_spec(d), 201).json["id"]
        h.get(f"/v1/jobs/{job}/wait?timeout=600")
        for path in (f"/v1/jobs/{job}", f"/v1/jobs/{job}/metrics",
                     "/v1/openapi.json", "/"):
            a = h.get(path)
            b = h.get(path, 304, If_None_Match=a.headers["ETag"])
            equal(b.body, b"", path)
            h.get(path, 200, If_None_Match='"other"')


def logs_by_range_and_line():
    """what the worker printed, whole and in parts"""
    with HttpDaemon() as d:
        h = Http(d)
        job = h.post("/v1/jobs", job_spec(d), 201).json["id"]
        h.get(f"/v1/jobs/{job}/wait?timeout=600")
        path = os.path.join(d.job_dir(job), "attempts/1/stdout")
        with open(path, "ab") as f:
            f.write(b"".join(b"line %d\n" % i for i in range(1000)))
        with open(path, "rb") as f:
            want = f.read()
        url = f"/v1/jobs/{job}/logs"
        equal(h.get(url).body, want, "whole")
        equal(h.get(url + "?tail=3").body, b"line 997\nline 998\nline 999\n",
              "last lines")
        equal(h.get(url + "?tail=100000").body, want, "more than there are")
        a = h.get(url, 206, Range="bytes=5-9")
        equal((a.body, a.headers["Content-Range"]),
              (want[5:10], f"bytes 5-9/{len(want)}"), "a range")
        equal(h.get(url, 206, Range="bytes=-4").body, want[-4:], "its end")
        equal(h.get(url, 206, Range=f"bytes={len(want) - 2}-").body,
              want[-2:], "from there on")
        a = h.get(url, 416, Range=f"bytes={len(want)}-")
        equal(a.headers["Content-Range"], f"bytes */{len(want)}", "behind")
        h.get(url + "?attempt=2", 404)
        os.remove(path)
        os.symlink("/etc/passwd", path)
        check("root:" not in h.get(url, 500).body.decode(), "no link")
        os.remove(path)
        os.link(os.path.join(d.job_dir(job), "attempts/1/stderr"), path)
        h.get(url, 403)
        os.remove(path)
        os.mkfifo(path)
        h.get(url, 403)
        os.remove(path)
        h.get(url, 404)


def events_are_streamed_and_resumed():
    """server-sent events: each once, in order, from any place on"""
    with HttpDaemon() as d:
        h = Http(d)
        stream = h.stream()
        job = h.post("/v1/jobs", job_spec(d), 201).json["id"]
        seen, states = [], []
        for name, number, data in stream:
            if name == "event" and data["job"] == job:
                equal(int(number), data["seq"], "the id is the number")
                seen.append(data)
            if name == "job" and data["id"] == job:
                states.append(data["state"])
                if data["state"] == "completed" and \
                        any(e["kind"] == "completed" or
                            "completed" in e["text"] for e in seen):
                    break
            if name == "event" and "completed" in states and \
                    "completed" in (data["kind"], data["text"][:9]):
                break
        equal([e["seq"] for e in seen], sorted({e["seq"] for e in seen}),
              "each once, in order")
        stream.close()
        rows = d.sql("SELECT seq FROM event WHERE job = ? ORDER BY seq", job)
        equal([e["seq"] for e in seen], [r[0] for r in rows][:len(seen)],
              "none is missing")
        middle = seen[1]["seq"]
        resumed = h.stream(Last_Event_ID=str(middle))
        got = []
        for name, _, data in resumed:
            if name == "event":
                got.append(data["seq"])
            if len(got) == len(rows) - 2:
                break
        resumed.close()
        equal(got, [r[0] for r in rows if r[0] > middle], "from there on")
        page = h.get(f"/v1/events?after={middle}&limit=1").json
        equal([e["seq"] for e in page["items"]], [got[0]], "a page")
        check(page["more"], "there is more")
        page = h.get("/v1/events?latest=true&limit=2").json
        equal([e["seq"] for e in page["items"]], [r[0] for r in d.sql(
            "SELECT seq FROM event ORDER BY seq")][-2:], "the last ones")
        h.get("/v1/events?latest=maybe", 400)


def a_long_poll_waits():
    """events?wait= answers when something happens, or empty in the end"""
    with HttpDaemon() as d:
        h = Http(d)
        last = d.sql("SELECT coalesce(max(seq), 0) FROM event")[0][0]
        a = h.get(f"/v1/events?after={last}&wait=1").json
        equal(a, {"items": [], "more": False}, "nothing happened")
        c = h.connection()
        c.request("GET", f"/v1/events?after={last}&wait=60",
                  headers=h.headers())
        job = h.post("/v1/jobs", job_spec(d), 201).json["id"]
        page = json.loads(c.getresponse().read())
        c.close()
        equal(page["items"][0]["job"], job, "the job is told")


def the_daemon_goes_down_with_readers():
    """streams, long polls and waits do not hold it up"""
    with HttpDaemon() as d:
        h = Http(d)
        job = h.post("/v1/jobs", long_spec(d), 201).json["id"]
        d.wait_iteration(job, 5)
        stream = h.stream()
        next(stream)
        open_ = []
        for path in ("/v1/events?after=999999&wait=60",
                     f"/v1/jobs/{job}/wait?timeout=600"):
            c = h.connection()
            c.request("GET", path, headers=h.headers())
            open_.append(c)
        h.get("/livez")
        equal(d.stop(), 0, "exit status")
        for c in open_:
            equal(c.getresponse().status, 503, "they are told")
            c.close()
        d.start()
        equal(Http(d).get("/readyz").body, b"ok\n", "it is back")


main(a_job_from_submit_to_end, orders_are_carried_out,
     a_place_in_the_queue, a_long_answer_is_promised, bad_questions_are_told, pollers_get_304,
     logs_by_range_and_line, events_are_streamed_and_resumed,
     a_long_poll_waits, the_daemon_goes_down_with_readers)
