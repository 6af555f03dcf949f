#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An activation beyond 65504 skips every fp16 update and is named (C08)."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, check, check_ledger, equal, main, npy


def safetensors(path, tensors):
    head, data = {}, b""
    for name, (shape, values) in sorted(tensors.items()):
        raw = struct.pack(f"<{len(values)}f", *values)
        head[name] = {"dtype": "F32", "shape": shape,
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def overflow_spec(folder, dtype):
    npy(f"{folder}/x.npy", "<f4", (1, 2), [256.0, 256.0])
    npy(f"{folder}/y.npy", "<f4", (1, 1), [0.0])
    safetensors(f"{folder}/w.safetensors", {
        "fc1.weight": ([2, 2], [128, 131, 0.5, 0.25]),
        "fc1.bias": ([2], [0, 0]),
        "fc2.weight": ([1, 2], [0.01, 0.01]), "fc2.bias": ([1], [0])})
    return {
        "name": "c08", "data": {
            "train": {"format": "npy", "input": f"{folder}/x.npy",
                      "target": f"{folder}/y.npy"}, "batch_size": 1},
        "initial_weights": f"{folder}/w.safetensors",
        "model": [{"name": "fc1", "linear": {"out_features": 2}}, "relu",
                  {"name": "fc2", "linear": {"out_features": 1}}],
        "loss": "mse", "optimizer": {"sgd": {"lr": 0.0}},
        "amp": {"dtype": dtype}, "train": {"epochs": 4}}


def fp16_skips_and_names_fc1():
    """the location is fc1, linear, forward, [0,0], +inf"""
    with Daemon() as d:
        job = d.submit(overflow_spec(d.dir, "float16"), "--wait")
        s = d.status(job)
        equal((s["iteration"], s["updates"], s["skips"]), (4, 0, 4),
              "every update is skipped")
        equal(s["scale"], 65536.0 / 16, "four backoffs")
        inc = d.json("incidents", job)
        equal(len(inc), 4, "incidents")
        for i in inc:
            got = (i["pass"], i["layer"], i["op"], i["tensor"], i["index"],
                   i["what"], i["dtype"], i["sample"])
            equal(got, ("forward", "fc1", "linear", "fc1.out", [0, 0], "+inf",
                        "float16", 0), "location")
        check_ledger(d, job)
        text = d.ctl("incidents", job)
        check("fc1" in text and "[0,0]" in text.replace(", ", ","), text)


def bf16_and_fp32_do_not_skip():
    """the same net and batch are finite there"""
    with Daemon() as d:
        for dtype in ("bfloat16", "float32"):
            job = d.submit(overflow_spec(d.dir, dtype), "--wait")
            s = d.status(job)
            equal((s["updates"], s["skips"]), (4, 0), dtype)


main(fp16_skips_and_names_fc1, bf16_and_fp32_do_not_skip)
