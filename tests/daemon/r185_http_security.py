#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP asked by those who should not: right status, nothing done, nothing told.

Every route of the table is tried without, with a wrong and with a too narrow
token; and a job of one user by another, in both visibilities.
"""
import os
import re
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from accounts import private_data, two_accounts
from http_door import Http, HttpDaemon
from scenario import (SOURCE, SystemDaemon, blobs, check, equal, main,
                      mlp_spec, wait_for)

ENDLESS = {"epochs": 1000000}


def routes():
    """(method, pattern, scope) of the table that makes the router."""
    with open(os.path.join(SOURCE, "daemon/http_routes.def"),
              encoding="utf-8") as f:
        text = f.read()
    asks = re.findall(
        r'^ASK\((\w+), "([^"]+)", "\w*", \w+, (\w+)', text, re.M)
    gives = re.findall(r'^GIVE\((\w+), "([^"]+)", \w+, (\w+)', text, re.M)
    check(len(asks) > 20 and len(gives) > 5, "the table is read")
    return asks + gives


def database(d):
    """All rows that a request could change."""
    return {t: d.sql(f"SELECT * FROM {t}") for t in (
        "job", "attempt", "checkpoint", "rollback", "event")}


def raw(h, *pieces, wait=5, gap=0.0):
    """What comes back for bytes that no client would send."""
    with socket.create_connection(("127.0.0.1", h.port)) as s:
        s.settimeout(wait)
        out = b""
        try:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(gap)
            while True:
                got = s.recv(65536)
                if not got:
                    return out
                out += got
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            return out


def status_of(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def only_tokens_with_the_scope():
    """every route: no token 401, wrong one 401, too narrow 403, nothing done"""
    with HttpDaemon() as d:
        blobs(d.dir)
        local = Http(d)
        job = local.post("/v1/jobs", mlp_spec(d.dir), 201).json["id"]
        local.get(f"/v1/jobs/{job}/wait?timeout=600")
        anonymous = Http(d, "x")
        metrics, read, submit = (
            Http(d, d.ctl("token", "create", "--scope", s).strip())
            for s in ("metrics", "read", "submit"))
        before = database(d)
        rank = {"NONE": 0, "METRICS": 1, "READ": 2, "SUBMIT": 3, "ADMIN": 4}
        for method, pattern, scope in routes():
            path = pattern.replace("{id}", str(job))
            body = {} if method == "POST" else None
            status = anonymous.try_ask(method, path, body).status
            equal(status == 401, scope != "NONE", f"{method} {path}: {status}")
            c = anonymous.connection()
            c.request(method, path, headers={
                "Content-Type": "application/json"})
            equal(c.getresponse().status == 401, scope != "NONE",
                  f"{method} {path} without a token")
            c.close()
            for h, has in ((metrics, 1), (read, 2), (submit, 3)):
                if rank[scope] > has:
                    a = h.ask(method, path, body, 403)
                    check("scope" in a.json["detail"], f"{path}: {a}")
        equal(database(d), before, "nothing was done")
        for header in ({"Authorization": ""}, {"Authorization": "Bearer"},
                       {"Authorization": "Bearer "},
                       {"Authorization": f"Basic {read.token}"},
                       {"Authorization": read.token}):
            c = read.connection()
            c.request("GET", "/v1/jobs", headers=header)
            equal(c.getresponse().status, 401, header)
            c.close()
        # A token is never taken from a URL.
        c = read.connection()
        c.request("GET", f"/v1/jobs?token={read.token}&access_token=1")
        equal(c.getresponse().status, 401, "in the query")
        c.close()
        check(read.token not in d.log(), "no secret in the log")


def only_our_own_names_and_pages():
    """Host, Origin, Sec-Fetch-Site, Content-Type"""
    with HttpDaemon(http="allowed_hosts = gpu.lab\n"
                    "allowed_origins = https://board.lab\n") as d:
        h = Http(d, d.ctl("token", "create", "--scope", "submit").strip())
        before = database(d)
        for headers, status in (
                ({"Host": "evil.example"}, 421),
                ({"Host": f"evil.example:{h.port}"}, 421),
                ({"Host": "localhost:1"}, 421),
                ({"Host": f"gpu.lab:{h.port}"}, 200),
                ({"Origin": "https://evil.example"}, 403),
                ({"Origin": "null"}, 403),
                ({"Origin": f"http://127.0.0.1:{h.port}"}, 200),
                ({"Origin": "https://board.lab"}, 200),
                ({"Sec-Fetch-Site": "cross-site"}, 403),
                ({"Sec-Fetch-Site": "same-origin"}, 200)):
            a = h.ask("GET", "/v1/jobs", None, status, headers)
            check("Access-Control-Allow-Origin" not in a.headers, headers)
        spec = "{}"
        for kind in ("text/plain", "application/x-www-form-urlencoded",
                     "multipart/form-data", ""):
            h.ask("POST", "/v1/jobs", spec, 415, {"Content-Type": kind})
        h.ask("OPTIONS", "/v1/jobs", None, 405)
        h.ask("TRACE", "/v1/jobs", None, 405)
        equal(database(d), before, "nothing was done")


def bodies_have_an_end():
    """too large by length, by chunks, too slow"""
    with HttpDaemon(http="max_body = 64KiB\ntimeout = 1s\n") as d:
        h = Http(d, d.ctl("token", "create", "--scope", "submit").strip())
        before = database(d)
        head = (f"POST /v1/jobs HTTP/1.1\r\nHost: localhost:{h.port}\r\n"
                f"Authorization: Bearer {h.token}\r\n"
                "Content-Type: application/json\r\n").encode()
        a = raw(h, head + b"Content-Length: 70000\r\n\r\n")
        equal(status_of(a), 413, "by its length, before it comes")
        a = raw(h, head + b"Content-Length: 99999999999999999999\r\n\r\n")
        check(status_of(a) in (400, 413), f"by a length that is none: {a[:80]}")
        chunk = b"1000\r\n" + b" " * 4096 + b"\r\n"
        a = raw(h, head + b"Transfer-Encoding: chunked\r\n\r\n"
                + 20 * chunk + b"0\r\n\r\n")
        equal(status_of(a), 413, "by chunks")
        a = raw(h, head + b"Transfer-Encoding: chunked\r\n\r\n"
                + 2000 * chunk)
        check(status_of(a) in (0, 413), "chunks without end")
        start = time.monotonic()
        a = raw(h, head + b"Content-Length: 1000\r\n\r\n",
                *([b" "] * 100), wait=30, gap=0.2)
        check(status_of(a) in (0, 408), f"byte by byte: {a[:60]}")
        check(time.monotonic() - start < 15, "it is closed in time")
        a = raw(h, b"GET /v1/jobs HTTP/1.1\r\nHost: loc", wait=30)
        check(status_of(a) in (0, 408), "half a head")
        equal(database(d), before, "nothing was done")
        h.get("/v1/jobs")


def garbage_is_no_request():
    """pipelined nonsense, two framings, two hosts, long heads"""
    with HttpDaemon() as d:
        h = Http(d, d.ctl("token", "create", "--scope", "submit").strip())
        before = database(d)
        auth = f"Authorization: Bearer {h.token}\r\n".encode()
        host = f"Host: localhost:{h.port}\r\n".encode()
        good = b"GET /v1/jobs HTTP/1.1\r\n" + host + auth + b"\r\n"
        for bad in (b"garbage\r\n\r\n", b"\x01\x02 \x03 \x04\r\n\r\n",
                    b"GET v1 HTTP/1.1\r\n" + host + b"\r\n"):
            a = raw(h, good + bad + good, wait=2)
            equal(a.count(b"HTTP/1.1 200"), 1, f"no more after {bad}")
        a = raw(h, b"POST /v1/jobs HTTP/1.1\r\n" + host + auth +
                b"Content-Type: application/json\r\nContent-Length: 4\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", wait=2)
        check(status_of(a) in (0, 400), f"two framings: {a[:60]}")
        a = raw(h, b"GET /v1/jobs HTTP/1.1\r\n" + host + b"Host: evil\r\n" +
                auth + b"\r\n", wait=2)
        equal(status_of(a), 400, "two hosts")
        a = raw(h, b"GET /v1/jobs HTTP/1.1\r\n" + auth + b"\r\n", wait=2)
        check(status_of(a) in (400, 421), "no host")
        a = raw(h, b"GET /v1/jobs HTTP/1.1\r\n" + host + auth +
                b"X: " + b"a" * 200000 + b"\r\n\r\n", wait=2)
        check(status_of(a) in (0, 400, 413, 431), f"a long head: {a[:60]}")
        a = raw(h, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9, wait=2)
        check(status_of(a) in (0, 400), "TLS to a port in clear")
        h.get("/v1/jobs")
        equal(database(d), before, "nothing was done")


def paths_lead_nowhere_else():
    """dots, slashes, NULs, encodings of them"""
    with HttpDaemon() as d:
        blobs(d.dir)
        h = Http(d, d.ctl("token", "create", "--scope", "submit").strip())
        job = h.post("/v1/jobs", mlp_spec(d.dir), 201).json["id"]
        h.get(f"/v1/jobs/{job}/wait?timeout=600")
        for path in ("/../etc/passwd", "/..%2fetc/passwd", "/%2e%2e/x",
                     "//etc/passwd", "/app.js/../index.html", "/app.js%00",
                     "/v1/jobs/..", "/v1/jobs/../../x", "/v1/%00",
                     f"/v1/jobs/{job}%00/logs", f"/v1/jobs/{job}/logs/",
                     f"/v1//jobs/{job}", f"/v1/jobs/{job}/logs%2f..",
                     f"/v1/jobs/{job}/attempts/1/stdout",
                     f"/v1/jobs/{job}/logs?stream=../../spec.json",
                     f"/v1/jobs/{job}/logs?stream=stdout%00",
                     f"/v1/jobs/{job}/logs?attempt=-1",
                     f"/v1/jobs/{job}/logs?attempt=1/..",
                     "/v1/jobs/" + "9" * 5000, "/" + "a/" * 2000,
                     "/v1/jobs/99999999999999999999",
                     "/v1/jobs/name:%3Cscript%3E"):
            a = h.try_ask("GET", path)
            check(a.status in (400, 404, 414), f"{path}: {a}")
            check(b"root:" not in a.body and d.dir.encode() not in a.body,
                  f"{path}: {a}")


class SystemHttpDaemon(SystemDaemon):
    def __init__(self, config=""):
        super().__init__(config)
        with open(self.config, "a", encoding="utf-8") as f:
            f.write(f"\n[http]\nlisten = 127.0.0.1:0\n"
                    f"socket = {self.dir}/http.sock\n")


def token_of(d, account, *args):
    r = d.run_as(account, "token", "create", *args)
    check(r.returncode == 0, r.stderr)
    return r.stdout.strip()


def other_peoples_jobs(visibility):
    with SystemHttpDaemon(f"visibility = {visibility}\n") as d:
        a, b = two_accounts()
        folder = private_data(d, a)
        job = d.submit_as(a, mlp_spec(folder, name="secret", train=ENDLESS))
        d.wait_iteration(job, 30)
        theirs = Http(d, token_of(d, b, "--scope", "submit"))
        mine = Http(d, token_of(d, a, "--scope", "submit"))
        r = d.run_as(b, "token", "create", "--scope", "admin")
        equal(r.returncode, 77, "admin is for administrators")
        want = 404 if visibility == "own" else 403
        rollbacks = d.sql("SELECT count(*) FROM rollback")
        for method, pattern, _ in routes():
            if not pattern.startswith("/v1/jobs/{id}"):
                continue
            path = pattern.replace("{id}", str(job))
            answer = theirs.try_ask(method, path,
                                    {} if method == "POST" else None)
            equal(answer.status, want, f"{method} {path}: {answer}")
            for word in (b"secret", folder.encode(), b"loss"):
                check(word not in answer.body, f"{path} tells {word}")
        listed = theirs.get("/v1/jobs?all=true").json["items"]
        equal([j["id"] for j in listed],
              [] if visibility == "own" else [job], "the list")
        check(all(j["name"] == "" and j["loss"] == "NaN" for j in listed),
              f"no names, no numbers: {listed}")
        equal([e for e in theirs.get("/v1/events").json["items"]
               if e["job"] == job], [], "no events")
        device, = theirs.get("/v1/devices").json["items"]
        equal((device["busy"], device["job"]), (True, 0), "who has the device")
        stream = theirs.stream()
        mine.post(f"/v1/jobs/{job}/checkpoint")
        own = theirs.post("/v1/tokens", {}, 403)
        check("makes no tokens" in own.json["detail"], own)
        blobs_of_b = private_data(d, b)
        second = theirs.post("/v1/jobs", mlp_spec(blobs_of_b), 201).json["id"]
        for name, _, data in stream:
            which = data["job"] if name == "event" else data["id"]
            equal(which, second, f"a stream tells of {data}")
            if name == "event":
                break
        stream.close()
        equal([t["user"] for t in theirs.get("/v1/tokens").json["items"]],
              [b.pw_name], "tokens of their own")
        ours = mine.get("/v1/tokens").json["items"][0]["id"]
        theirs.ask("DELETE", f"/v1/tokens/{ours}", None, 404)
        mine.get("/v1/jobs")
        equal(d.status(job)["state"], "running", "it runs on")
        equal(d.sql("SELECT count(*) FROM rollback"), rollbacks,
              "nobody rolled it back")
        for job_ in (job, second):
            d.ctl("cancel", job_)
        wait_for("the end", lambda: not d.worker_pids())


def as_root(scenario, visibility):
    if os.geteuid() == 0:
        scenario(visibility)
    else:
        print("   skipped: it takes root and two users")


def hidden_jobs_do_not_exist():
    """visibility own: 404 for everything, nothing told"""
    as_root(other_peoples_jobs, "own")


def public_jobs_are_only_listed():
    """visibility public: 403 for everything, listed without names"""
    as_root(other_peoples_jobs, "public")


main(only_tokens_with_the_scope, only_our_own_names_and_pages,
     bodies_have_an_end, garbage_is_no_request, paths_lead_nowhere_else,
     hidden_jobs_do_not_exist, public_jobs_are_only_listed)
