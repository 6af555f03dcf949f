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


def exports(d, job):
    """The bytes of a job's weights, and of their averages."""
    files = []
    for ema in ([], ["--ema"]):
        path = f"{d.dir}/{job}{len(files)}.safetensors"
        d.ctl("export", job, "--to", path, *ema)
        with open(path, "rb") as f:
            files.append(f.read())
    return files


def averages_are_exported_and_resumed():
    """export --ema is another model; a pause in between changes no bit"""
    with Daemon() as d:
        spec = metrics_spec(d.dir)
        spec["train"]["epochs"] = 10 ** 9  # no pause can come too late
        spec["evaluate"]["every_updates"] = 0
        spec["checkpoint"]["every_updates"] = 0
        job = d.submit(spec)
        for attempt in (1, 2):
            d.wait_iteration(job, d.status(job)["iteration"] + 15)
            d.ctl("pause", job)
            s = d.status(job)
            equal((s["state"], s["attempt"]), ("paused", attempt), "it is held")
            if attempt == 1:
                d.ctl("resume", job)
        stopped = d.status(job)["iteration"]
        paused = exports(d, job)
        # The same up to there, without a pause.
        spec["train"]["max_iterations"] = stopped
        straight = d.submit(spec, "--wait")
        equal(d.status(straight)["iteration"], stopped, "as far")
        whole = exports(d, straight)
        equal(len(whole[0]), len(whole[1]), "the same tensors")
        check(whole[0] != whole[1], "the average is not the weights")
        check(whole[0] == paused[0], "weights after a pause")
        check(whole[1] == paused[1], "averages after a pause")


main(every_metric_is_kept_and_shown, averages_are_exported_and_resumed)
