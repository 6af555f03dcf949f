#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example CNN on Fashion-MNIST in float32, bfloat16 and float16."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import SOURCE, Daemon, check, check_ledger, main

# The promise: half a point of accuracy between any two precisions. On 10,000
# test images one standard error of an accuracy of 0.91 is 0.29 points.
ALLOWED = 0.005


def same_accuracy():
    """all reach 0.90, within half a point; the scale obeys its rule"""
    spec = os.path.join(SOURCE, "examples/fashion-cnn.json")
    accuracy = {}
    with Daemon() as d:
        for dtype in ("float32", "bfloat16", "float16"):
            job = int(d.ctl("submit", "--print-id", "--set",
                            f"amp.dtype={dtype}", spec).strip())
            d.try_ctl("wait", job, timeout=900)
            accuracy[dtype] = d.status(job)["accuracy"]
            n, skips = check_ledger(d, job)
            print(f"{dtype}: accuracy {accuracy[dtype]:.4f}, {n} iterations, "
                  f"{skips} skips", flush=True)
            if dtype == "float16":
                check(skips > 0, "a growing scale meets its limit")
    check(min(accuracy.values()) >= 0.90, f"accuracy: {accuracy}")
    spread = max(accuracy.values()) - min(accuracy.values())
    check(spread <= ALLOWED, f"spread {spread:.4f}: {accuracy}")


main(same_accuracy)
