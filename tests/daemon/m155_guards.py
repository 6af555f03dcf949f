#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that is lost is ended by a guard, and says so (C19)."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, check, check_ledger, equal, main, npy


def weight(path, value):
    head = json.dumps({"fc.weight": {"dtype": "F32", "shape": [1, 1],
                                     "data_offsets": [0, 4]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head +
                struct.pack("<f", value))


def c19_spec(folder, dtype, **changes):
    """y = w x with an x that no step can use."""
    npy(f"{folder}/x.npy", "<f4", (1, 1), [3e38])
    npy(f"{folder}/y.npy", "<f4", (1, 1), [0.0])
    weight(f"{folder}/w.safetensors", 10.0)
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


main(lost_runs_end, who_wants_may_go_on)
