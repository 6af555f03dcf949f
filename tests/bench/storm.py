#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What diagnosis costs: in a storm of skips, and when nothing is wrong.

Both are pairs of the same job on the shipped worker, with diagnosis and
without (diagnose.max_replays and replay_share 0), in turns A B A B.

  storm    every iteration skips: time from the end of the first budget (the
           attempt's first max_replays incidents) to the last iteration, as a
           ratio of medians; the promise is at most 1.01
  healthy  nothing ever skips: time per update

Where valgrind is there, instructions per iteration come first: they do not
depend on what else the machine does.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from scenario import npy  # noqa: E402
from worker import Job  # noqa: E402

MODEL = [{"name": "fc1", "linear": {"out_features": 1024}}, "relu",
         {"name": "fc2", "linear": {"out_features": 1024}}, "relu",
         {"name": "head", "linear": {"out_features": 10}}]
FREE = 8


def write_data(folder):
    rng = random.Random(1)
    n, k = 1024, 784
    x = [rng.gauss(0, 1) for _ in range(n * k)]
    npy(f"{folder}/healthy.npy", "<f4", (n, k), x)
    npy(f"{folder}/storm.npy", "<f4", (n, k), [v * 1e5 for v in x])
    npy(f"{folder}/y.npy", "<i4", (n,), [rng.randrange(10) for _ in range(n)])


def make_spec(folder, what, diagnosed, iterations, threads):
    spec = {
        "name": what, "threads": threads, "model": MODEL,
        "data": {"train": {"format": "npy", "input": f"{folder}/{what}.npy",
                           "target": f"{folder}/y.npy"}, "batch_size": 128},
        "loss": "cross_entropy", "optimizer": {"adamw": {"lr": 1e-3}},
        "amp": {"dtype": "float16", "scaler": {"init_scale": 1024}},
        "guard": "off", "diagnose": {"keep": 2},
        "train": {"epochs": 100000, "max_iterations": iterations}}
    if not diagnosed:
        spec["diagnose"] = {"max_replays": 0, "replay_share": 0}
    return spec


def run(folder, what, diagnosed, iterations, threads):
    """Seconds between the first counted iteration's end and the last's."""
    with Job(make_spec(folder, what, diagnosed, iterations, threads)) as job:
        attempt = job.start()
        status = attempt.wait(3600)
        if status != 0:
            sys.exit(f"{what}: exit {status}\n{attempt.stderr()}")
        steps = attempt.events("step")
        skips = sum(e["skipped"] for e in steps)
        if skips != (len(steps) if what == "storm" else 0):
            sys.exit(f"{what}: {skips} of {len(steps)} iterations skipped")
        replayed = sum(e["replayed"] for e in attempt.events("incident"))
        if what == "storm" and (replayed > 0) != diagnosed:
            sys.exit(f"storm: {replayed} replays")
        # The event of an iteration comes after its diagnosis.
        return (steps[-1]["t_us"] - steps[FREE]["t_us"]) * 1e-6, replayed


def in_turns(folder, what, a):
    seconds = {True: [], False: []}
    replayed = 0
    for _ in range(a.rounds):
        for diagnosed in (True, False):
            s, n = run(folder, what, diagnosed, a.iterations, a.threads)
            seconds[diagnosed].append(s)
            replayed = max(replayed, n)
    with_, without = (statistics.median(seconds[d]) for d in (True, False))
    per = 1e3 * without / (a.iterations - FREE)
    spread = max(seconds[False]) / min(seconds[False])
    print(f"{what:8} {per:8.3f} ms per iteration without, ratio with diagnosis"
          f" {with_ / without:.4f} (spread without {spread:.3f};"
          f" {replayed} replays)", flush=True)


def count_instructions(folder, what, diagnosed, iterations):
    """Of a whole worker with one thread and a small batch, by callgrind."""
    spec = make_spec(folder, what, diagnosed, iterations, 1)
    spec["data"]["batch_size"] = 8
    with Job(spec) as job:
        # With a policy of its own the worker does not start itself anew.
        attempt = job.start(env={"OMP_WAIT_POLICY": "passive"}, prefix=[
            "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
        if attempt.wait(3600) != 0:
            sys.exit(attempt.stderr())
        return int(re.search(r"Collected : (\d+)", attempt.stderr()).group(1))


def instructions(folder, what):
    """Per iteration; starting, ending and the first budget are left out."""
    few, many = FREE + 4, FREE + 24
    per = {}
    for diagnosed in (True, False):
        n = [count_instructions(folder, what, diagnosed, i)
             for i in (few, many)]
        per[diagnosed] = (n[1] - n[0]) / (many - few)
    print(f"{what:8} {per[False] / 1e6:8.3f} million instructions per iteration"
          f" without, ratio with diagnosis {per[True] / per[False]:.6f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1500)
    parser.add_argument("--instructions", action=argparse.BooleanOptionalAction,
                        default=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder)
        for what in ("storm", "healthy"):
            if a.instructions and shutil.which("valgrind"):
                instructions(folder, what)
            if a.rounds > 0:
                in_turns(folder, what, a)


if __name__ == "__main__":
    main()
