#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker that is stuck or dies leaves nothing behind (case C65)."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, equal, main, mlp_spec, wait_for)

ENDLESS = {"epochs": 1000000}


def cancel_of_a_frozen_worker():
    """a worker that answers no order is killed after its grace"""
    with Daemon(config="[jobs]\nkill_grace = 1s\n") as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS))
        d.wait_iteration(job, 50)
        pid, = d.worker_pids(job)
        os.kill(pid, signal.SIGSTOP)
        d.ctl("cancel", job)
        equal(d.status(job)["state"], "cancelled", "state")
        equal(d.worker_pids(), [], "processes left")
        good = d.sql("SELECT count(*) FROM checkpoint WHERE job = ? AND"
                     " state = 'good'", job)
        check(good[0][0] > 0, "its checkpoints are intact")
        d.submit(mlp_spec(d.dir), "--wait")


def worker_that_keeps_dying():
    """a crash goes on from a checkpoint; crashing for ever ends as failed"""
    with Daemon(env={"TRAIND_FAILPOINT": "ckpt.before_rename"}) as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS))
        s = d.wait_state(job, "failed", "interrupted")
        check(s["attempt"] >= 3, f"it was tried again: {s['attempt']}")
        check("SIGKILL" in s["reason"] or "signal" in s["reason"] or
              "killed" in s["reason"], f"and says why: {s['reason']}")
        equal(d.worker_pids(), [], "processes left")
        d.ctl("ping")


def obituary_names_the_signal():
    """every way a worker ends is told in a sentence"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS))
        d.wait_iteration(job, 50)
        d.kill_workers(signal.SIGILL)
        wait_for("a second attempt", lambda: d.status(job)["attempt"] == 2)
        (said,), = d.sql("SELECT obituary FROM attempt WHERE job = ? AND"
                         " attempt = 1", job)
        check("SIGILL" in said, said)
        d.ctl("cancel", job)


main(cancel_of_a_frozen_worker, worker_that_keeps_dying,
     obituary_names_the_signal)
