# SPDX-License-Identifier: Apache-2.0
"""Whole models that traind and PyTorch both train, and their exact inputs.

The specs use traind's presets; the PyTorch side (oracle_models_torch.py) builds
its own modules, whose state_dict must have the same names. Inputs and initial
weights follow from names, as in oracle_cases.py: nothing is random.
"""
import oracle_cases
from oracle_cases import data, stream

UPDATES = 50
BATCH = 8
VOCABULARY, LENGTH, WIDTH = 24, 12, 16

CNN = [
    {"conv2d": {"out_channels": 6, "kernel_size": 3, "padding": 1,
                "bias": False}},
    "batch_norm2d", "relu", {"max_pool2d": {"kernel_size": 2}},
    {"conv2d": {"out_channels": 8, "kernel_size": 3, "padding": 1,
                "bias": False}},
    {"batch_norm2d": {"momentum": 0.2}}, "silu",
    {"adaptive_avg_pool2d": {"output_size": 2}}, "flatten",
    {"linear": {"out_features": 4}}]

MODELS = {
    "mlp": {
        "model": {"mlp": {"num_classes": 4, "hidden": [16, 12],
                          "activation": "gelu"}},
        "input": (10,), "classes": 4, "n": 64,
        "optimizer": {"sgd": {"lr": 0.05, "momentum": 0.9,
                              "weight_decay": 0.001}}},
    "cnn": {
        "model": CNN, "input": (2, 8, 8), "classes": 4, "n": 64,
        "optimizer": {"adam": {"lr": 0.003, "weight_decay": 0.001}}},
    "resnet20": {
        "model": {"resnet": {"depth": 20, "width": 4, "num_classes": 4}},
        "input": (3, 8, 8), "classes": 4, "n": 64,
        "optimizer": {"sgd": {"lr": 0.003, "momentum": 0.9, "nesterov": True,
                              "weight_decay": 0.0005}},
        # Twenty layers of float16 let the last bits of a sum decide whether a
        # scale near the edge overflows. Here no scale is near it: each skip
        # and each growth is a factor of 64.
        "scaler": {"init_scale": 2.0 ** 26, "backoff_factor": 2.0 ** -6,
                   "growth_factor": 2.0 ** 6}},
    "gpt": {
        "model": {"gpt": {"vocab_size": VOCABULARY, "block_size": LENGTH,
                          "n_layer": 2, "n_head": 2, "n_embd": WIDTH}},
        "input": (LENGTH,), "classes": VOCABULARY, "n": 64,
        "optimizer": {"adamw": {"lr": 0.003, "betas": [0.9, 0.95],
                                "weight_decay": 0.1}},
        "clip": 1.0},
}

# The scale starts where the first products of the backward pass overflow, and
# grows again every 6 updates until they do.
AMP = {
    "f32": {},
    "bf16": {"dtype": "bfloat16", "wgrad_rounding": "pytorch"},
    "f16": {"dtype": "float16", "wgrad_rounding": "pytorch",
            "scaler": {"init_scale": 2.0 ** 24, "growth_interval": 6,
                       "min_scale": 0, "max_scale": 0}},
}
# A batch whose first sample no float16 holds, so that the forward pass
# overflows whatever the scale is: (model, precision) -> batch.
SPOILED = {("mlp", "f16"): 5, ("cnn", "f16"): 3, ("resnet20", "f16"): 4}
CASES = [f"{m}-{p}" for m in MODELS for p in AMP]


def token_stream():
    """Ids that a model can learn: 64 sequences and what follows the last."""
    n = MODELS["gpt"]["n"] * LENGTH + 1
    noise, ids = stream("gpt.noise", n), [1, 2]
    while len(ids) < n:
        odd = noise[len(ids)] > 0.7
        ids.append((ids[-1] * 5 + ids[-2] + odd) % VOCABULARY)
    return ids


def initial(name, shape):
    """Initial weights. A block of a resnet starts as a small correction of its
    input (the second norm's gain is small), as is usual: twenty layers of
    random gain would make the last bits of a sum large within a few updates,
    and comparing would say nothing."""
    v = oracle_cases.initial(name, shape)
    return [0.125 * x for x in v] if name.endswith("bn2.weight") else v


def inputs(case):
    """(x, y) as flat lists."""
    model, precision = case.rsplit("-", 1)
    m = MODELS[model]
    if model == "gpt":
        ids = token_stream()
        return ids[:-1], ids[1:]
    x, y = data(model, {"n": m["n"], "input": m["input"],
                        "target": ("class", m["classes"])})
    if (model, precision) in SPOILED:
        size = len(x) // m["n"]
        at = SPOILED[model, precision] * BATCH * size
        x[at:at + size] = [v * 2.0 ** 20 for v in x[at:at + size]]
    return x, y


def amp(case):
    model, precision = case.rsplit("-", 1)
    a = dict(AMP[precision])
    if "scaler" in a:
        a["scaler"] = dict(a["scaler"], **MODELS[model].get("scaler", {}))
    return a


def spec_of(case, folder, iterations):
    m = MODELS[case.rsplit("-", 1)[0]]
    files, more = {"format": "npy", "input": f"{folder}/x.npy",
                   "target": f"{folder}/y.npy"}, {}
    if case.startswith("gpt"):
        files = {"format": "tokens", "input": f"{folder}/x.bin",
                 "token_dtype": "uint16"}
        more = {"sequence_length": LENGTH}
    spec = {"name": "oracle", "seed": 1, "threads": 1,
            "data": dict({"train": files, "batch_size": BATCH,
                          "shuffle": False}, **more),
            "initial_weights": f"{folder}/start.safetensors",
            "model": m["model"], "loss": "cross_entropy",
            "optimizer": m["optimizer"],
            "train": {"epochs": 1000, "max_iterations": iterations},
            "checkpoint": {"every_updates": 0, "keep": 1}}
    if amp(case):
        spec["amp"] = amp(case)
    if "clip" in m:
        spec["train"]["clip_grad_norm"] = m["clip"]
    return spec


def probe_of(case, folder, iterations):
    """The same up to the first update, in a form that keeps its gradients: a
    momentum buffer starts as the gradient. Nothing is clipped."""
    spec = spec_of(case, folder, iterations)
    spec["train"].pop("clip_grad_norm", None)
    spec["optimizer"] = {"sgd": {"lr": 2.0 ** -20, "momentum": 0.5}}
    return spec


__all__ = ["BATCH", "CASES", "LENGTH", "MODELS", "UPDATES",
           "VOCABULARY", "WIDTH", "amp", "initial", "inputs", "probe_of", "spec_of",
           "token_stream"]
