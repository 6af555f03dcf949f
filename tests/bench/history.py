#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A long history: what a window of it costs, asked of the running daemon.

A small job is run; then its rows are replaced in the database by a made-up
history of many iterations, as an older traind would have left it, so that the
daemon's start brings it up to date (that is timed, too). Windows of several
sizes are asked for over HTTP with 500 points: the promise is 50 ms each.
"""
import argparse
import os
import sqlite3
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from http_door import Http, HttpDaemon  # noqa: E402
from scenario import blobs, mlp_spec  # noqa: E402

POINTS = 500
ROUNDS = 15


def made_up(job, n):
    """Rows of a curve that falls, with noise, skips and one spike."""
    updates = skips = 0
    for i in range(1, n + 1):
        skipped = i % 1000 == 0
        skips += skipped
        updates += not skipped
        loss = 3.0 / (1 + i / 50000) + (i * 7919 % 1000) / 5000
        if i == n // 2 + 1:
            loss = 1e4
        yield (job, 1, i, updates, skips, 1, skipped, loss, 0, 1.0, 0, 1e-3,
               1024.0, 128, 900, 1_700_000_000_000_000 + i * 1000)


def replace_history(d, job, n):
    db = sqlite3.connect(d.db_path)
    db.executescript(
        "PRAGMA synchronous = OFF; DROP TABLE metric_level;"
        "DROP TABLE metric_gone; DROP TABLE token; DELETE FROM metric;"
        "DELETE FROM scale_event; DELETE FROM incident; DELETE FROM"
        " evaluation; DELETE FROM checkpoint; DELETE FROM guard;"
        "PRAGMA user_version = 3;")
    columns = ("job, attempt, iteration, updates, skips, live, skipped, loss,"
               " loss_flag, grad_norm, grad_norm_flag, lr, scale, samples,"
               " step_us, t_us")
    db.executemany(f"INSERT INTO metric ({columns}) VALUES"
                   " (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", made_up(job, n))
    skips = n // 1000
    db.execute("UPDATE job SET iteration = ?, updates = ?, skips = ?",
               (n, n - skips, skips))
    db.execute("UPDATE attempt SET end_iteration = ?", (n,))
    db.commit()
    db.close()


def timed(fn):
    start = time.monotonic()
    out = fn()
    return time.monotonic() - start, out


def ask(h, path):
    """Median and worst of some rounds, in ms, and the last answer."""
    seconds, a = [], None
    for _ in range(ROUNDS):
        s, a = timed(lambda: h.get(path))
        seconds.append(1e3 * s)
    return statistics.median(seconds), max(seconds), a


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--keep", type=int, default=0,
                        help="metrics.keep of the daemon")
    n = parser.parse_args().iterations
    keep = parser.parse_args().keep
    with HttpDaemon(f"[metrics]\nkeep = {keep}\n") as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train={"epochs": 1}), "--wait")
        d.stop()
        s, _ = timed(lambda: replace_history(d, job, n))
        print(f"{n} rows made up in {s:.1f} s", flush=True)
        s, _ = timed(d.start)
        print(f"start with the levels made anew: {s:.1f} s,"
              f" {1e6 * s / n:.2f} us a row", flush=True)
        h = Http(d)
        worst = 0
        for first, last in ((1, n), (n // 3, n), (n // 2, n // 2 + n // 100),
                            (n // 2, n // 2 + 10000), (n - 999, n), (7, n - 9),
                            (n // 2 - 200, n // 2 + 200)):
            median, most, a = ask(
                h, f"/v1/jobs/{job}/metrics?max_points={POINTS}"
                   f"&from={first}&to={last}")
            rows = a.json["items"]
            whole = sum(r["n"] for r in rows) == last - first + 1
            spike = max(r["loss_max"] for r in rows) == 1e4 or not (
                first <= n // 2 + 1 <= last)
            worst = max(worst, median)
            print(f"iterations {first:9} to {last:9}: {median:6.1f} ms"
                  f" (at most {most:.1f}), {len(rows)} points,"
                  f" {'every iteration in' if whole else 'INCOMPLETE'}"
                  f"{'' if spike else ', SPIKE LOST'}", flush=True)
        print(f"slowest window: {worst:.1f} ms, to be below 50")
        s, r = timed(lambda: d.try_ctl("--timeout", "600", "admin", "fsck"))
        print(f"trainctl admin fsck: {s:.1f} s, exit {r.returncode}"
              f" {r.stdout[:300]}{r.stderr[:200]}")
        d.stop()
        d.end(None)
        os._exit(0)  # the history is made up: nothing else is to be checked


if __name__ == "__main__":
    main()
