#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that goes while the job stops in order to go back to it.

The worker is halted, the order given, the checkpoint taken away as retention
would, and the worker let go on: the same as if it had been just about to.
"""
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (BIN, Daemon, blobs, check, check_ledger, equal, main,
                      mlp_spec, wait_for)


def start(d):
    blobs(d.dir)
    job = d.submit(mlp_spec(d.dir, train={"epochs": 100000}, checkpoint={
        "every_updates": 1000000, "keep": 5}))
    for at in (20, 60):
        d.wait_iteration(job, at)
        d.ctl("checkpoint", job)
    return job, [c for c in d.json("checkpoints", job)
                 if c["state"] == "good"]


def change(d, statement, values):
    with contextlib.closing(sqlite3.connect(d.db_path, timeout=30)) as db:
        db.execute(statement, values)
        db.commit()


def went_to(d, job, to, gone, out):
    check(to["name"] in out and gone["name"] not in out, out)
    d.wait_iteration(job, to["iteration"] + 20)
    equal(d.json("attempts", job)[-1]["resumed_from"], to["name"],
          "where it went back to")
    (back,) = d.sql("SELECT checkpoint, to_iteration FROM rollback")
    equal(back, (to["id"], to["iteration"]), "and what is written")
    d.ctl("cancel", job)
    check_ledger(d, job)


def mark_best(d, checkpoint):
    change(d, "UPDATE checkpoint SET best = (id = ?)", (checkpoint,))


def take_away_while_stopping(d, job, checkpoint, *args, best=0):
    """Exit code, output and words of trainctl rollback."""
    (pid,) = d.worker_pids(job)
    os.kill(pid, signal.SIGSTOP)
    with subprocess.Popen(
            [os.path.join(BIN, "trainctl"), "--json", "rollback", str(job),
             *args], env=d.env, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True) as client:
        wait_for("the order", lambda: d.sql(
            "SELECT 1 FROM job WHERE id = ? AND intent = 'rollback'", job))
        change(d, "UPDATE checkpoint SET state = 'pruned' WHERE id = ?",
               (checkpoint,))
        mark_best(d, best)
        os.kill(pid, signal.SIGCONT)
        out, err = client.communicate(timeout=60)
        return client.returncode, out, err


def one_that_was_named_pauses_the_job():
    """nothing else is chosen for it, and nothing of the change stays"""
    with Daemon() as d:
        job, (first, second) = start(d)
        code, _, words = take_away_while_stopping(
            d, job, first["id"], "--to", str(first["id"]), "--set",
            "amp.dtype=bfloat16", "--accept-policy-change")
        equal(code, 74, f"exit code: {words}")
        check("not good any more" in words, words)
        s = d.wait_state(job, "paused")
        check(f"trainctl checkpoints {job}" in s["reason"], s["reason"])
        equal((s["rollbacks"], s["policy_changed"]), (0, False), "as before")
        d.ctl("resume", job)
        d.wait_iteration(job, s["iteration"] + 20)
        equal(d.json("attempts", job)[-1]["resumed_from"], second["name"],
              "it goes on where it was")
        d.ctl("cancel", job)
        check_ledger(d, job)


def the_last_is_whichever_is_last():
    """asked for the last one, it takes the one that is the last now"""
    with Daemon() as d:
        job, (first, second) = start(d)
        code, out, words = take_away_while_stopping(
            d, job, second["id"], "--to", "last")
        equal(code, 0, words)
        went_to(d, job, first, second, out)


def the_best_is_whichever_is_best():
    """so with the best one; where none is left, the job pauses"""
    with Daemon() as d:
        job, (first, second) = start(d)
        mark_best(d, second["id"])
        code, out, words = take_away_while_stopping(
            d, job, second["id"], "--to", "best", best=first["id"])
        equal(code, 0, words)
        went_to(d, job, first, second, out)
    with Daemon() as d:
        job, (first, second) = start(d)
        mark_best(d, second["id"])
        code, _, words = take_away_while_stopping(
            d, job, second["id"], "--to", "best")
        equal(code, 74, words)
        s = d.wait_state(job, "paused")
        check("not good any more" in s["reason"], s["reason"])


def what_comes_with_it_moves_along():
    """windows to pass over, and where the policy changed, are of the new one"""
    with Daemon() as d:
        job, (first, second) = start(d)
        code, out, words = take_away_while_stopping(
            d, job, second["id"], "--to", "last", "--skip-batches", "3",
            "--set", "amp.dtype=bfloat16", "--accept-policy-change")
        equal(code, 0, words)
        at = first["iteration"]
        changes, windows = d.sql("SELECT changes, skip_windows FROM job")[0]
        equal(json.loads(windows), [at, 3], "windows")
        equal([c["iteration"] for c in json.loads(changes)], [at], "changes")
        went_to(d, job, first, second, out)


main(one_that_was_named_pauses_the_job, the_last_is_whichever_is_last,
     the_best_is_whichever_is_best, what_comes_with_it_moves_along)
