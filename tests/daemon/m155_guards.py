#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What guards do to a job: fail it (C19), pause it, send it back changed."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, check_ledger, equal, main,
                      mlp_spec, npy, wait_for)


def tensors(values, path):
    """A safetensors file: name -> (shape, numbers)."""
    head, data = {}, b""
    for name, (shape, numbers) in sorted(values.items()):
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        head[name] = {"dtype": "F32", "shape": shape,
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def c19_spec(folder, dtype, **changes):
    """y = w x with an x that no step can use."""
    npy(f"{folder}/x.npy", "<f4", (1, 1), [3e38])
    npy(f"{folder}/y.npy", "<f4", (1, 1), [0.0])
    tensors({"fc.weight": ([1, 1], [10.0])}, f"{folder}/w.safetensors")
    spec = {
        "name": "c19", "threads": 1, "data": {
            "train": {"format": "npy", "input": f"{folder}/x.npy",
                      "target": f"{folder}/y.npy"}, "batch_size": 1},
        "initial_weights": f"{folder}/w.safetensors",
        "model": [{"name": "fc",
                   "linear": {"out_features": 1, "bias": False}}],
        "loss": "mse", "optimizer": {"sgd": {"lr": 0.1}},
        "amp": {"dtype": dtype}, "train": {"epochs": 100}}
    spec.update(changes)
    return spec


def lost_runs_end():
    """C19: 20 skips, the scale at its floor, failed with exit 9"""
    scales = {"float16": [max(2.0 ** (15 - i), 1) for i in range(20)],
              "bfloat16": [1.0] * 20}
    for dtype, want in scales.items():
        with Daemon() as d:
            job = d.submit(c19_spec(d.dir, dtype))
            d.ctl("wait", job, rc=9)
            s = d.status(job)
            equal((s["state"], s["exit_code"], s["error"]),
                  ("failed", 9, "numerics"), s["reason"])
            check("guard 0 (consecutive_skips): 20 updates in a row were "
                  "skipped" in s["reason"], s["reason"])
            equal((s["iteration"], s["updates"], s["skips"]), (20, 0, 20),
                  "counters")
            rows = d.json("skips", job)
            equal([r["after"] for r in rows], want, "scales")
            equal(d.json("checkpoints", job), [], "checkpoints")
            check_ledger(d, job)


def who_wants_may_go_on():
    """guard: off skips to the end of its epochs"""
    with Daemon() as d:
        spec = c19_spec(d.dir, "float16", guard="off", train={"epochs": 40})
        job = d.submit(spec, "--wait")
        s = d.status(job)
        equal((s["state"], s["iteration"], s["skips"]), ("completed", 40, 40),
              s["reason"])
        check_ledger(d, job)


def line_spec(folder, values, **changes):
    """y = w x over samples in their order, one to a batch."""
    npy(f"{folder}/lx.npy", "<f4", (len(values), 1), values)
    npy(f"{folder}/ly.npy", "<f4", (len(values), 1), [0.0] * len(values))
    spec = c19_spec(folder, "float32", **changes)
    spec["data"] = {"train": {"format": "npy", "input": f"{folder}/lx.npy",
                              "target": f"{folder}/ly.npy"},
                    "batch_size": 1, "shuffle": False}
    spec["optimizer"]["sgd"]["lr"] = 0.0
    return spec


NAN = float("nan")


def a_pause_waits_for_a_person():
    """paused with a checkpoint; resumed it goes on to its end"""
    with Daemon() as d:
        job = d.submit(line_spec(
            d.dir, [1.0, 1.0, NAN, NAN, 1.0, 1.0], train={"epochs": 1},
            guard=[{"when": {"consecutive_skips": 2}, "do": "pause"}]))
        s = d.wait_state(job, "paused")
        check("2 updates in a row were skipped" in s["reason"], s["reason"])
        equal((s["iteration"], s["updates"], s["skips"]), (4, 2, 2),
              "counters")
        equal([c["iteration"] for c in d.json("checkpoints", job)], [4],
              "checkpoints")
        d.ctl("resume", job)
        s = d.wait_state(job, "completed")
        equal((s["iteration"], s["updates"], s["skips"]), (6, 4, 2),
              "counters")
        check_ledger(d, job)


def bad_batches_are_passed_over():
    """back to the last checkpoint, on without them, as long as before"""
    with Daemon() as d:
        job = d.submit(line_spec(
            d.dir, [1.0, 1.0, NAN, NAN, 3.0, 3.0], train={"epochs": 1},
            checkpoint={"every_updates": 2}, guard=[
                {"when": {"consecutive_skips": 2}, "do": "rollback",
                 "with": {"skip_batches": True}}]))
        s = d.wait_state(job, "completed", "failed")
        equal((s["state"], s["iteration"], s["updates"], s["skips"]),
              ("completed", 6, 6, 0), s["reason"])
        equal((s["rollbacks"], s["guard_rollbacks"], s["policy_changed"]),
              (1, 1, False), "rollbacks")
        losses = [m["loss"] for m in d.json("metrics", job)]
        equal(losses, [100.0, 100.0, 900.0, 900.0, 100.0, 100.0], "losses")
        check_ledger(d, job)


def rollbacks_are_bounded():
    """max_rollbacks of them, then exit 9"""
    with Daemon() as d:
        spec = line_spec(
            d.dir, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], train={"epochs": 1},
            guard={"max_rollbacks": 2, "rules": [
                {"when": {"loss_above": 300}, "do": "rollback",
                 "with": {"skip_batches": True}}]})
        job = d.submit(spec)
        s = d.wait_state(job, "completed", "failed")
        equal((s["state"], s["exit_code"], s["guard_rollbacks"]),
              ("failed", 9, 2), s["reason"])
        check("guard.max_rollbacks allows 2" in s["reason"], s["reason"])
        check_ledger(d, job)


def a_lower_scale_is_begun_with():
    """half of what the checkpoint had, told as set"""
    with Daemon() as d:
        spec = line_spec(
            d.dir, [1.0, 2.0, 3.0, 4.0], train={"epochs": 1},
            amp={"dtype": "float16", "scaler": {"init_scale": 64}},
            guard={"max_rollbacks": 1, "rules": [
                {"when": {"loss_above": 300}, "do": "rollback",
                 "with": {"lower_scale": 0.5}}]},
            checkpoint={"every_updates": 1})
        job = d.submit(spec)
        s = d.wait_state(job, "completed", "failed")
        equal((s["state"], s["guard_rollbacks"], s["policy_changed"]),
              ("failed", 1, False), s["reason"])
        rows = d.json("scale", job)
        equal([(r["cause"], r["before"], r["after"]) for r in rows],
              [("set", 64.0, 32.0)], "scale")
        check_ledger(d, job)


def c08_spec(folder):
    """fc1 makes 67072 of it, which fc2 would read as float16."""
    npy(f"{folder}/x.npy", "<f4", (1, 2), [256.0, 256.0])
    npy(f"{folder}/y.npy", "<f4", (1, 1), [0.0])
    tensors({"fc1.weight": ([2, 2], [128, 131, 0.5, 0.25]),
             "fc1.bias": ([2], [0, 0]), "fc2.bias": ([1], [0]),
             "fc2.weight": ([1, 2], [0.01, 0.01])}, f"{folder}/w.safetensors")
    return {
        "name": "c08", "threads": 1, "data": {
            "train": {"format": "npy", "input": f"{folder}/x.npy",
                      "target": f"{folder}/y.npy"}, "batch_size": 1},
        "initial_weights": f"{folder}/w.safetensors",
        "model": [{"name": "fc1", "linear": {"out_features": 2}}, "relu",
                  {"name": "fc2", "linear": {"out_features": 1}}],
        "loss": "mse", "optimizer": {"sgd": {"lr": 0.0}},
        "amp": {"dtype": "float16"}, "train": {"epochs": 9}, "guard": "auto"}


def float16_repairs_itself():
    """C08 with guard: auto: one rollback, two layers in float32, no skip"""
    with Daemon() as d:
        job = d.submit(c08_spec(d.dir))
        s = d.wait_state(job, "completed", "failed")
        equal((s["state"], s["iteration"], s["skips"]), ("completed", 9, 0),
              s["reason"])
        equal((s["rollbacks"], s["guard_rollbacks"], s["policy_changed"]),
              (1, 1, True), "rollbacks")
        check("fc1" in s["difference"] and "fc2" in s["difference"],
              s["difference"])
        check_ledger(d, job)


def a_set_scale_outlives_the_worker():
    """until there is a checkpoint that has it, each attempt begins with it"""
    with Daemon(config="[jobs]\nmax_lost_attempts = 1000\n") as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(
            d.dir, train={"epochs": 1000000}, evaluate={"every_updates": 0},
            checkpoint={"every_updates": 0, "keep": 9}))
        d.wait_iteration(job, 50)
        d.ctl("pause", job)
        last = d.json("checkpoints", job)[-1]
        answer = d.ask("rollback", job=str(job), to=str(last["id"]),
                       scale=4096)
        check(answer["ok"], answer)
        for attempt in (2, 3):
            wait_for("the attempt to train", lambda a=attempt: d.sql(
                "SELECT count(*) FROM metric WHERE job = ? AND attempt = ?",
                job, a)[0][0] > 20)
            d.kill_workers()
        wait_for("attempt 4", lambda: d.status(job)["attempt"] == 4)
        wait_for("its first step", lambda: d.sql(
            "SELECT count(*) FROM metric WHERE job = ? AND attempt = 4",
            job) != [(0,)])
        d.ctl("pause", job)
        equal(d.sql("SELECT attempt, after FROM scale_event WHERE job = ? AND"
                    " cause = 'set' AND live = 1", job), [(4, 4096.0)], "set")
        # The pause has kept it: from now on the scale is the checkpoint's.
        d.ctl("resume", job)
        wait_for("attempt 5", lambda: d.sql(
            "SELECT count(*) FROM metric WHERE job = ? AND attempt = 5",
            job) != [(0,)])
        d.ctl("pause", job)
        equal(d.sql("SELECT attempt FROM scale_event WHERE job = ? AND"
                    " cause = 'set' AND live = 1", job), [(4,)], "set once")
        check_ledger(d, job)


main(lost_runs_end, who_wants_may_go_on, a_pause_waits_for_a_person,
     bad_batches_are_passed_over, rollbacks_are_bounded,
     a_lower_scale_is_begun_with, float16_repairs_itself,
     a_set_scale_outlives_the_worker)
