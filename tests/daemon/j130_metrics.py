#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two optimizers, an average of weights and every metric, seen by a user."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, check_ledger, equal, main,
                      mlp_spec)

N, CLASSES = 256, 3


def metrics_spec(folder):
    blobs(folder, N, classes=CLASSES)
    return mlp_spec(
        folder,
        optimizer=[{"rmsprop": {"lr": 1e-3, "momentum": 0.9,
                                "centered": True}, "match": ["head.*"]},
                   {"adamw": {"lr": 1e-2}}],
        train={"epochs": 10, "clip_grad_norm": 1.0,
               "ema": {"decay": 0.9, "evaluate": True}},
        evaluate={"every_updates": 20, "top_k": 2, "metrics": [
            "loss", "accuracy", "top_k", "perplexity", "confusion"]},
        checkpoint={"every_updates": 20, "keep": 3, "best": "perplexity"})


def every_metric_is_kept_and_shown():
    """evaluations in trainctl and in the database agree"""
    with Daemon() as d:
        job = d.submit(metrics_spec(d.dir), "--wait")
        s = d.status(job)
        check(s["accuracy"] > 0.8, f"it learns: {s['accuracy']}")
        check(s["accuracy"] <= s["top_k"] <= 1, f"top-k: {s['top_k']}")
        check(1 <= s["perplexity"] < CLASSES, f"perplexity {s['perplexity']}")
        rows = d.json("evaluations", job)
        check(len(rows) >= 3, f"{len(rows)} evaluations")
        check(all(r["ema"] for r in rows), "of the averaged weights")
        equal(d.sql("SELECT accuracy, top_k, perplexity FROM evaluation"
                    " WHERE job = ? ORDER BY id", job),
              [(r["accuracy"], r["top_k"], r["perplexity"]) for r in rows],
              "in the database")
        table = d.json("evaluations", job, "--confusion")["confusion"]
        equal((len(table), sum(table)), (CLASSES * CLASSES, N), "its cells")
        right = sum(table[i * CLASSES + i] for i in range(CLASSES))
        equal(right / N, s["accuracy"], "its diagonal")
        check("rows are the right classes" in
              d.ctl("evaluations", job, "--confusion"), "as a table")
        best = [c for c in d.json("checkpoints", job) if c["best"]]
        equal(len(best), 1, "one is best")
        equal(best[0]["metric"], min(r["perplexity"] for r in rows
                                     if not r["incomplete"]),
              "the smallest perplexity")
        check_ledger(d, job)


def averages_are_exported_and_resumed():
    """export --ema is another model; a pause in between changes no bit"""
    with Daemon() as d:
        spec = metrics_spec(d.dir)
        spec["train"]["epochs"] = 3000  # long enough to be paused
        spec["evaluate"]["every_updates"] = 0
        spec["checkpoint"]["every_updates"] = 0
        files = []
        for pause in (False, True):
            job = d.submit(spec)
            if pause:
                d.wait_iteration(job, 15)
                d.ctl("pause", job)
                equal(d.status(job)["state"], "paused", "it is held")
                d.ctl("resume", job)
            d.ctl("wait", job)
            for ema in ([], ["--ema"]):
                path = f"{d.dir}/{len(files)}.safetensors"
                d.ctl("export", job, "--to", path, *ema)
                with open(path, "rb") as f:
                    files.append(f.read())
        equal(len(files[0]), len(files[1]), "the same tensors")
        check(files[0] != files[1], "the average is not the weights")
        check(files[0] == files[2], "weights after a pause")
        check(files[1] == files[3], "averages after a pause")


main(every_metric_is_kept_and_shown, averages_are_exported_and_resumed)
