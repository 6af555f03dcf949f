#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of worker, daemon and both at twenty random points."""
import os
import random
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, blobs, check, check_ledger, equal, main, mlp_spec

KILLS = 20


def kill_twenty_times():
    """final weights and ledger equal those of a run nobody touched"""
    seed = int(os.environ.get("TRAIND_SEED", "20261201"))
    r = random.Random(seed)
    print(f"TRAIND_SEED={seed}", flush=True)
    with Daemon(config="[jobs]\nmax_lost_attempts = 1000\n") as d:
        blobs(d.dir, n=250)
        spec = mlp_spec(
            d.dir, train={"epochs": 4000, "clip_grad_norm": 1.0},
            evaluate={"every_updates": 1000},
            checkpoint={"every_updates": 50, "keep": 3, "best": "accuracy"})
        calm = d.submit(spec, "--wait")
        job = d.submit(spec)
        reach = d.status(calm)["iteration"] * 7 // 10
        kills = {"worker": 0, "daemon": 0, "both": 0}
        for i in range(KILLS):
            # In the first seven tenths: a kill needs a job that still runs.
            s = d.wait_iteration(job, r.randrange(
                i * reach // KILLS, (i + 1) * reach // KILLS))
            if s["end_us"]:
                break
            victim = r.choice(sorted(kills))
            kills[victim] += 1
            if victim != "worker":
                d.kill()
            if victim != "daemon":
                d.kill_workers()
            if victim != "worker":
                d.start()
            states = d.sql("SELECT id, state FROM job ORDER BY id")
            equal(states[0], (calm, "completed"), "a final state stays")
            equal(len(states), 2, "no job is lost, none appears")
        print(f"kills: {kills}", flush=True)
        equal(sum(kills.values()), KILLS, "kills before the job's end")
        equal(d.try_ctl("wait", job).returncode, 0, "wait")
        equal(d.final_weights(job), d.final_weights(calm), "final weights")
        equal(check_ledger(d, job), check_ledger(d, calm), "ledgers")
        rows = [d.sql("SELECT iteration, updates, cause, before, after,"
                      " samples FROM scale_event WHERE job = ? AND live = 1"
                      " ORDER BY iteration", j) for j in (calm, job)]
        check(rows[0] == rows[1], "every skip and scale change exactly once")
        rows = [d.sql("SELECT iteration, loss, accuracy FROM evaluation"
                      " WHERE job = ? AND live = 1 ORDER BY iteration", j)
                for j in (calm, job)]
        check(rows[0] == rows[1], "the same evaluations")


main(kill_twenty_times)
