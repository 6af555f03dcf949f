#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input gets one clear error that names the place, and nothing is lost."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, equal, main, mlp_spec, npy,
                      write_spec)

FIVE_FAULTS = """{
  "name": "bad",
  "data": {
    "train": {"format": "npy", "input": "x.npy", "target": "y.npy"},
    "batch_sise": 32,
    "batch_size": 0
  },
  "model": [{"linear": {"out_feature": 16}}, "relo"],
  "loss": "cross_entropy",
  "optimizer": {"adamw": {"lr": "fast"}}
}
"""


def five_faults_five_lines():
    """every fault of a spec at once, each with file, line, column and path"""
    with Daemon() as d:
        path = os.path.join(d.dir, "bad.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(FIVE_FAULTS)
        for verb in ("validate", "submit"):
            r = d.try_ctl(verb, path)
            equal(r.returncode, 65, f"{verb}: exit code")
            lines = [x for x in r.stderr.split("\n") if ": error: " in x]
            places = [re.match(r".*bad\.json:(\d+):(\d+): error: (.*)", x)
                      for x in lines]
            check(all(places), f"{verb}: places: {r.stderr}")
            equal(sorted({int(m.group(1)) for m in places}), [5, 6, 8, 10],
                  f"{verb}: lines of the faults")
            check(len(lines) >= 5, f"{verb}: five faults: {lines}")
            text = "\n".join(lines)
            for word in ("batch_size", "out_features", "relu"):
                check(f"did you mean {word}" in text,
                      f"{verb}: suggests {word}: {text}")
        equal(d.json("list", "--all") if "--all" in d.ctl("help", "list")
              else [], [], "nothing was queued")


def check_said(d, path, words, early, *flags):
    """with `early` no job is made; else its reason says the same"""
    r = d.try_ctl("submit", "--wait", *flags, path)
    check(r.returncode not in (0, 69, 70), f"exit code {r.returncode}")
    job = d.json("list", "--all")
    if early:
        equal(r.returncode, 65, "exit code")
        equal(job, [], "nothing was queued")
    said = r.stderr + (job[0]["reason"] if job else "")
    for word in words:
        check(word in said, f"says {word!r}: {said}")
    check("\n\n" not in said.strip(), f"one sentence: {said}")
    d.ctl("ping")


def bad_data(name, prepare, words, early=True):
    def scenario():
        with Daemon() as d:
            blobs(d.dir)
            spec = mlp_spec(d.dir)
            prepare(d.dir, spec)
            path = write_spec(d.dir, spec)
            check_said(d, path, words, early)
            check_said(d, path, words, False, "--no-data")
    scenario.__name__ = name
    scenario.__doc__ = "told before a job is queued; else the job says it"
    return scenario


def truncate(path, n):
    with open(path, "r+b") as f:
        f.truncate(n)


def missing(folder, spec):
    os.unlink(f"{folder}/x.npy")


def truncated(folder, spec):
    truncate(f"{folder}/x.npy", 1000)


def wrong_magic(folder, spec):
    with open(f"{folder}/x.npy", "wb") as f:
        f.write(b"PK\x03\x04 this is a zip" * 20)


def label_out_of_range(folder, spec):
    npy(f"{folder}/y.npy", "<i4", (256,), [3 if i == 9 else 0
                                           for i in range(256)])


def other_length(folder, spec):
    npy(f"{folder}/y.npy", "<i4", (255,), [0] * 255)


def shape_that_does_not_fit(folder, spec):
    spec["model"].insert(0, {"name": "c", "conv2d": {
        "out_channels": 4, "kernel_size": 3}})


def last_batch_of_one(folder, spec):
    spec["data"]["batch_size"] = 255
    spec["model"].insert(0, "batch_norm1d")


def more_than_all(folder, spec):
    spec["evaluate"] = {"metrics": ["accuracy", "top_k"], "top_k": 4}


def other_weights(folder, spec):
    with open(f"{folder}/w.safetensors", "wb") as f:
        f.write(b"\xff" * 8 + b"{}")
    spec["initial_weights"] = f"{folder}/w.safetensors"


def places_in_the_spec():
    """what the worker finds has its line and column in the user's file"""
    with Daemon() as d:
        blobs(d.dir)
        for change, place in (
                ({"model": [{"name": "s", "sequential": [{"conv2d": {
                    "out_channels": 4, "kernel_size": 3}}]}]},
                 ('"conv2d"', 1, "model: s.0 (conv2d): ")),
                ({"model": {"resnet": {"depth": 8, "num_classes": 3}}},
                 ('"model"', 0, "model: conv1 (conv2d): ")),
                ({"model": [{"reshape": {"shape": [2, 4]}}]},
                 ('"cross_entropy"', 0, "loss: cross_entropy: ")),
                ({"evaluate": {"metrics": ["accuracy", "top_k"], "top_k": 4}},
                 ('"top_k": 4', 0, "evaluate.top_k: ")),
                ({"model": [{"linear": {"out_features": 257}}],
                  "evaluate": {"metrics": ["accuracy", "confusion"]}},
                 ('"metrics"', 0, "evaluate.metrics: confusion: "))):
            path = write_spec(d.dir, mlp_spec(d.dir, **change))
            with open(path, encoding="utf-8") as f:
                lines = f.read().split("\n")
            line = [i for i, x in enumerate(lines) if place[0] in x][-1]
            r = d.try_ctl("validate", path)
            equal(r.returncode, 65, "exit code")
            check(f":{line + 1 - place[1]}:" in r.stdout + r.stderr and
                  place[2] in r.stdout + r.stderr,
                  f"line {line + 1 - place[1]}: {r.stdout}{r.stderr}")


main(five_faults_five_lines,
     bad_data("missing_file", missing, ["x.npy"]),
     bad_data("truncated_file", truncated, ["x.npy", "872", "8192"]),
     bad_data("wrong_magic", wrong_magic, ["x.npy"]),
     bad_data("label_out_of_range", label_out_of_range,
              ["y.npy", "row 10", "3", "0..2"]),
     bad_data("wrong_length", other_length, ["256", "255"]),
     bad_data("shape_that_does_not_fit", shape_that_does_not_fit,
              ["conv2d"]),
     bad_data("last_batch_of_one", last_batch_of_one,
              ["batch_norm1d", "a batch of 1"]),
     bad_data("top_k_of_fewer_classes", more_than_all, ["4 of 3"]),
     bad_data("absurd_safetensors", other_weights, ["w.safetensors"]),
     places_in_the_spec)
