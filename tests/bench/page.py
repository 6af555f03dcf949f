#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the dashboard shows a job of a million iterations.

A job is trained for a moment, the daemon stopped, and its history written up
to --rows by SQL; then the page is loaded in a headless Chromium again and
again. By the browser's own clock, from the start of the navigation:

  curve     the first chart is painted
  ready     all five charts, incidents, checkpoints and lineage are there, and
            the page answers: the promise is less than a second
  request   what of that the daemon took to thin the curve
  zoom      from letting the button go to the finer window

and the bytes that came over, which must not grow with the rows.
"""
import argparse
import json
import os
import random
import sqlite3
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from browser import Page, need_browser  # noqa: E402
from http_door import Http, HttpDaemon  # noqa: E402
from scenario import blobs, equal, mlp_spec, wait_for  # noqa: E402

SKIP_EVERY = 2003


def history(job, first, last):
    """Rows of a curve that falls, with a skip now and then."""
    rng = random.Random(1)
    skips = last_us = 0
    for i in range(first, last + 1):
        skipped = i % SKIP_EVERY == 0
        skips += skipped
        loss = 0.3 + 2.0 / (1 + i / 3e4) + rng.random() * 0.1
        last_us += 30000
        yield (job, 1, i, i - skips, skips, 1, int(skipped), loss, 0,
               1 + rng.random(), 0, 1e-3, 65536.0, 128, 30000, last_us)


def write_history(path, job, rows):
    with sqlite3.connect(path) as db:
        first = db.execute("SELECT coalesce(max(iteration), 0) + 1 FROM metric"
                           " WHERE job = ?", (job,)).fetchone()[0]
        db.executemany(
            "INSERT INTO metric (job, attempt, iteration, updates, skips, live,"
            " skipped, loss, loss_flag, grad_norm, grad_norm_flag, lr, scale,"
            " samples, step_us, t_us) VALUES (" + ",".join("?" * 16) + ")",
            history(job, first, rows))
        db.execute("UPDATE job SET iteration = ?, updates = ?, skips = 0,"
                   " total_iterations = ? WHERE id = ?",
                   (rows, rows, rows, job))
        # As a version without levels would have left it: the daemon makes
        # them when it starts.
        db.execute("UPDATE attempt SET end_iteration = ? WHERE job = ?",
                   (rows, job))
        for table in ("metric_level", "metric_gone", "token"):
            db.execute(f"DROP TABLE {table}")
        db.execute("PRAGMA user_version = 3")
    db.close()


MARKS = """
const at = (name) => performance.getEntriesByName(name).at(-1)?.startTime;
const metrics = performance.getEntriesByType('resource')
    .filter((e) => e.name.includes('/metrics?'));
return {curve: at('traind:first-chart'), ready: at('traind:ready'),
        request: metrics[0]?.duration, requests: metrics.length,
        bytes: performance.getEntriesByType('resource')
            .filter((e) => e.name.includes('/v1/'))
            .reduce((sum, e) => sum + e.encodedBodySize, 0)};"""


def load(page):
    page.driver.refresh()
    return wait_for("the page", lambda: (
        lambda m: m if m["ready"] else None)(page.js(MARKS)))


ZOOM = """
const start = performance.now(), done = arguments[0];
const seen = performance.getEntriesByType('resource').length;
document.querySelector('.plots').focus();
const look = () => {
    const e = performance.getEntriesByType('resource').slice(seen)
        .findLast((r) => r.name.includes('from='));
    if (e && e.responseEnd)
        requestAnimationFrame(() => done(performance.now() - start));
    else
        setTimeout(look, 5);
};
document.querySelector('.plots').dispatchEvent(
    new KeyboardEvent('keydown', {key: '+', bubbles: true}));
look();"""


def tell(name, values, unit="ms"):
    values = sorted(values)
    print(f"{name:8} median {statistics.median(values):8.0f} {unit}   "
          f"{values[0]:.0f} to {values[-1]:.0f} {unit}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--loads", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    need_browser()
    with HttpDaemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, guard="off"))
        d.wait_state(job, "completed")
        d.stop()
        write_history(d.db_path, job, args.rows)
        d.start()
        h = Http(d)
        secret = h.post("/v1/tokens", {"name": "bench", "scopes": ["read"]},
                        None).json["secret"]
        with Page(h.url) as page:
            page.go(f"job/{job}")
            page.log_in(secret)
            load(page)
            marks = [load(page) for _ in range(args.loads)]
            equal({m["requests"] for m in marks}, {1}, "one curve each")
            zooms = []
            for _ in range(args.loads):
                zooms.append(page.driver.execute_async_script(ZOOM))
                page.js("document.querySelector('.plots').dispatchEvent(new "
                        "KeyboardEvent('keydown', {key: '0', bubbles: true}))")
        d.fsck = lambda: None  # the history was made up
    if args.json:
        print(json.dumps({"rows": args.rows, "marks": marks, "zoom": zooms}))
        return
    print(f"{args.rows} rows, {args.loads} loads")
    for name in ("curve", "ready", "request"):
        tell(name, [m[name] for m in marks])
    tell("zoom", zooms)
    tell("answers", [m["bytes"] / 1024 for m in marks], "KiB")


main()
