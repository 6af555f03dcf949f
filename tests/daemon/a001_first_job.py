#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job from submit to trained weights, and everything a person asks of it."""
import csv
import io
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, blobs, check, check_ledger, equal, main, mlp_spec


def submit_wait_and_ask():
    """submit --wait exits 0; history, checkpoints and export agree"""
    with Daemon() as d:
        blobs(d.dir)
        path = os.path.join(d.dir, "spec.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(mlp_spec(d.dir), f)
        out = d.ctl("submit", "--wait", path)
        check("Submitted job 1" in out, f"submit says its number: {out!r}")

        s = d.status(1)
        equal(s["state"], "completed", "state")
        equal(s["exit_code"], 0, "exit code")
        equal(s["iteration"], 80, "10 epochs of 8 windows")
        equal(s["iteration"], s["updates"] + s["skips"], "iterations")
        check(s["skips"] >= 5, f"a scale of 2^24 must skip: {s['skips']}")
        check(s["accuracy"] > 0.9, f"it learns: {s['accuracy']}")

        n, skips = check_ledger(d, 1)
        equal((n, skips), (s["iteration"], s["skips"]), "ledger and status")

        rows = list(csv.DictReader(io.StringIO(d.ctl("metrics", "--csv", 1))))
        equal(len(rows), n, "metrics --csv")
        equal(sum(int(r["skipped"] in ("1", "true")) for r in rows), skips,
              "skips in the csv")
        few = d.json("metrics", "--max-points", 10, 1)
        check(len(few) <= 10, f"--max-points: {len(few)}")
        equal(sum(r["n"] for r in few), n, "thinned rows stand for all")
        equal(sum(r["n_skipped"] for r in few), skips, "no skip vanishes")

        got = d.json("skips", 1)
        equal(len(got), skips, "skips")
        check(all(len(g["samples"]) == 32 for g in got), "sample ids")
        inc = d.json("incidents", 1)
        equal(len(inc), skips, "an incident for each skip")
        first = inc[0]
        check(first["replayed"] and first["located"], f"located: {first}")
        equal(first["pass"], "backward", "a scale too high shows in backward")

        weights = os.path.join(d.dir, "w.safetensors")
        d.ctl("export", "--to", weights, 1)
        with open(weights, "rb") as f:
            raw = f.read()
        head = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
        equal(head["fc1.weight"]["shape"], [16, 8], "weights by name")
        check("bn.running_mean" in head, "running statistics are exported")
        equal(raw, d.final_weights(1), "export is the last checkpoint")
        for word in ("conv", "Traceback"):
            check(word not in d.ctl("status", 1), word)


def three_precisions_learn():
    """fp32, bf16 and fp16 end within half a point of each other"""
    with Daemon() as d:
        blobs(d.dir, n=1024)
        accuracy = {}
        for dtype in ("float32", "bfloat16", "float16"):
            spec = mlp_spec(d.dir, amp={"dtype": dtype})
            job = d.submit(spec, "--wait")
            accuracy[dtype] = d.status(job)["accuracy"]
        check(min(accuracy.values()) > 0.9, f"all learn: {accuracy}")


def priority_then_order():
    """one device: higher priority first, then first come first served"""
    with Daemon() as d:
        blobs(d.dir)
        long = mlp_spec(d.dir, train={"epochs": 100000})
        first = d.submit(long)
        d.wait_state(first, "running")
        low = d.submit(mlp_spec(d.dir), "--priority", -1)
        mid = d.submit(mlp_spec(d.dir))
        high = d.submit(mlp_spec(d.dir), "--priority", 5)
        s = d.status(low)
        equal(s["state"], "queued", "it waits")
        check(s["reason"], "and says why")
        d.ctl("cancel", first)
        for job in (low, mid, high):
            d.wait_state(job, "completed")
        starts = {j: d.status(j)["start_us"] for j in (low, mid, high)}
        check(starts[high] < starts[mid] < starts[low], f"order: {starts}")


main(submit_wait_and_ask, three_precisions_learn, priority_then_order)
