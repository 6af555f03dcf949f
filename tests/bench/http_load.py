#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that is watched by many while a job trains.

wrk polls the job's status (200 a second over 10 connections of TCP, with a
token), and 50 readers hold a stream of events open, 10 of whom never read.
Printed: errors, latency as wrk saw it, the daemon's CPU, and the training's
speed in slices with and without all of that, A B A B. The job has one thread,
so that on two cores the watchers themselves do not take its processor.
"""
import argparse
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from http_door import Http, HttpDaemon  # noqa: E402
from scenario import blobs, mlp_spec  # noqa: E402

CONNECTIONS, DELAY_MS = 10, 50
READERS, STUCK = 50, 10


def open_streams(h):
    out = []
    for _ in range(READERS):
        s = socket.create_connection(("127.0.0.1", h.port))
        s.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost:{h.port}\r\n"
                  f"Authorization: Bearer {h.token}\r\n"
                  "Accept: text/event-stream\r\n\r\n".encode())
        out.append(s)
    return out


class Load:
    """wrk and the readers, for a while."""

    def __init__(self, d, h, job, script):
        self.d, self.h, self.script = d, h, script
        self.url = f"{h.url}v1/jobs/{job}"

    def run(self, seconds):
        streams = open_streams(self.h)
        wrk = subprocess.Popen(
            ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency",
             "-s", self.script, self.url], stdout=subprocess.PIPE, text=True)
        pick = selectors.DefaultSelector()
        for s in streams[STUCK:]:
            s.setblocking(False)
            pick.register(s, selectors.EVENT_READ)
        n = 0
        while wrk.poll() is None:
            for key, _ in pick.select(0.1):
                got = key.fileobj.recv(65536)
                n += got.count(b"event: ")
                if not got:
                    pick.unregister(key.fileobj)
        for s in streams:
            s.close()
        return wrk.stdout.read(), n


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def speed(d, job, during):
    """Iterations a second of the job while `during` runs."""
    def iterations():
        path = os.path.join(d.job_dir(job), "attempts/1/events.jsonl")
        with open(path, "rb") as f:
            return f.read().count(b'"kind":"step"')
    first, start = iterations(), time.monotonic()
    during()
    return (iterations() - first) / (time.monotonic() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=5)
    a = parser.parse_args()
    with HttpDaemon("[device]\nthreads = 1\n") as d:
        pid = d.process.pid
        before = cpu_s(pid)
        time.sleep(10)
        print(f"idle daemon: {10 * (cpu_s(pid) - before):.2f} % of a core")
        blobs(d.dir, n=4096, features=256)
        job = d.submit(mlp_spec(
            d.dir, threads=1, train={"epochs": 1_000_000},
            evaluate={"every_updates": 100_000}, model=[
                {"linear": {"out_features": 1024}}, "relu",
                {"linear": {"out_features": 1024}}, "relu",
                {"linear": {"out_features": 3}}],
            checkpoint={"every_updates": 100_000, "keep": 1}))
        d.wait_iteration(job, 50)
        h = Http(d, d.ctl("token", "create").strip())
        script = os.path.join(d.dir, "poll.lua")
        with open(script, "w", encoding="utf-8") as f:
            f.write(f"wrk.headers['Authorization'] = 'Bearer {h.token}'\n"
                    f"function delay() return {DELAY_MS} end\n")
        load = Load(d, h, job, script)
        load.run(2)
        ratios, said, events, used, quiet = [], [], 0, [], []
        for _ in range(a.rounds):
            def loaded():
                nonlocal events
                before = cpu_s(pid)
                text, n = load.run(a.seconds)
                used.append((cpu_s(pid) - before) / a.seconds)
                said.append(text)
                events += n
            before = cpu_s(pid)
            alone = speed(d, job, lambda: time.sleep(a.seconds))
            quiet.append((cpu_s(pid) - before) / a.seconds)
            ratios.append(speed(d, job, loaded) / alone)
        print(said[-1])
        p99 = [re.search(r"99%\s+(\S+)", t).group(1) for t in said]
        bad = [t for t in said if "Non-2xx" in t or "Socket errors" in t]
        print(f"p99 of each round: {' '.join(p99)}; rounds with errors:"
              f" {len(bad)}; events read: {events}")
        print(f"training with watchers over without:"
              f" {statistics.median(ratios):.4f} ({min(ratios):.4f} to"
              f" {max(ratios):.4f}); daemon under load:"
              f" {100 * statistics.median(used):.1f} % of a core,"
              f" without watchers {100 * statistics.median(quiet):.1f} %")
        d.ctl("cancel", job)


if __name__ == "__main__":
    main()
