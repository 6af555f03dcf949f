#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A damaged or half-written checkpoint is never resumed from (C37, C59)."""
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, blobs, check, equal, main, mlp_spec, wait_for

ENDLESS = {"epochs": 1000000}


def flip(path):
    with open(path, "r+b") as f:
        f.seek(-5, os.SEEK_END)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))


def shorten(path):
    os.truncate(path, os.path.getsize(path) - 1)


def empty(path):
    os.truncate(path, 0)


def paused_job(d):
    job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint={
        "every_updates": 100, "keep": 3}))
    d.wait_iteration(job, 250)
    d.ctl("pause", job)
    last, before = d.sql("SELECT name, iteration FROM checkpoint WHERE job = ?"
                         " AND state = 'good' ORDER BY iteration DESC LIMIT 2",
                         job)
    return job, last, before


def damage(name, wound):
    def scenario():
        with Daemon() as d:
            blobs(d.dir)
            job, last, before = paused_job(d)
            wound(d, job, last[0], before[0])
            d.ctl("resume", job)
            d.wait_state(job, "running")
            (start, resumed), = wait_for("the second attempt to start", lambda:
                d.sql("SELECT start_iteration, resumed_from FROM attempt"
                      " WHERE job = ? AND attempt = 2 AND resumed_from <> ''",
                      job))
            equal((resumed, start), before, "resumed from the one before")
            state = d.sql("SELECT state FROM checkpoint WHERE job = ? AND"
                          " name = ?", job, last[0])
            equal(state, [("bad",)], "the damaged one is marked")
            said = d.sql("SELECT text FROM event WHERE job = ? AND kind ="
                         " 'checkpoint_failed'", job)
            check(said and last[0] in said[0][0], f"and told: {said}")
            d.ctl("cancel", job)
    scenario.__name__ = name
    scenario.__doc__ = "detected; resumed from the checkpoint before it"
    return scenario


def on_file(file, wound):
    def apply(d, job, last, before):
        wound(os.path.join(d.job_dir(job), "checkpoints", last, file))
    return apply


def foreign_manifest(d, job, last, before):
    folder = os.path.join(d.job_dir(job), "checkpoints")
    shutil.copy(f"{folder}/{before}/manifest.json",
                f"{folder}/{last}/manifest.json")


def killed_while_writing(point, passes, resumes_from_new):
    """passes: which passing of the place lies in the second checkpoint."""
    def scenario():
        with Daemon(config="[jobs]\nmax_lost_attempts = 50\n",
                    env={"TRAIND_FAILPOINT": f"{point}:{passes}"}) as d:
            blobs(d.dir)
            # Kept incidents pass the same places.
            job = d.submit(mlp_spec(d.dir, diagnose={"keep": 0}, checkpoint={
                "every_updates": 30, "keep": 3}))
            wait_for("the second attempt", lambda: d.sql(
                "SELECT 1 FROM attempt WHERE job = ? AND attempt = 2 AND"
                " resumed_from <> ''", job))
            rows = d.sql("SELECT c.updates FROM attempt a JOIN checkpoint c"
                         " ON c.job = a.job AND c.name = a.resumed_from"
                         " WHERE a.job = ? AND a.attempt = 2", job)
            equal(rows, [(60 if resumes_from_new else 30,)], "resumed from")
            wait_for("leftovers to be swept", lambda: not [
                f for f in os.listdir(
                    os.path.join(d.job_dir(job), "checkpoints"))
                if f.startswith(".tmp")] or d.status(job)["end_us"])
    scenario.__name__ = "killed_at_" + point.replace(".", "_")
    scenario.__doc__ = "half a checkpoint is never listed"
    return scenario


main(damage("flipped_byte", on_file("model.safetensors", flip)),
     damage("truncated", on_file("optimizer.safetensors", shorten)),
     damage("emptied", on_file("state.json", empty)),
     damage("manifest_of_another", foreign_manifest),
     killed_while_writing("ckpt.half_data", 3, False),
     killed_while_writing("ckpt.before_fsync", 5, False),
     killed_while_writing("ckpt.before_manifest", 2, False),
     killed_while_writing("ckpt.before_rename", 2, False),
     killed_while_writing("ckpt.after_rename", 2, True))
