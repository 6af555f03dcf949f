#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that hang, lie, flood or die (case C64)."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (BIN, Daemon, blobs, check, equal, main, mlp_spec,
                      wait_for)


def connect(d):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(d.socket)
    return s


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def read_frame(s):
    head = b""
    while len(head) < 4:
        part = s.recv(4 - len(head))
        if not part:
            return None
        head += part
    n = struct.unpack(">I", head)[0]
    body = b""
    while len(body) < n:
        part = s.recv(n - len(body))
        if not part:
            return None
        body += part
    return json.loads(body)


def rss_mib(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2 ** 20


def bounded(d, before, mib):
    """AddressSanitizer keeps freed memory: there the bound says nothing."""
    if not os.environ.get("TRAIND_SANITIZE"):
        now = rss_mib(d.process.pid)
        check(now < before + mib, f"memory bounded: {before} -> {now} MiB")


def answered_fast(d):
    start = time.monotonic()
    d.ctl("ping")
    check(time.monotonic() - start < 5, "others are answered")


def half_a_request():
    """connect, send half of a request, wait: others do not notice"""
    with Daemon() as d:
        s = connect(d)
        equal(read_frame(s)["hello"], "traind", "hello comes first")
        s.sendall(struct.pack(">I", 100) + b'{"id":1,')
        answered_fast(d)
        s.close()
        answered_fast(d)


def garbage():
    """noise, huge lengths, wrong JSON, unknown verbs: refused, alive"""
    with Daemon() as d:
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64,
                      b"\xff\xff\xff\xff" + b"x" * 1000,
                      frame(b"not json"), frame(b"[]"), frame(b"{}"),
                      frame(b'{"id":1}'), frame(b'{"id":1,"verb":7}'),
                      frame(b'{"id":-1,"verb":"ping"}'),
                      frame(b'{"id":1,"verb":"start","args":{}}'),
                      frame(b'{"a":' * 3000)):
            s = connect(d)
            read_frame(s)
            s.sendall(noise)
            s.shutdown(socket.SHUT_WR)
            while read_frame(s) is not None:
                pass
            s.close()
        s = connect(d)
        read_frame(s)
        s.sendall(frame(b'{"id":5,"verb":"statu","args":{}}'))
        r = read_frame(s)
        equal((r["id"], r["ok"]), (5, False), "an unknown verb is refused")
        s.sendall(frame(b'{"id":6,"verb":"status","args":{"jib":"1"}}'))
        r = read_frame(s)
        check(not r["ok"] and "jib" in r["error"]["message"],
              f"an unknown field is named: {r}")
        s.sendall(frame(b'{"id":7,"verb":"ping","args":{}}'))
        check(read_frame(s)["ok"], "the connection lives on")
        s.close()
        answered_fast(d)


def endless_request():
    """a hundred megabytes in one request: refused, memory bounded"""
    with Daemon() as d:
        before = rss_mib(d.process.pid)
        s = connect(d)
        read_frame(s)
        try:
            s.sendall(struct.pack(">I", 100 << 20))
            for _ in range(100):
                s.sendall(b"x" * (1 << 20))
            raise AssertionError("it took all of it")
        except (BrokenPipeError, ConnectionResetError):
            pass
        s.close()
        answered_fast(d)
        bounded(d, before, 32)


def closes_in_the_middle_of_a_reply():
    """a client that goes away costs nobody anything"""
    with Daemon() as d:
        for _ in range(50):
            s = connect(d)
            s.sendall(frame(b'{"id":1,"verb":"list","args":{"all":true}}'))
            s.close()
        answered_fast(d)


def gone_before_the_store_answers():
    """asked and gone, many times over: answers find nobody and end there"""
    with Daemon() as d:
        blobs(d.dir)
        done = d.submit(mlp_spec(d.dir), "--wait")
        job = d.submit(mlp_spec(d.dir, train={"epochs": 1000000}))
        d.wait_iteration(job, 20)
        verbs = [("list", {"all": True}), ("paths", {"job": "@"}),
                 ("submit", {"spec": json.dumps(mlp_spec(d.dir)),
                             "idempotency_key": "once"}),
                 ("follow", {"job": "@", "credit": 1000}),
                 ("wait", {"job": "@"}), ("checkpoint", {"job": "@"}),
                 ("rollback", {"job": str(job), "to": "last",
                               "dry_run": True})]
        verbs += [(v, {"job": str(done)}) for v in (
            "status", "metrics", "scale", "skips", "incidents",
            "evaluations", "checkpoints", "attempts")]
        r = random.Random(0)
        for i in range(200):
            s = connect(d)
            for n, (verb, args) in enumerate(r.sample(verbs, 12), 1):
                s.sendall(frame(json.dumps(
                    {"id": n, "verb": verb, "args": args}).encode()))
            if i % 3 == 0:
                read_frame(s)
                read_frame(s)
            s.close()
        answered_fast(d)
        check(d.process.poll() is None, "the daemon lives")
        equal(d.status(job)["state"], "running", "nothing was done to it")
        # The same while it goes down.
        s = connect(d)
        for n in range(1, 30):
            s.sendall(frame(json.dumps(
                {"id": n, "verb": "cancel" if n == 29 else "metrics",
                 "args": {"job": "name:scenario"}}).encode()))
        equal(d.stop(), 0, "exit status")
        s.close()


def stuck_follower():
    """followers that never read: training and memory do not notice"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train={"epochs": 1000000}))
        d.wait_iteration(job, 20)
        stuck = []
        for _ in range(10):
            s = connect(d)
            s.sendall(frame(json.dumps({
                "id": 1, "verb": "follow",
                "args": {"job": str(job), "credit": 1000000,
                         "min_interval_ms": 1}}).encode()))
            stuck.append(s)
        before = rss_mib(d.process.pid)
        at = d.status(job)["iteration"]
        d.wait_iteration(job, at + 3000)
        answered_fast(d)
        bounded(d, before, 64)
        d.ctl("cancel", job)
        for s in stuck:
            s.close()


def daemon_dies_during_a_call():
    """the client says so and exits non-zero; nobody hangs"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train={"epochs": 1000000}))
        d.wait_iteration(job, 5)
        c = subprocess.Popen([os.path.join(BIN, "trainctl"), "--timeout", "3",
                              "pause", str(job)], env=d.env,
                             stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
        d.process.send_signal(signal.SIGKILL)
        d.process.wait()
        _, said = c.communicate(timeout=60)
        check(c.returncode != 0 or "paused" in said or not said,
              f"{c.returncode} {said}")
        r = d.try_ctl("--timeout", 2, "ping")
        equal(r.returncode, 69, "exit code without a daemon")
        check(d.socket in r.stderr, f"names the socket: {r.stderr}")
        d.start()


def many_clients():
    """the table of clients is bounded and recovers"""
    with Daemon(config="[control]\nmax_clients = 16\n") as d:
        crowd = [connect(d) for _ in range(40)]
        for s in crowd:
            s.close()
        wait_for("the daemon to answer again",
                 lambda: d.try_ctl("ping").returncode == 0)


main(half_a_request, garbage, endless_request,
     closes_in_the_middle_of_a_reply, gone_before_the_store_answers,
     stuck_follower,
     daemon_dies_during_a_call, many_clients)
