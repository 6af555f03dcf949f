#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens from making to revoking, events and devices, by trainctl and HTTP."""
import os
import subprocess
import sys
from http.client import HTTPException

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from http_door import Http, HttpDaemon
from scenario import (BIN, blobs, check, equal, main, mlp_spec, wait_for)


def token(d, *args):
    return d.ctl("token", "create", *args).strip()


def spec(d, **changes):
    blobs(d.dir)
    return mlp_spec(d.dir, **changes)


def a_token_opens_the_port():
    """read reads, submit changes, revoked is nothing"""
    with HttpDaemon() as d:
        read = Http(d, token(d, "--name", "board"))
        submit = Http(d, token(d, "--scope", "submit"))
        equal(read.get("/v1/jobs").json["items"], [], "no jobs yet")
        a = read.post("/v1/jobs", spec(d), 403)
        check("scope" in a.json["detail"], a)
        equal(read.get("/v1/jobs?all=true").json["items"], [], "none made")
        job = submit.post("/v1/jobs", spec(d), 201).json["id"]
        equal(submit.get(f"/v1/jobs/{job}/wait?timeout=600").json["state"],
              "completed", "it ran")
        equal(read.get(f"/v1/jobs/{job}").json["id"], job, "both see it")
        rows = d.json("token", "list")
        equal([(t["name"], t["scopes"], t["secret"]) for t in rows],
              [("board", ["read"], ""), ("", ["submit"], "")], "the list")
        check(all(t["last_used_us"] > 0 for t in rows), "when used")
        d.ctl("token", "revoke", rows[0]["id"])
        equal(read.get("/v1/jobs", 401).headers["WWW-Authenticate"][:6],
              "Bearer", "revoked")
        d.stop()
        d.start()
        Http(d, read.token).get("/v1/jobs", 401)
        Http(d, submit.token).get("/v1/jobs")
        Http(d, submit.token + "x").get("/v1/jobs", 401)
        Http(d, "x" * 4000).get("/v1/jobs", 401)


def one_that_expires_does():
    """the clock is the database's: an expiry in the past is over"""
    with HttpDaemon() as d:
        h = Http(d, token(d, "--expires", "1s"))
        wait_for("the token to expire",
                 lambda: h.try_ask("GET", "/v1/jobs").status == 401)
        for bad in ("1", "x", "-1d", "0s", "99999d", "1y"):
            d.ctl("token", "create", "--expires", bad, rc=2)
        d.ctl("token", "create", "--scope", "root", rc=2)
        d.ctl("token", "revoke", "77", rc=2)


def a_stream_ends_with_its_token():
    """what was opened by a token is cut off when that is revoked"""
    with HttpDaemon() as d:
        h = Http(d, token(d))
        other = Http(d, token(d))
        stream, going_on = h.stream(), other.stream()
        d.ctl("token", "revoke", 1)
        try:
            for _ in stream:
                pass
            ended = False
        except (AssertionError, OSError, HTTPException):
            ended = True
        check(ended, "it ended")
        d.submit(spec(d), "--wait")
        check(next(going_on), "the other goes on")
        going_on.close()


def a_token_has_no_children():
    """nobody makes tokens by a token"""
    with HttpDaemon() as d:
        h = Http(d, token(d, "--scope", "admin"))
        check(h.get("/v1/whoami").json["admin"], "an administrator")
        a = h.post("/v1/tokens", {"scopes": ["read"]}, 403)
        check("makes no tokens" in a.json["detail"], a)
        local = Http(d)
        made = local.post("/v1/tokens", {"name": "by hand",
                                         "scopes": ["read"]}).json
        Http(d, made["secret"]).get("/v1/jobs")
        equal(len(h.get("/v1/tokens").json["items"]), 2, "both are listed")
        h.ask("DELETE", f"/v1/tokens/{made['id']}", None, 200)
        Http(d, made["secret"]).get("/v1/jobs", 401)


def a_secret_is_nowhere():
    """not in the state directory, the log, an event or a list"""
    with HttpDaemon() as d:
        secret = token(d, "--scope", "submit")
        h = Http(d, secret)
        h.post("/v1/jobs", spec(d), 201)
        h.get("/v1/jobs")
        d.stop()
        found = subprocess.run(["grep", "-rlF", secret, d.dir],
                               capture_output=True, text=True, check=False)
        equal(found.stdout, "", "files that hold the secret")
        d.start()


def events_and_devices_by_trainctl():
    """events JOB, events --follow, devices"""
    with HttpDaemon() as d:
        with subprocess.Popen(
                [os.path.join(BIN, "trainctl"), "--json", "events",
                 "--follow"], stdout=subprocess.PIPE, env=d.env,
                text=True) as follower:
            job = d.submit(spec(d), "--wait")
            for line in follower.stdout:
                if '"completed"' in line:
                    break
            follower.terminate()
            equal(follower.wait(), 0, "an interrupted follower")
        rows = d.json("events", job)
        equal([e["kind"] for e in rows][0], "submit", "the first event")
        equal([e["seq"] for e in rows], [r[0] for r in d.sql(
            "SELECT seq FROM event WHERE job = ? ORDER BY seq", job)], "all")
        equal(d.json("events", job, "--after", rows[-2]["seq"]), rows[-1:],
              "the rest")
        check("submit" in d.ctl("events"), "as text")
        (device,) = d.json("devices")
        equal((device["name"], device["busy"], device["job"]),
              ("cpu0", False, 0), "the device is free")
        job = d.submit(spec(d, train={"epochs": 100000}))
        d.wait_iteration(job, 1)
        equal(Http(d).get("/v1/devices").json["items"][0]["job"], job,
              "who has it")
        d.ctl("cancel", job)


main(a_token_opens_the_port, one_that_expires_does,
     a_stream_ends_with_its_token, a_token_has_no_children,
     a_secret_is_nowhere, events_and_devices_by_trainctl)
