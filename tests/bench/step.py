#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time per update: traind beside PyTorch and a floor, in one run.

The machine may be shared, so nothing absolute is claimed: both programs stay
alive and take turns, A B A B, each round after five warm updates; the figures
are the ratio of medians and of 25th percentiles. The floor is the update's
multiply-adds at the best rate of a 1024 x 1024 x 1024 float32 product in the
same run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CNN = [
    {"conv2d": {"out_channels": 32, "kernel_size": 3, "padding": 1}}, "relu",
    {"max_pool2d": {"kernel_size": 2}},
    {"conv2d": {"out_channels": 64, "kernel_size": 3, "padding": 1}}, "relu",
    {"max_pool2d": {"kernel_size": 2}}, "flatten",
    {"linear": {"out_features": 128}}, "relu", {"dropout": {"p": 0.25}},
    {"linear": {"out_features": 10}}]
MLP = [{"linear": {"out_features": 1024}}, "relu",
       {"linear": {"out_features": 1024}}, "relu",
       {"linear": {"out_features": 10}}]
SGD = {"sgd": {"lr": 1e-3, "momentum": 0.9}}
ADAMW = {"adamw": {"lr": 1e-3}}
MODELS = {
    # name: (model, batch, shape, optimizer, clip)
    "cnn": (CNN, 128, (1, 28, 28), ADAMW, 1.0),
    "mlp": (MLP, 256, (784,), SGD, 0),
    "mlp-adamw": (MLP, 256, (784,), ADAMW, 0),
}
DTYPES = ["float32", "bfloat16", "float16"]


def flops(name):
    """Multiply-adds of an update x 2: forward, dw, and dx but for layer 1."""
    if name == "cnn":
        b = 128
        conv1 = b * 28 * 28 * 32 * 9
        rest = b * (14 * 14 * 64 * 32 * 9 + 3136 * 128 + 128 * 10)
    else:
        b = 256
        conv1, rest = b * 784 * 1024, b * (1024 * 1024 + 1024 * 10)
    return 2 * (2 * conv1 + 3 * rest)


def write_specs(folder, threads):
    rng = np.random.default_rng(1)
    paths = {}
    for name, (model, batch, shape, optimizer, clip) in MODELS.items():
        x = rng.standard_normal((batch * 8, *shape)).astype("<f4")
        np.save(f"{folder}/{name}-x.npy", x)
        np.save(f"{folder}/{name}-y.npy",
                rng.integers(0, 10, batch * 8).astype("<i4"))
        for dtype in DTYPES:
            spec = {
                "name": name, "threads": threads, "model": model,
                "data": {"train": {"format": "npy",
                                   "input": f"{folder}/{name}-x.npy",
                                   "target": f"{folder}/{name}-y.npy"},
                         "batch_size": batch},
                "loss": "cross_entropy", "optimizer": optimizer,
                "amp": {"dtype": dtype}, "train": {"epochs": 1000000}}
            if clip:
                spec["train"]["clip_grad_norm"] = clip
            paths[name, dtype] = f"{folder}/{name}-{dtype}.json"
            with open(paths[name, dtype], "w", encoding="utf-8") as f:
                json.dump(spec, f)
    return paths


class Talker:
    def __init__(self, command, env=None):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, **(env or {})))

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        answer = self.p.stdout.readline()
        if not answer:
            sys.exit(f"step.py: no answer to: {line}")
        return json.loads(answer)


def quartile(values):
    return statistics.quantiles(values, n=4)[0]


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("--build", default="build/release")
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--threads", type=int, default=os.cpu_count())
    args = a.parse_args()
    folder = tempfile.mkdtemp(prefix="traind-bench-")
    specs = write_specs(folder, args.threads)
    ours = Talker([f"{args.build}/bin/bench_step", str(args.threads)],
                  {"GOMP_SPINCOUNT": "10000"})
    # OpenBLAS takes new Intel processors for old ones: the peer is tuned.
    peer = Talker([sys.executable, f"{HERE}/torch_step.py",
                   str(args.threads)], {"OPENBLAS_CORETYPE": "SkylakeX"})
    rate = ours.ask("floor 1")
    print(f"{args.threads} threads, {args.rounds} rounds of {args.seconds} s; "
          f"float32 product {rate:.0f} GFLOP/s; ms per update")
    print(f"{'model':10} {'dtype':9} {'ours':>7} {'p25':>7} {'floor':>7} "
          f"{'of floor':>8} {'PyTorch':>8} {'p25':>7} {'speed-up':>8} "
          f"{'p25':>6}  {'vs our fp32':>11}")
    for name in MODELS:
        base = None
        for dtype in DTYPES:
            mine, theirs = [], []
            for _ in range(args.rounds):
                mine += ours.ask(f"{specs[name, dtype]} {args.seconds}")
                if dtype != "float16":
                    theirs += peer.ask(f"{name} {dtype} {args.seconds}")
            rate = max(rate, ours.ask("floor 0.5"))
            report(name, dtype, mine, theirs, flops(name) / rate / 1e6, base)
            base = base or statistics.median(mine)


def report(name, dtype, mine, theirs, floor, base):
    m, q = statistics.median(mine), quartile(mine)
    line = (f"{name:10} {dtype:9} {m:7.2f} {q:7.2f} {floor:7.2f} "
            f"{floor / m:8.0%}")
    if theirs:
        t, r = statistics.median(theirs), quartile(theirs)
        line += f" {t:8.2f} {r:7.2f} {t / m:7.2f}x {r / q:5.2f}x"
    else:
        line += f" {'-':>8} {'-':>7} {'-':>8} {'-':>6}"
    if base:
        line += f"  {base / m:10.2f}x"
    print(line, flush=True)


main()
