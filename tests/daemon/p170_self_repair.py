#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A float16 job that overflows repairs itself, and says how (guard: auto).

The network of examples/self-repair.json has one convolution whose largest
outputs float16 cannot hold: some batches overflow, some do not. Nobody touches
the job: a guard takes it back, puts the diagnosed layer into float32, and it
ends as good as its float32 twin.
"""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import SOURCE, Daemon, check, check_ledger, equal, main

SPEC = os.path.join(SOURCE, "examples/self-repair.json")
LAYER = "conv2"


def metadata(raw):
    n = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + n])["__metadata__"]


def it_ends_as_its_twin():
    """within half a point of float32, one rollback, the story is told"""
    with Daemon() as d:
        job = int(d.ctl("submit", "--print-id", "--wait", SPEC))
        twin = int(d.ctl("submit", "--print-id", "--wait", "--set",
                         "amp.dtype=float32", SPEC))
        s, t = d.status(job), d.status(twin)
        equal((s["state"], t["state"]), ("completed", "completed"),
              f"{s['reason']} {t['reason']}")
        print(f"   float16, repaired: {s['accuracy']:.4f}; "
              f"float32: {t['accuracy']:.4f}")
        check(abs(s["accuracy"] - t["accuracy"]) <= 0.005, "half a point")
        equal((t["rollbacks"], t["policy_changed"]), (0, False), "the twin")
        equal((s["rollbacks"], s["guard_rollbacks"], s["policy_changed"]),
              (1, 1, True), "one rollback by a guard")
        check(LAYER in s["difference"], s["difference"])
        first = d.json("incidents", "--all-lines", job)[0]
        equal((first["verdict"], first["layer"], first["fp32_finite"]),
              ("forward_overflow", LAYER, "yes"), "the diagnosis")
        equal(json.loads(first["cure"])["amp"]["fp32_regions"], [LAYER],
              "the cure")
        equal([i["verdict"] for i in d.json("incidents", job)
               if i["verdict"] == "forward_overflow"], [],
              "none on the live line")
        attempts = d.json("attempts", job)
        check(attempts[0]["updates"] > 0 and
              attempts[0]["mean_step_us"] > 0, "there is a time before")
        equal([a["policy_changed"] for a in attempts], [False, True],
              "attempts")
        text = d.ctl("lineage", job)
        for word in ("forward_overflow", LAYER, "guard", "abandoned",
                     "per update", "%)"):
            check(word in text, f"lineage lacks {word}:\n{text}")
        print(text)
        kept = metadata(d.final_weights(job))
        equal(kept["policy_changed"], "true", "metadata of the weights")
        check(LAYER in kept["policy_history"], kept["policy_history"])
        check_ledger(d, job)
        check_ledger(d, twin)


main(it_ends_as_its_twin)
