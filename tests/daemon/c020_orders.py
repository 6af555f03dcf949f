#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pause, resume, checkpoint, cancel and rollback of a running job."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, check_ledger, equal, main,
                      mlp_spec, wait_for)

ENDLESS = {"epochs": 1000000, "clip_grad_norm": 1.0}


def pause_resume_same_bits():
    """a paused and resumed run ends with the bits of one that never stopped"""
    with Daemon() as d:
        blobs(d.dir)
        spec = mlp_spec(d.dir, train={"epochs": 400, "clip_grad_norm": 1.0})
        one = d.submit(spec, "--wait")
        two = d.submit(spec)
        for target in (300, 900, 1500):
            d.wait_iteration(two, target)
            s = json.loads(d.ctl("--json", "pause", two))
            if s["state"] in ("completed",):
                break
            equal(d.status(two)["state"], "paused", "pause")
            equal(d.worker_pids(two), [], "a paused job holds no worker")
            d.ctl("resume", two)
        d.ctl("wait", two)
        check(d.status(two)["attempt"] > 1, "it was really stopped")
        equal(d.final_weights(two), d.final_weights(one), "final weights")
        equal(check_ledger(d, two), check_ledger(d, one), "ledgers")
        same = [d.sql("SELECT iteration, skipped, loss, scale, lr, grad_norm"
                      " FROM metric WHERE job = ? AND live = 1"
                      " ORDER BY iteration", j) for j in (one, two)]
        check(same[0] == same[1], "every iteration has the same numbers")


def checkpoint_on_demand():
    """trainctl checkpoint makes one now and names it"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint={
            "every_updates": 0, "keep": 3}))
        d.wait_iteration(job, 50)
        made = d.json("checkpoint", job)
        made = made[0] if isinstance(made, list) else made
        files = d.checkpoint_files(job, made["name"])
        equal(sorted(files), ["manifest.json", "model.safetensors",
                              "optimizer.safetensors", "state.json"],
              "files of a checkpoint")
        listed = [c["name"] for c in d.json("checkpoints", job)]
        check(made["name"] in listed, "it is listed")
        d.ctl("cancel", job)
        equal(d.status(job)["state"], "cancelled", "state")
        equal(d.try_ctl("wait", job).returncode, 3, "exit code")
        equal(d.worker_pids(), [], "no process is left")
        r = d.try_ctl("resume", job)
        check(r.returncode != 0 and "cancelled" in r.stderr,
              f"a final state never changes: {r.stderr}")


def rollback_restores_everything():
    """weights, moments, counters and the scaler's five values come back"""
    with Daemon() as d:
        blobs(d.dir)
        spec = mlp_spec(d.dir, train=ENDLESS, checkpoint={
            "every_updates": 100, "keep": 50, "best": "accuracy"})
        job = d.submit(spec)
        d.wait_iteration(job, 350)
        target = d.json("checkpoints", job)[0]
        dry = d.json("rollback", "--to", target["id"], "--dry-run", job)
        equal(d.status(job)["rollbacks"], 0, "a dry run does nothing")
        equal(dry["iteration"], target["iteration"], "and says where to")
        done = d.json("rollback", "--to", target["id"], job)
        equal(done["iteration"], target["iteration"], "gone back")
        d.wait_iteration(job, target["iteration"] + 250)
        again = wait_for("a checkpoint of the second line", lambda: [
            c for c in d.json("checkpoints", job) if c["attempt"] == 2])
        d.ctl("cancel", job)

        # The line after the rollback repeats the first line's bits.
        lines = [d.sql("SELECT iteration, updates, skipped, loss, scale, lr,"
                       " grad_norm FROM metric WHERE job = ? AND attempt = ?"
                       " AND iteration > ? AND iteration <= ?"
                       " ORDER BY iteration", job, attempt,
                       target["iteration"], target["iteration"] + 200)
                 for attempt in (1, 2)]
        n = min(map(len, lines))
        check(n > 50, f"both lines can be queried: {n} rows")
        check(lines[0][:n] == lines[1][:n], "the same iterations again")
        twin = [c for c in d.json("checkpoints", "--all-lines", job)
                if c["iteration"] == again[0]["iteration"]]
        equal(len(twin), 2, "one checkpoint on each line")
        a, b = (d.checkpoint_files(job, c["name"]) for c in twin)
        for name in ("model.safetensors", "optimizer.safetensors"):
            check(a[name] == b[name], f"{name} equal on both lines")
        scalers = [json.loads(x["state.json"])["scaler"] for x in (a, b)]
        equal(scalers[0], scalers[1], "the scaler's values")
        for key in ("scale", "growth_factor", "backoff_factor",
                    "growth_interval", "_growth_tracker"):
            check(key in scalers[0], f"{key} is saved")
        check_ledger(d, job)
        equal(d.sql("SELECT count(*) FROM rollback WHERE job = ?", job),
              [(1,)], "the rollback is recorded")
        dead = d.sql("SELECT count(*) FROM metric WHERE job = ? AND live = 0"
                     " AND attempt = 1 AND iteration > ?", job,
                     target["iteration"])
        check(dead[0][0] > 0, "the abandoned line is kept and marked")


def rollback_status_is_of_the_live_line():
    """status forgets the numbers of the line that was left"""
    with Daemon() as d:
        blobs(d.dir)
        spec = mlp_spec(d.dir, train=ENDLESS, evaluate={"every_updates": 100},
                        checkpoint={"every_updates": 100, "keep": 50})
        job = d.submit(spec)
        d.wait_iteration(job, 350)
        d.ctl("pause", job)
        other = d.submit(mlp_spec(d.dir, train=ENDLESS))  # holds the device
        d.wait_iteration(other, 1)
        left = d.status(job)
        check(left["accuracy"] != "NaN" and left["iteration"] >= 350, left)
        first = d.json("checkpoints", job)[0]
        d.ctl("rollback", "--to", first["name"], job)
        s = d.status(job)
        equal((s["state"], s["iteration"]), ("queued", first["iteration"]),
              "gone back")
        equal((s["checkpoint"], s["checkpoint_iteration"]),
              (first["name"], first["iteration"]), "its checkpoint")
        for key in ("loss", "scale", "lr", "accuracy", "best_accuracy"):
            equal(s[key], "NaN", key)
        check("accuracy" not in d.ctl("status", job), "nor in words")
        d.ctl("cancel", other)
        d.wait_iteration(job, first["iteration"] + 1)
        d.ctl("pause", job)
        best, = d.sql("SELECT max(accuracy) FROM evaluation WHERE job = ?"
                      " AND live = 1", job)
        equal(d.status(job)["best_accuracy"], best[0], "best of this line")


def rollback_refuses_nonsense():
    """a checkpoint that is not there, a final job: one sentence"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS))
        d.wait_iteration(job, 20)
        r = d.try_ctl("rollback", "--to", 999, job)
        check(r.returncode == 2 and "999" in r.stderr, r.stderr)
        d.ctl("cancel", job)
        r = d.try_ctl("rollback", "--to", "last", job)
        check(r.returncode == 2 and "cancelled" in r.stderr, r.stderr)
        r = d.try_ctl("status", 77)
        check(r.returncode == 2 and "77" in r.stderr, r.stderr)


main(pause_resume_same_bits, checkpoint_on_demand,
     rollback_restores_everything, rollback_status_is_of_the_live_line,
     rollback_refuses_nonsense)
