# SPDX-License-Identifier: Apache-2.0
"""The trainings that traind and PyTorch both run, and their exact inputs.

Nothing here is random: every number follows from a name, is a multiple of
2^-16 below 8, and so is the same float32 wherever it is made. oracle_torch.py
runs the cases in PyTorch, oracle_test.py in traind-worker.
"""
import zlib


def stream(name, n):
    """n numbers in [-1, 1), multiples of 2^-16."""
    s, out = zlib.crc32(name.encode()), []
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
        out.append(((s >> 40) & 0x1ffff) / 65536.0 - 1.0)
    return out


def round_16(x):
    return round(x * 65536.0) / 65536.0


def initial(name, shape):
    """The values of a parameter or a buffer at the start."""
    n = 1
    for d in shape:
        n *= d
    v, what = stream(name, n), name.rsplit(".", 1)[1]
    if what == "running_var":
        return [1.0 + 0.5 * abs(x) for x in v]
    if len(shape) == 1:
        v = [0.25 * x for x in v]
        return [1.0 + x for x in v] if what == "weight" else v
    bound = 1.0 / (n / shape[0]) ** 0.5
    return [round_16(bound * x) for x in v]


def data(name, case):
    """(inputs, targets) as flat lists; a rule that a model can learn."""
    n, shape = case["n"], case["input"]
    size = 1
    for d in shape:
        size *= d
    gain = case.get("gain", 1.0)
    x = [gain * v for v in stream(name + ".x", n * size)]
    kind, width = case["target"]
    if kind == "class":
        best = []
        for i in range(n):
            row = x[i * size:(i + 1) * size]
            score = [sum(row[k::width]) for k in range(width)]
            best.append(score.index(max(score)))
        for i in case.get("unlabelled", []):
            best[i] = -1
        return x, best
    y = []
    for i in range(n):
        row = x[i * size:(i + 1) * size]
        for k in range(width):
            v = round_16(sum(row[k::width]) / 2)
            y.append(float(v > 0) if kind == "bit" else v)
    return x, y


# ---- the cases --------------------------------------------------------------

def case(model, loss, optimizer, n=40, shape=(6,), target=("class", 3), **more):
    keys = ("gain", "unlabelled")
    train = dict({"epochs": 4}, **more.pop("train", {}))
    out = {k: more.pop(k) for k in keys if k in more}
    spec = {"name": "oracle", "seed": 1, "threads": 1, "model": model,
            "loss": loss, "optimizer": optimizer, "train": train,
            "checkpoint": {"every_updates": 0, "keep": 1}}
    spec.update(more)
    out.update(spec=spec, n=n, input=shape, target=target)
    return out


def linear(n, **more):
    return {"linear": dict({"out_features": n}, **more)}


MLP = [linear(10), "tanh", linear(8), {"gelu": {}}, linear(3)]


def cnn(bias):
    """bias: of a convolution that batch norm follows, where it does nothing:
    its gradient is zero but for rounding, and Adam makes that noise large."""
    return [
        {"name": "stem", "conv2d": {"out_channels": 4, "kernel_size": 3,
                                    "padding": 1, "bias": False}},
        {"name": "bn", "batch_norm2d": {}}, "relu",
        {"name": "block", "residual": [
            {"conv2d": {"out_channels": 4, "kernel_size": 3, "padding": 1,
                        "groups": 2, "bias": bias}},
            {"batch_norm2d": {"momentum": 0.3, "eps": 1e-3}}, "silu",
            {"dropout": {"p": 0}}]},
        {"max_pool2d": {"kernel_size": 2}},
        {"avg_pool2d": {"kernel_size": 3, "stride": 1, "padding": 1}},
        "flatten", {"layer_norm": {}}, linear(3)]


CNN = cnn(True)
POOLS = [
    {"conv2d": {"out_channels": 4, "kernel_size": [3, 2], "stride": [2, 1],
                "padding": [1, 0], "dilation": [1, 2]}},
    "relu",
    {"max_pool2d": {"kernel_size": 3, "stride": 2, "padding": 1}},
    {"avg_pool2d": {"kernel_size": 2, "stride": 1, "padding": 1,
                    "count_include_pad": False}},
    {"batch_norm2d": {"affine": False}},
    {"adaptive_avg_pool2d": {"output_size": [2, 3]}},
    "flatten", "sigmoid", {"batch_norm1d": {}}, {"gelu": {
        "approximate": "tanh"}}, linear(3)]
DEEP = [
    linear(12), {"layer_norm": {}}, {"residual": [
        linear(12), {"gelu": {}}, {"residual": [
            linear(12), "silu"]}, {"batch_norm1d": {}}]},
    "relu", linear(3)]
SGD = {"sgd": {"lr": 0.05, "momentum": 0.9, "nesterov": True,
               "weight_decay": 0.01}}
# Small steps: training forgets a difference rather than enlarging it, and what
# is left is what rounding makes of one update.
CALM = {"sgd": {"lr": 0.005, "momentum": 0.9, "nesterov": True,
                "weight_decay": 0.01}}
# A whole window that counts for nothing: no gradient, yet an update, in which
# momentum and weight decay go on. (PyTorch's mean would be 0 / 0.)
EMPTY = list(range(8, 16))
IMAGES = {"shape": (2, 8, 8), "n": 40}

CASES = {
    "mlp-sgd-plain": case(MLP, "cross_entropy", {"sgd": {
        "lr": 0.1, "weight_decay": 0.02}}),
    "mlp-sgd-nesterov": case(MLP, "cross_entropy", SGD),
    "mlp-sgd-dampening": case(MLP, "cross_entropy", {"sgd": {
        "lr": 0.1, "momentum": 0.8, "dampening": 0.3}}),
    "mlp-adam": case(MLP, "cross_entropy", {"adam": {
        "lr": 0.01, "weight_decay": 0.05}}, schedule={
            "cosine": {"warmup_updates": 4, "min_lr": 0.001}}),
    "mlp-adamw": case(MLP, "cross_entropy", {"adamw": {
        "lr": 0.01, "weight_decay": 0.1, "betas": [0.8, 0.99],
        "groups": [{"match": ["*.bias"], "weight_decay": 0.0,
                    "lr": 0.02}]}}, schedule={
            "linear": {"warmup_updates": 3, "total_updates": 15}}),
    "mlp-labels": case(MLP, {"cross_entropy": {
        "label_smoothing": 0.1, "ignore_index": -1}}, SGD,
        unlabelled=[0, 3, 25] + EMPTY, schedule={
            "step": {"step_size": 6, "gamma": 0.5, "warmup_updates": 2}}),
    "mlp-mse": case(MLP, "mse", SGD, target=("number", 3)),
    "mlp-l1": case(MLP, "l1", {"adam": {"lr": 0.01}},
                   target=("number", 3)),
    "mlp-bce": case(MLP, "bce_with_logits", SGD, target=("bit", 3)),
    # Windows of 4 and 2 batches; the last batch has 4 samples, not 8.
    "mlp-accumulate": case(MLP, {"cross_entropy": {"ignore_index": -1}}, SGD,
                           n=44, unlabelled=[1, 2, 3, 4, 41, 42],
                           train={"epochs": 10, "accumulate": 4}),
    "mlp-clip": case(MLP, "cross_entropy", {"sgd": {
        "lr": 0.5, "momentum": 0.9}}, train={"clip_grad_norm": 0.25}),
    "cnn-sgd": case(CNN, "cross_entropy", SGD, **IMAGES),
    "cnn-adamw": case(cnn(False), "cross_entropy", {"adamw": {"lr": 0.005}},
                      **IMAGES),
    "cnn-accumulate": case(CNN, "cross_entropy", SGD, shape=(2, 8, 8), n=44,
                           train={"epochs": 10, "accumulate": 4,
                                  "clip_grad_norm": 1.0}),
    "pools-sgd": case(POOLS, "cross_entropy", SGD, **IMAGES),
    "deep-adam": case(DEEP, "cross_entropy", {"adam": {"lr": 0.01}}),
    "deep-bf16": case(DEEP, "cross_entropy", {"adamw": {"lr": 0.01}},
                      amp={"dtype": "bfloat16"}),
    "cnn-bf16": case(CNN, "cross_entropy", CALM, amp={"dtype": "bfloat16"},
                     **IMAGES),
    "deep-region": case(DEEP, "mse", CALM, target=("number", 3), amp={
        "dtype": "bfloat16", "fp32_regions": ["2.2", "4"]}),
    # Starts far too high: skips, then growth, then skips again.
    "cnn-f16": case(CNN, "cross_entropy", CALM, train={"epochs": 6}, amp={
        "dtype": "float16", "wgrad_rounding": "pytorch",
        "scaler": {"init_scale": 2.0 ** 24, "growth_interval": 3}}, **IMAGES),
    "deep-f16": case(DEEP, "cross_entropy", {"adam": {
        "lr": 0.01, "weight_decay": 0.01}}, train={
            "epochs": 6, "accumulate": 2, "clip_grad_norm": 0.5}, amp={
                "dtype": "float16",
                "scaler": {"init_scale": 2.0 ** 23, "backoff_factor": 0.25,
                           "growth_interval": 2}},
        schedule={"cosine": {"warmup_updates": 3, "total_updates": 12}}),
}
BATCH_SIZE = 8


def spec_of(case_, folder):
    """What traind is given; the files are named by the test."""
    spec = dict(case_["spec"])
    files = {"format": "npy", "input": f"{folder}/x.npy",
             "target": f"{folder}/y.npy"}
    spec["data"] = {"train": files, "validation": files,
                    "batch_size": BATCH_SIZE, "shuffle": False}
    spec["initial_weights"] = f"{folder}/start.safetensors"
    return spec
