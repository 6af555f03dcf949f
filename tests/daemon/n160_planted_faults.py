#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults planted in an MLP, a CNN and a GPT are explained as what they are.

Each runs as a job through the daemon, in the dtypes that it says. What is
stored must have the verdict, the producer, the sample and the cure; where the
fault is none in that dtype, nothing may be skipped. Afterwards the ledger and
the store hold all that they promise.
"""
import json
import math
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, check, check_ledger, equal, main, npy

HALVES = ("float16", "bfloat16")
ALL = ("float16", "bfloat16", "float32")
NAN = math.nan


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


class Case:
    """One planted fault: files below a folder of its own, and a spec."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def spec(self, name, model, shape, x, y, loss="mse", weights=None,
             **changes):
        """A full-batch job of four iterations; y: numbers, or classes."""
        n = shape[0]
        npy(f"{self.folder}/x.npy", "<f4", shape, x)
        if loss == "cross_entropy":
            npy(f"{self.folder}/y.npy", "<i4", (n,), y)
        else:
            npy(f"{self.folder}/y.npy", "<f4", (n, len(y) // n), y)
        spec = {
            "name": name, "threads": 1,
            "data": {"train": {"format": "npy",
                               "input": f"{self.folder}/x.npy",
                               "target": f"{self.folder}/y.npy"},
                     "batch_size": n, "shuffle": False},
            "model": model, "loss": loss, "optimizer": {"sgd": {"lr": 0.0}},
            "train": {"epochs": 4}, "guard": "off"}
        if weights:
            safetensors(f"{self.folder}/w.safetensors", weights)
            spec["initial_weights"] = {
                "path": f"{self.folder}/w.safetensors", "partial": True}
        spec.update(changes)
        return spec


def linear(name, n, **more):
    return {"name": name, "linear": {"out_features": n, **more}}


# ---- the faults ------------------------------------------------------------
# Each makes a spec without a dtype.

def overflow_of_one_sample(case):
    """C08 with three harmless samples before the one that overflows"""
    x = [0.5, 0.5] * 4
    x[4:6] = [256.0, 256.0]
    return case.spec(
        "mlp-forward", [linear("fc1", 2), "relu", linear("fc2", 1)], (4, 2), x,
        [0.0] * 4, weights={
            "fc1.weight": ([2, 2], [128, 131, 0.5, 0.25]),
            "fc1.bias": ([2], [0, 0]),
            "fc2.weight": ([1, 2], [0.01, 0.01]), "fc2.bias": ([1], [0])})


def image(n, where=(), value=0.25):
    x = [value] * (n * 64)
    for (sample, row, col), v in where:
        x[sample * 64 + row * 8 + col] = v
    return x


CNN = [{"name": "conv", "conv2d": {"out_channels": 2, "kernel_size": 3,
                                   "padding": 1}},
       "relu", "flatten", linear("head", 3)]


def overflow_of_a_convolution(case):
    """one pixel of one image makes one output of a channel too large"""
    return case.spec(
        "cnn-forward", CNN, (4, 1, 8, 8), image(4, [((1, 2, 5), 8000.0)]),
        [0, 1, 2, 0], loss="cross_entropy", weights={
            "conv.weight": ([2, 1, 3, 3], [0, 0, 0, 0, 10, 0, 0, 0, 0] +
                            [0.1] * 9),
            "conv.bias": ([2], [0, 0]),
            "head.weight": ([3, 128], [1e-6] * 384)})


def gpt_spec(case, name, weights=None, **changes):
    with open(f"{case.folder}/text.txt", "w", encoding="ascii") as f:
        f.write("the cat sat on the mat. " * 10)
    spec = {
        "name": name, "threads": 1, "seed": 3,
        "data": {"train": {"format": "text", "input":
                           f"{case.folder}/text.txt"},
                 "sequence_length": 16, "batch_size": 4, "shuffle": False},
        "model": {"gpt": {"vocab_size": 256, "block_size": 16, "n_layer": 1,
                          "n_head": 2, "n_embd": 8}},
        "loss": "cross_entropy", "optimizer": {"sgd": {"lr": 0.0}},
        "train": {"epochs": 4, "max_iterations": 4}, "guard": "off"}
    if weights:
        safetensors(f"{case.folder}/w.safetensors", weights)
        spec["initial_weights"] = {
            "path": f"{case.folder}/w.safetensors", "partial": True}
    spec.update(changes)
    return spec


def overflow_in_a_block(case):
    """a transformer's first matrix of the MLP: 6e4 times a normed value"""
    row = [6e4] + [0.0] * 7
    return gpt_spec(case, "gpt-forward", {
        "h.0.mlp.c_fc.weight": ([32, 8], row * 32)})


def overflow_in_backward_only(case):
    """small activations, a large weight: its input's gradient cannot be held
    at any scale, and the output can"""
    return case.spec(
        "mlp-backward", [linear("fc1", 1), linear("fc2", 1)], (2, 1),
        [1.0, 1.0], [-2.0, -2.0], weights={
            "fc1.weight": ([1, 1], [1e-3]), "fc1.bias": ([1], [0]),
            "fc2.weight": ([1, 1], [60000]), "fc2.bias": ([1], [0])},
        amp={"scaler": {"init_scale": 4}})


def scale_too_high(case):
    """a sound net and a scale that its gradients do not fit under"""
    return case.spec(
        "mlp-scale", [linear("fc1", 4), "relu", linear("fc2", 1)], (4, 2),
        [1, 2, 3, 4, 5, 6, 7, 8], [10.0, 20.0, 30.0, 40.0],
        amp={"scaler": {"init_scale": 2.0 ** 24}})


def nan_pixel(case):
    """one pixel of one image is no number"""
    return case.spec("cnn-nan", CNN, (4, 1, 8, 8),
                     image(4, [((3, 1, 2), NAN)]), [0, 1, 2, 0],
                     loss="cross_entropy")


def diverging_rate(case):
    """after one update nothing is finite, in no precision"""
    return case.spec(
        "mlp-diverges", [linear("fc1", 4), linear("fc2", 4), linear("fc3", 1)],
        (4, 2), [1, 2, 3, 4, 5, 6, 7, 8], [1.0, 2.0, 3.0, 4.0],
        optimizer={"sgd": {"lr": 1e25}},
        amp={"scaler": {"init_scale": 1}})


def exploding_update(case):
    """finite gradients, and a rate that takes the weights past float32"""
    return case.spec(
        "mlp-optimizer", [linear("fc1", 1)], (2, 1), [1.0, 1.0],
        [100.0, 100.0], weights={"fc1.weight": ([1, 1], [0.5]),
                                 "fc1.bias": ([1], [0])},
        optimizer={"sgd": {"lr": 3e38}}, amp={"scaler": {"init_scale": 1}})


def eps_underflow(case):
    """C06: constant rows, an eps that half precision cannot hold"""
    return case.spec(
        "mlp-eps", [{"name": "norm", "layer_norm": {"eps": 1e-12}},
                    linear("head", 1)], (2, 4), [3.0] * 4 + [300.0] * 4,
        [0.0, 1.0], optimizer={"sgd": {"lr": 0.01}},
        amp={"scaler": {"init_scale": 1024}})


def scores_of_attention(case):
    """C05: scores far beyond 65504 inside the attention op"""
    return gpt_spec(case, "gpt-attention", {
        "h.0.attn.c_attn.weight": ([24, 8], [40.0 + (i % 7)
                                             for i in range(192)])})


def scores_by_hand(case):
    """the same product as a plain matmul"""
    x = [36.0] * (2 * 4 * 64)
    return case.spec(
        "mlp-scores", [{"name": "scores", "input": ["input", "input"],
                        "matmul": {"transpose_b": True}},
                       {"name": "p", "softmax": {"dim": -1}}, "flatten",
                       linear("head", 1)], (2, 4, 64), x, [0.0, 1.0])


def masked_rows(case):
    """C03: no query sees any key, whatever constant others would use"""
    return case.spec(
        "mlp-masked", [
            {"name": "raw", "input": ["input", "input"],
             "matmul": {"transpose_b": True}},
            {"name": "keep", "input": ["raw"], "gt": {"value": 1e9}},
            {"name": "heads", "input": ["input", "input", "input", "keep"],
             "scaled_dot_product_attention": {"num_heads": 2}},
            "flatten", linear("head", 1)], (2, 4, 8), [0.5] * 64, [0.0, 1.0],
        optimizer={"sgd": {"lr": 0.01}}, amp={"scaler": {"init_scale": 1024}})


def fixed_scale(case):
    """a static scale that is too large: nothing backs it off"""
    spec = scale_too_high(case)
    spec["amp"]["scaler"]["dynamic"] = False
    return spec


def norm_after_overflow(case):
    """a batch norm passes an infinity on; it made none"""
    x = [0.5, 0.25] * 4
    x[6:8] = [300.0, 300.0]
    return case.spec(
        "mlp-norm", [linear("fc1", 2), {"name": "bn", "batch_norm1d": {}},
                     "relu", linear("fc2", 1)], (4, 2), x, [0.0] * 4,
        weights={"fc1.weight": ([2, 2], [200, 200, 0.5, 0.25]),
                 "fc1.bias": ([2], [0, 0])})


def large_loss(case):
    """C30: a loss beyond 65504 is no fault: it is float32"""
    return case.spec(
        "mlp-loss", [linear("fc1", 1)], (2, 1), [200.0, 210.0], [0.0, 0.0],
        weights={"fc1.weight": ([1, 1], [100]), "fc1.bias": ([1], [0])},
        amp={"scaler": {"init_scale": 1}})


def scaled_loss(case):
    """bfloat16 with a scale at the end of its range"""
    return case.spec(
        "mlp-scaled-loss", [linear("fc1", 1)], (2, 1), [1.0, 2.0],
        [30.0, 40.0], amp={"scaler": {"enabled": True,
                                      "init_scale": 2.0 ** 126,
                                      "max_scale": 0}})


# fault, dtype -> what every incident of the first iteration says; None: no
# incident and no skip. A key "cure" is the fragment's amp.
FAULTS = [
    (overflow_of_one_sample, {
        "float16": {"verdict": "forward_overflow", "pass": "forward",
                    "layer": "fc1", "op": "linear", "tensor": "fc1.out",
                    "index": [2, 0], "what": "+inf", "sample": 2,
                    "samples": [2], "fp32_value": 66304.0,
                    "fp32_finite": "yes", "bf16_finite": "yes",
                    "alone_finite": "no", "regions": "fc1, fc2",
                    "cure": {"fp32_regions": ["fc1", "fc2"]}},
        "bfloat16": None, "float32": None}),
    (overflow_of_a_convolution, {
        "float16": {"verdict": "forward_overflow", "pass": "forward",
                    "layer": "conv", "op": "conv2d", "index": [1, 0, 2, 5],
                    "sample": 1, "samples": [1], "fp32_value": 80000.0,
                    "fp32_finite": "yes"},
        "bfloat16": None}),
    (overflow_in_a_block, {
        "float16": {"verdict": "forward_overflow", "pass": "forward",
                    "layer": "h.0.mlp.c_fc", "op": "linear",
                    "fp32_finite": "yes"},
        "bfloat16": None}),
    (overflow_in_backward_only, {
        "float16": {"verdict": "backward_overflow", "pass": "backward",
                    "layer": "fc2", "op": "linear_dx", "tensor": "fc1.out.grad",
                    "fp32_finite": "yes", "bf16_finite": "yes"},
        "bfloat16": None, "float32": None}),
    (scale_too_high, {
        "float16": {"verdict": "scale_overflow", "pass": "backward",
                    "fp32_finite": "yes", "cure": None},
        "bfloat16": None}),
    (fixed_scale, {
        "float16": {"verdict": "scale_overflow", "finite_scale": 2048.0,
                    "cure": {"scaler": {"init_scale": 2048.0}}},
        "bfloat16": None}),
    (scaled_loss, {"bfloat16": {"verdict": "scale_overflow"}}),
    (nan_pixel, {dtype: {
        "verdict": "bad_input", "pass": "input", "tensor": "x",
        "index": [3, 0, 1, 2], "what": "nan", "sample": 3, "samples": [3]}
        for dtype in ALL}),
    (diverging_rate, {dtype: {"verdict": "divergence", "fp32_finite": "no"}
                      for dtype in ALL}),
    (exploding_update, {dtype: {
        "verdict": "optimizer", "pass": "optimizer", "layer": "fc1",
        "op": "sgd", "tensor": "fc1.weight", "index": [0, 0]}
        for dtype in ALL}),
    (eps_underflow, dict.fromkeys(ALL)),
    (scores_of_attention, dict.fromkeys(ALL)),
    (masked_rows, dict.fromkeys(ALL)),
    (scores_by_hand, {
        "float16": {"verdict": "forward_overflow", "layer": "scores",
                    "op": "matmul", "fp32_value": 82944.0},
        "bfloat16": None}),
    (norm_after_overflow, {
        "float16": {"verdict": "forward_overflow", "layer": "fc1",
                    "op": "linear", "index": [3, 0], "sample": 3,
                    "fp32_value": 120000.0},
        "bfloat16": None}),
    (large_loss, dict.fromkeys(ALL)),
]


def first_incident(d, job):
    incidents = d.json("incidents", job)
    check(incidents, f"job {job} has incidents")
    return incidents[0]


def compare(d, job, want, what):
    got = first_incident(d, job)
    story = json.dumps(got, indent=1)
    for key, value in want.items():
        if key == "cure":
            cure = json.loads(got["cure"])["amp"] if got["cure"] else None
            equal(cure, value, f"{what}: cure\n{story}")
        else:
            equal(got[key], value, f"{what}: {key}\n{story}")
    check(got["replayed"] and got["located"], f"{what}: located\n{story}")
    check(got["sentence"], f"{what}: a sentence\n{story}")
    text = d.ctl("explain", got["id"])
    told = " ".join(text.split())
    check(f"verdict: {want['verdict']}:" in told and
          " ".join(got["sentence"].split()) in told, text)
    if got["cure"]:
        check(got["cure"] in text and f"--cure {got['id']}" in text, text)
    return got


def run_fault(d, fault, dtype, want):
    what = f"{fault.__name__} in {dtype}"
    spec = fault(Case(f"{d.dir}/{fault.__name__}"))
    spec.setdefault("amp", {})["dtype"] = dtype
    job = d.submit(spec)
    s = d.wait_state(job, "completed", "failed")
    # A state that is not finite is never kept: it ends as a failure.
    ends = "failed" if want and want["verdict"] == "optimizer" else "completed"
    equal(s["state"], ends, f"{what}: {s['reason']}")
    equal(s["iteration"], s["updates"] + s["skips"], what)
    if want is None:
        equal((s["skips"], d.json("incidents", job)), (0, []), what)
    else:
        got = compare(d, job, want, what)
        print(f"   {what}: {got['sentence']}")
    check_ledger(d, job)
    return job


def faults_are_explained():
    """verdict, producer, sample and cure of each, or nothing at all"""
    with Daemon() as d:
        for fault, wants in FAULTS:
            for dtype, want in wants.items():
                run_fault(d, fault, dtype, want)


def a_cure_cures():
    """what the incident proposes, pasted into the spec, skips nothing"""
    with Daemon() as d:
        for fault in (overflow_of_one_sample, overflow_of_a_convolution,
                      overflow_in_a_block, overflow_in_backward_only,
                      fixed_scale):
            spec = fault(Case(f"{d.dir}/{fault.__name__}"))
            spec.setdefault("amp", {})["dtype"] = "float16"
            job = d.submit(spec, "--wait")
            cure = json.loads(first_incident(d, job)["cure"])
            for key, value in cure["amp"].items():
                if key == "scaler":
                    spec["amp"][key].update(value)
                else:
                    spec["amp"][key] = value
            again = d.submit(spec, "--wait")
            equal(d.status(again)["skips"], 0,
                  f"{fault.__name__} with {json.dumps(cure)}")


def statistics_stay():
    """C31: skipped iterations leave the running statistics as they were"""
    with Daemon() as d:
        spec = norm_after_overflow(Case(f"{d.dir}/bn"))
        spec["amp"] = {"dtype": "float16"}
        job = d.submit(spec, "--wait")
        raw = d.final_weights(job)
        n = struct.unpack("<Q", raw[:8])[0]
        head = json.loads(raw[8:8 + n])
        for name, want in (("bn.running_mean", [0.0, 0.0]),
                           ("bn.running_var", [1.0, 1.0])):
            a, b = head[name]["data_offsets"]
            equal(list(struct.unpack("<2f", raw[8 + n + a:8 + n + b])), want,
                  name)


main(faults_are_explained, a_cure_cures, statistics_stay)
