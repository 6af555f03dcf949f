#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/train/oracle/*.json: what PyTorch computes for oracle_cases.py.

    /usr/bin/python3 tests/train/oracle_torch.py [case ...]

Needs PyTorch (written with 1.13.1 on a CPU); the tests do not: they read the
numbers. Layers, losses, gradients, optimizers and clipping are PyTorch's own.
Written out here, because PyTorch has no CUDA autocast on a CPU and because we
go further in places:
  * autocast: the CUDA op list by explicit casts. half() rounds a value on the
    way forward and its gradient on the way back, which is what a cast does;
    products are computed in float32 from rounded values and rounded once.
  * the scaler: numerics, section 2. A skip also puts batch norm's running
    statistics back, which PyTorch does not.
  * the loss of a window: its sum divided by its number of labels, which is
    PyTorch's mean where a window is one batch.
  * learning rates: the formulas of engine/run/lrate.h.
"""
import fnmatch
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

from oracle_cases import BATCH_SIZE, CASES, data, initial

HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
OVERFLOW = 65520.0


class Peak:
    """How near to the edge of float16 the largest value of an iteration came:
    |log2| of their ratio. What overflows by far, or not by far, does so for
    any order of summation."""
    largest, margin = 0.0, math.inf

    @classmethod
    def see(cls, x):
        x = x.abs()
        x = x[~torch.isnan(x)]
        if x.numel():
            cls.largest = max(cls.largest, x.max().item())

    @classmethod
    def end_iteration(cls):
        if cls.largest > 0:
            cls.margin = min(cls.margin,
                             abs(math.log2(cls.largest / OVERFLOW)))
        cls.largest = 0.0


class Half(torch.autograd.Function):
    """There and back through a half type, kept as float32."""
    @staticmethod
    def forward(ctx, x, dtype, both):
        ctx.dtype, ctx.both = dtype, both
        if dtype == torch.float16:
            Peak.see(x)
        return x.to(dtype).float()

    @staticmethod
    def backward(ctx, g):
        if not ctx.both:
            return g, None, None
        if ctx.dtype == torch.float16:
            Peak.see(g)
        return g.to(ctx.dtype).float(), None, None


class Value:
    """A tensor and whether it would be of the half type."""
    def __init__(self, x, half=False):
        self.x, self.half = x, half


class Net:
    """The model of a spec; parameters are made when they are first met."""

    def __init__(self, spec):
        amp = spec.get("amp", {})
        self.model, self.params, self.buffers = spec["model"], {}, {}
        self.dtype = HALVES.get(amp.get("dtype"))
        self.regions = amp.get("fp32_regions", [])
        self.round_weights = amp.get("wgrad_rounding") == "pytorch"
        self.tracked, self.training = 0, True

    def param(self, path, what, *shape):
        name = f"{path}.{what}"
        if name not in self.params:
            v = torch.tensor(initial(name, shape), dtype=torch.float32)
            self.params[name] = v.reshape(shape).requires_grad_()
        return self.params[name]

    def buffer(self, path, what, n):
        name = f"{path}.{what}"
        if name not in self.buffers:
            self.buffers[name] = torch.tensor(initial(name, (n,)),
                                              dtype=torch.float32)
        return self.buffers[name]

    # -- casts

    def lower(self, v):
        return v if v.half else Value(Half.apply(v.x, self.dtype, True), True)

    def weight(self, w):
        return None if w is None else Half.apply(w, self.dtype,
                                                 self.round_weights)

    def float(self, v):
        """A value as float32: a half's gradient is rounded on its way back."""
        return Half.apply(v.x, self.dtype, True) if v.half else v.x

    def as_given(self, v, f):
        y = f(self.float(v))
        return Value(Half.apply(y, self.dtype, True), True) if v.half \
            else Value(y)

    def product(self, v, f, w, b, on):
        if not on:
            return Value(f(self.float(v), w, b))
        x = self.lower(v)
        y = f(self.float(x), self.weight(w), self.weight(b))
        return Value(Half.apply(y, self.dtype, True), True)

    def in_region(self, path):
        return any(path == r or path.startswith(r + ".") for r in self.regions)

    # -- layers

    def layer(self, kind, a, path, v, on):
        x = v.x
        if kind == "linear":
            w = self.param(path, "weight", a["out_features"], x.shape[-1])
            b = self.param(path, "bias", a["out_features"])
            return self.product(v, F.linear, w, b, on)
        if kind == "conv2d":
            k = a["kernel_size"]
            k = k if isinstance(k, list) else [k, k]
            o, g = a["out_channels"], a.get("groups", 1)
            w = self.param(path, "weight", o, x.shape[1] // g, *k)
            b = self.param(path, "bias", o) if a.get("bias", True) else None
            return self.product(v, lambda x, w, b: F.conv2d(
                x, w, b, a.get("stride", 1), a.get("padding", 0),
                a.get("dilation", 1), g), w, b, on)
        if kind.startswith("batch_norm"):
            c, w, b = x.shape[1], None, None
            if a.get("affine", True):
                w = self.param(path, "weight", c)
                b = self.param(path, "bias", c)
            mean = self.buffer(path, "running_mean", c)
            var = self.buffer(path, "running_var", c)
            return self.as_given(v, lambda x: F.batch_norm(
                x, mean, var, w, b, self.training, a.get("momentum", 0.1),
                a.get("eps", 1e-5)))
        if kind == "layer_norm":
            n = x.shape[-1:]
            w = self.param(path, "weight", *n)
            b = self.param(path, "bias", *n)
            return Value(F.layer_norm(self.float(v), n, w, b,
                                      a.get("eps", 1e-5)))
        return self.as_given(v, self.plain(kind, a))

    @staticmethod
    def plain(kind, a):
        k, s, p = (a.get(n) for n in ("kernel_size", "stride", "padding"))
        return {
            "relu": torch.relu, "tanh": torch.tanh, "silu": F.silu,
            "sigmoid": torch.sigmoid, "flatten": lambda x: x.flatten(1),
            "gelu": lambda x: F.gelu(x, approximate=a.get("approximate",
                                                          "none")),
            "dropout": lambda x: F.dropout(x, a["p"], True),
            "max_pool2d": lambda x: F.max_pool2d(x, k, s, p or 0),
            "avg_pool2d": lambda x: F.avg_pool2d(
                x, k, s, p or 0,
                count_include_pad=a.get("count_include_pad", True)),
            "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(
                x, a["output_size"])}[kind]

    def add(self, a, b):
        if a.half and b.half:
            return Value(Half.apply(a.x + b.x, self.dtype, True), True)
        return Value(self.float(a) + self.float(b))

    def run(self, layers, prefix, v):
        for i, layer in enumerate(layers):
            if isinstance(layer, str):
                layer = {layer: {}}
            path = prefix + layer.get("name", str(i))
            (kind, a), = [(k, s) for k, s in layer.items() if k != "name"]
            on = self.dtype is not None and not self.in_region(path)
            if not on and v.half:
                v = Value(self.float(v))
            if kind == "residual":
                y = self.run(a, path + ".", v)
                v = self.add(y, v)
            else:
                v = self.layer(kind, a, path, v, on)
        return v

    def __call__(self, x):
        return self.float(self.run(self.model, "", Value(x)))


# ---- loss, schedule, optimizer, scaler --------------------------------------

def name_and_settings(spec, key, default=None):
    v = spec.get(key, default)
    return (v, {}) if isinstance(v, str) else next(iter(v.items()))


def loss_sum(spec, y, t):
    """The sum over what counts, and how much counts."""
    kind, a = name_and_settings(spec, "loss")
    if kind == "cross_entropy":
        ignore = a.get("ignore_index")
        ignore = -100 if ignore is None else ignore
        return F.cross_entropy(
            y, t, reduction="sum", ignore_index=ignore,
            label_smoothing=a.get("label_smoothing", 0.0)), \
            int((t != ignore).sum())
    f = {"mse": F.mse_loss, "l1": F.l1_loss,
         "bce_with_logits": F.binary_cross_entropy_with_logits}[kind]
    return f(y, t, reduction="sum"), t.numel()


def rate(spec, base, u, planned):
    kind, a = name_and_settings(spec, "schedule", "constant")
    warm = a.get("warmup_updates", 0)
    if u < warm:
        return base * (u + 1) / warm
    if kind == "constant":
        return base
    if kind == "step":
        return base * a.get("gamma", 0.1) ** (u // a["step_size"])
    p = min(1.0, (u - warm) / ((a.get("total_updates", 0) or planned) - warm))
    low = a.get("min_lr", 0.0)
    share = (1 + math.cos(math.pi * p)) / 2 if kind == "cosine" else 1 - p
    return low + (base - low) * share


def make_optimizer(spec, params):
    (kind, a), = spec["optimizer"].items()
    a = dict(a)
    groups, left = [], dict(params)
    for g in a.pop("groups", []):
        g = dict(g)
        match = g.pop("match")
        names = [n for n in left if any(fnmatch.fnmatchcase(n, m)
                                        for m in match)]
        groups.append(dict(g, params=[left.pop(n) for n in names]))
    groups.insert(0, {"params": list(left.values())})
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam,
            "adamw": torch.optim.AdamW}[kind]
    opt = make(groups, **a)
    for g in opt.param_groups:
        g["base"] = g["lr"]
    return opt


class Scaler:
    def __init__(self, amp):
        s = amp.get("scaler", {})
        self.on = amp.get("dtype") == "float16"
        self.scale = torch.tensor(s.get("init_scale", 65536.0)
                                  if self.on else 1.0)
        self.growth, self.interval = 2.0, s.get("growth_interval", 2000)
        self.backoff = s.get("backoff_factor", 0.5)
        self.tracker = 0

    def unscale(self, params):
        """Whether all is finite."""
        inverse = self.scale.double().reciprocal().float()
        for p in params:
            p.grad.mul_(inverse)
        return all(bool(torch.isfinite(p.grad).all()) for p in params)

    def update(self, finite):
        if not self.on:
            return
        if not finite:
            self.scale = torch.clamp(self.scale * self.backoff, 1.0)
            self.tracker = 0
            return
        self.tracker += 1
        if self.tracker >= self.interval:
            self.tracker = 0
            self.scale = torch.clamp(self.scale * self.growth, max=2.0 ** 24)


# ---- training ---------------------------------------------------------------

def run_window(net, spec, scale, x, t):
    batches = [slice(i, i + BATCH_SIZE) for i in range(0, len(x), BATCH_SIZE)]
    with torch.no_grad():
        count = sum(loss_sum(spec, torch.zeros(len(t[b]), 3), t[b])[1]
                    for b in batches)
    total = 0.0
    for b in batches:
        loss = loss_sum(spec, net(x[b]), t[b])[0] * (
            1.0 / count if count else 0.0)
        (loss * scale).backward()
        total += loss.item()
    return total, len(batches)


def train(name, case):
    spec = case["spec"]
    x, t = data(name, case)
    x = torch.tensor(x, dtype=torch.float32).reshape(case["n"], *case["input"])
    t = torch.tensor(t) if case["target"][0] == "class" else torch.tensor(
        t, dtype=torch.float32).reshape(case["n"], case["target"][1])
    net, scaler = Net(spec), Scaler(spec.get("amp", {}))
    with torch.no_grad():
        net(x[:2])  # makes the parameters
    net.buffers.clear()
    window = BATCH_SIZE * spec["train"].get("accumulate", 1)
    per_epoch = -(-case["n"] // window)
    opt = make_optimizer(spec, net.params)
    clip = spec["train"].get("clip_grad_norm", 0)
    updates, steps = 0, []
    for i in range(per_epoch * spec["train"]["epochs"]):
        at = slice(i % per_epoch * window, (i % per_epoch + 1) * window)
        before = {k: v.clone() for k, v in net.buffers.items()}
        for g in opt.param_groups:
            g["lr"] = rate(spec, g["base"], updates,
                           per_epoch * spec["train"]["epochs"])
        opt.zero_grad()
        scale = scaler.scale.clone()
        loss, n_batches = run_window(net, spec, scale, x[at], t[at])
        params = list(net.params.values())
        finite = scaler.unscale(params)
        norm = torch.linalg.vector_norm(torch.cat(
            [p.grad.flatten().double() for p in params])).item()
        step = {"loss": loss, "lr": opt.param_groups[0]["lr"],
                "scale": scale.item(), "skipped": not finite}
        if finite:
            if clip:
                torch.nn.utils.clip_grad_norm_(params, clip)
            opt.step()
            updates += 1
            net.tracked += n_batches
            step["grad_norm"] = norm
        else:
            for k, v in net.buffers.items():
                if k in before:
                    v.copy_(before[k])
                else:
                    v.copy_(torch.tensor(initial(k, tuple(v.shape))))
        scaler.update(finite)
        Peak.end_iteration()
        step.update(scale_after=scaler.scale.item(), tracker=scaler.tracker)
        steps.append(step)
    return net, steps, moments(net, opt), evaluate(net, spec, x, t)


def evaluate(net, spec, x, t):
    """Loss and accuracy over the whole set, in evaluation mode."""
    net.training = False
    with torch.no_grad():
        y = net(x)
    net.training = True
    total, count = loss_sum(spec, y, t)
    out = {"loss": total.item() / count}
    if t.dtype == torch.int64:
        best = y.topk(2, 1).values
        lead = (best[:, 0] - best[:, 1]).min().item()
        # Near ties may be decided by rounding: then it is not compared.
        if lead > (1e-4 if net.dtype is None else 0.02):
            out["accuracy"] = int((y.argmax(1) == t).sum()) / count
    return out


def moments(net, opt):
    """What the optimizer carries, by the names of traind's checkpoints."""
    names = {"momentum": "momentum_buffer", "m": "exp_avg", "v": "exp_avg_sq"}
    return {f"{ours}.{k}": opt.state[p][theirs]
            for k, p in net.params.items() for ours, theirs in names.items()
            if opt.state[p].get(theirs) is not None}


def tidy(v):
    """As few digits as bring the float32 back."""
    return float(f"{v:.9g}")


def listed(tensors):
    return {k: {"shape": list(v.shape), "values": [
        tidy(e) for e in v.detach().flatten().tolist()]}
            for k, v in tensors.items()}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    for name in sys.argv[1:] or CASES:
        Peak.largest, Peak.margin = 0.0, math.inf
        net, steps, moved, evaluation = train(name, CASES[name])
        if net.dtype == torch.float16:
            # Else the tests would depend on the last bit of a sum.
            assert Peak.margin > 0.02, (name, Peak.margin)
        tensors = dict(net.params, **net.buffers)
        if not name.startswith("mlp-"):
            moved = {}
        out = {"torch": torch.__version__, "batches_tracked": net.tracked,
               "steps": [{k: tidy(v) if isinstance(v, float) and k != "lr"
                          else v for k, v in s.items()} for s in steps],
               "evaluation": {k: tidy(v) for k, v in evaluation.items()},
               "final": listed(tensors), "moments": listed(moved)}
        path = os.path.join(here, "oracle", name + ".json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(out, separators=(",", ":")) + "\n")
        print(f"{name}: {len(steps)} iterations, loss {steps[0]['loss']:.4f} "
              f"to {steps[-1]['loss']:.4f}, "
              f"{sum(s['skipped'] for s in steps)} skipped, "
              f"margin {Peak.margin:.2g}")


if __name__ == "__main__":
    main()
