#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What diagnosis costs: in a storm of skips, and when nothing is wrong.

Both are pairs of the same job on the shipped worker, with diagnosis and
without (diagnose.max_replays and replay_share 0). The two workers of a pair
share the machine in slices of a fifth of a second, A B A B, by SIGSTOP and
SIGCONT: a machine that gets slower or faster for a while does so for both, and
an iteration that a slice cuts short goes on in the next one.

  storm    every iteration skips, counted after the first budget (the attempt's
           first max_replays incidents): time per iteration with diagnosis over
           that without; the promise is at most 1.01
  healthy  nothing ever skips

Where valgrind is there, instructions per iteration come first: they do not
depend on what else the machine does.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
from scenario import npy  # noqa: E402
from worker import Job  # noqa: E402

MODEL = [{"name": "fc1", "linear": {"out_features": 1024}}, "relu",
         {"name": "fc2", "linear": {"out_features": 1024}}, "relu",
         {"name": "head", "linear": {"out_features": 10}}]
FREE = 8
SLICE_S = 0.2
FOREVER = 100_000_000


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
        "train": {"epochs": 10_000_000, "max_iterations": iterations}}
    if not diagnosed:
        spec["diagnose"] = {"max_replays": 0, "replay_share": 0}
    return spec


class Runner:
    """A worker that runs in slices."""

    def __init__(self, folder, what, diagnosed, threads):
        self.what, self.diagnosed = what, diagnosed
        self.job = Job(make_spec(folder, what, diagnosed, FOREVER, threads))
        self.job.__enter__()
        self.attempt = self.job.start()
        self.attempt.wait_event("step", lambda e: e["iteration"] >= 4 * FREE)
        self.attempt.signal(signal.SIGSTOP)
        self.seconds, self.first = 0.0, self.count()

    def count(self):
        """Iterations done. Written before the next one starts."""
        with open(self.attempt.path("events.jsonl"), "rb") as f:
            return f.read().count(b'"kind":"step"')

    def slice(self):
        start = time.monotonic()
        self.attempt.signal(signal.SIGCONT)
        time.sleep(SLICE_S)
        self.attempt.signal(signal.SIGSTOP)
        self.seconds += time.monotonic() - start

    def per_iteration(self):
        return self.seconds / (self.count() - self.first)

    def end(self):
        """Replays that were made; a run that is not what it is called ends
        the benchmark."""
        self.attempt.signal(signal.SIGCONT)
        steps = self.attempt.events("step")
        skips = sum(e["skipped"] for e in steps)
        replayed = sum(e["replayed"] for e in self.attempt.events("incident"))
        self.attempt.kill()
        self.job.__exit__(None, None, None)
        if skips != (len(steps) if self.what == "storm" else 0):
            sys.exit(f"{self.what}: {skips} of {len(steps)} skipped")
        if self.what == "storm" and (replayed > 0) != self.diagnosed:
            sys.exit(f"storm: {replayed} replays")
        return replayed


def in_slices(folder, what, a):
    ratios, per, replayed = [], [], 0
    for i in range(a.rounds):
        # New workers each time, for where the pages lie matters by a percent.
        pair = {d: Runner(folder, what, d, a.threads)
                for d in (i % 2 == 0, i % 2 == 1)}
        for _ in range(a.slices):
            for runner in pair.values():
                runner.slice()
        per.append(pair[False].per_iteration())
        ratios.append(pair[True].per_iteration() / per[-1])
        replayed = max(runner.end() for runner in pair.values())
    print(f"{what:8} {1e3 * statistics.median(per):8.3f} ms per iteration"
          f" without, ratio with diagnosis {statistics.median(ratios):.4f}"
          f" ({min(ratios):.4f} to {max(ratios):.4f} in {a.rounds} rounds;"
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
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--slices", type=int, default=30,
                        help="of each worker in a round")
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
                in_slices(folder, what, a)


if __name__ == "__main__":
    main()
