#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/train/oracle/models/: PyTorch trains oracle_models.py's models.

    python3 tests/train/oracle_models_torch.py [case ...]   # needs torch, a CPU

Written with the torch named in each file. Modules, losses, optimizers,
clipping, torch.autocast("cpu") and torch.amp.GradScaler are PyTorch's own.
Its list of autocast ops on CPU is not the CUDA list that traind follows, and
its CPU kernel for attention rounds on the way, so these run wrapped:

  layer_norm, cross_entropy   in float32, autocast off
  scaled_dot_product_attention  q, k and v rounded to the half as the list
      says, computed in float32, rounded to the half once (the float32 of its
      scores is what traind's kernel contract promises)

After every forward pass the dtype of each module's output is held against the
CUDA list (check_dtypes). One thing is traind's own: a skipped update also puts
batch norm's running statistics back.

How near two right programs come to each other is measured here as well. Each
case is trained again with what is equal but for rounding: the samples of every
batch in another order, initial weights moved by one unit in the last place,
and, in float32, everything in double. The largest distances from the case
itself are its "spread"; oracle_models_test.py allows a multiple of them. The
same runs show that no skip hangs on the last bits of a sum: scales and skips
must be the same in all of them.
"""
import datetime
import json
import os
import struct
import sys
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn

import oracle_models as om
from oracle_models import initial

HERE = os.path.dirname(os.path.abspath(__file__))
HALF = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}


# ---- models: named as the presets name their layers -------------------------

class LayerNorm(nn.LayerNorm):
    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = x if x.dtype == torch.float64 else x.float()
            return super().forward(x)


class Residual(nn.Module):
    def __init__(self, c_in, c, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(c_in, c, 1, stride, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(
            y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    def __init__(self, depth, width, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        c_in = width
        for stage in range(3):
            c, blocks = width << stage, []
            for i in range((depth - 2) // 6):
                blocks.append(Residual(c_in, c, 2 if stage and not i else 1))
                c_in = c
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(c_in, num_classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.heads = heads

    def forward(self, x):
        x = self.c_attn(x)
        with torch.autocast("cpu", enabled=False):
            wide = x if x.dtype == torch.float64 else x.float()
            q, k, v = (e.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                       for e in wide.chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = y.transpose(1, 2).flatten(2).to(x.dtype)
        return self.c_proj(y)


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Decoder(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(c), Attention(c, heads)
        self.ln_2, self.mlp = LayerNorm(c), Mlp(c)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self, vocab_size, block_size, n_layer, n_head, n_embd):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.Sequential(*[Decoder(n_embd, n_head)
                                 for _ in range(n_layer)])
        self.ln_f = LayerNorm(n_embd)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        return F.linear(self.ln_f(self.h(x)), self.wte.weight)


def build(model):
    spec = om.MODELS[model]["model"]
    if model == "mlp":
        a, layers, c = spec["mlp"], [("0", nn.Flatten())], 10
        for width in a["hidden"]:
            layers += [(str(len(layers)), nn.Linear(c, width)),
                       (str(len(layers) + 1), nn.GELU())]
            c = width
        return nn.Sequential(OrderedDict(
            layers + [("head", nn.Linear(c, a["num_classes"]))]))
    if model == "cnn":
        return nn.Sequential(
            nn.Conv2d(2, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6),
            nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8, momentum=0.2), nn.SiLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4))
    return ResNet(**spec["resnet"]) if model == "resnet20" else \
        Gpt(**spec["gpt"])


def tracked(name):
    return name.endswith("num_batches_tracked")


def start(net, nudge):
    """Initial weights; nudge: a seed for moving each by one unit or none."""
    r = torch.Generator().manual_seed(nudge or 0)
    with torch.no_grad():
        for name, t in net.state_dict().items():
            if tracked(name):
                continue
            v = torch.tensor(initial(name, tuple(t.shape))).reshape(t.shape)
            if nudge:
                way = torch.randint(0, 3, t.shape, generator=r)
                to = torch.tensor([-9e9, 0.0, 9e9])[way]
                v = torch.where(way == 1, v, torch.nextafter(v, to))
            t.copy_(v)


GIVEN = (nn.ReLU, nn.GELU, nn.SiLU, nn.BatchNorm2d, nn.MaxPool2d,
         nn.AdaptiveAvgPool2d, nn.Flatten)


def check_dtypes(net, half):
    """What the CUDA list gives each module's output."""
    def hook(module, args, y):
        want = None
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            want = half
        elif isinstance(module, (nn.LayerNorm, nn.Embedding)):
            want = torch.float32
        elif isinstance(module, GIVEN):
            want = args[0].dtype
        assert want is None or y.dtype == want, (module, y.dtype, want)
    for m in net.modules():
        m.register_forward_hook(hook)


# ---- training ---------------------------------------------------------------

def make_optimizer(model, net):
    (kind, a), = om.MODELS[model]["optimizer"].items()
    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam,
            "adamw": torch.optim.AdamW}[kind](net.parameters(), **a)


class Case:
    """One training, up to om.UPDATES updates."""

    def __init__(self, case, nudge=0, order=None, double=False):
        self.model, precision = case.rsplit("-", 1)
        self.half, m = HALF[precision], om.MODELS[self.model]
        self.order = order or list(range(om.BATCH))
        net = self.net = build(self.model)
        start(net, nudge)
        if self.half is not None:
            check_dtypes(net, self.half)
        x, y = om.inputs(case)
        self.x = torch.tensor(x).reshape(m["n"], *m["input"])
        self.y = torch.tensor(y).reshape(m["n"], -1).squeeze(1)
        if double:
            net.double()
            self.x = self.x.double() if self.x.is_floating_point() else self.x
        # PyTorch's names; it has neither floor nor ceiling.
        settings = {k: v for k, v in om.amp(case).get("scaler", {}).items()
                    if k not in ("min_scale", "max_scale")}
        self.scaler = torch.amp.GradScaler("cpu", enabled=bool(settings),
                                           **settings)
        self.opt, self.clip = make_optimizer(self.model, net), m.get("clip")
        self.steps, self.grads, updates = [], None, 0
        while updates < om.UPDATES:
            updates += self.step(len(self.steps))
        self.final = {k: v.detach().double() for k, v in
                      net.state_dict().items() if not tracked(k)}

    def loss(self, i):
        at = i * om.BATCH % len(self.x)
        pick = [at + j for j in self.order]
        with torch.autocast("cpu", self.half or torch.bfloat16,
                            enabled=self.half is not None):
            out = self.net(self.x[pick])
            with torch.autocast("cpu", enabled=False):
                out = out if out.dtype == torch.float64 else out.float()
                return F.cross_entropy(out.flatten(0, -2),
                                       self.y[pick].flatten())

    def step(self, i):
        """One iteration; whether it was an update."""
        before = {k: v.clone() for k, v in self.net.named_buffers()}
        self.opt.zero_grad()
        scale = self.scaler.get_scale()
        loss = self.loss(i)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        grads = {k: p.grad.clone().double()
                 for k, p in self.net.named_parameters()}
        finite = all(bool(g.isfinite().all()) for g in grads.values())
        if finite and self.grads is None:
            self.grads, self.first = grads, i
        if self.clip:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.scaler.step(self.opt)
        self.scaler.update()
        if not finite:
            with torch.no_grad():
                for k, v in self.net.named_buffers():
                    v.copy_(before[k])
        state = self.scaler.state_dict()
        self.steps.append({
            "loss": loss.item(), "scale": scale, "skipped": not finite,
            "scale_after": state.get("scale", 1.0),
            "tracker": state.get("_growth_tracker", 0)})
        return finite

    def schedule(self):
        return [(s["scale"], s["skipped"], s["scale_after"], s["tracker"])
                for s in self.steps]


# ---- spread and files -------------------------------------------------------

def others(case):
    n = om.BATCH
    yield Case(case, order=list(range(n))[::-1])
    yield Case(case, order=[(3 * i + 1) % n for i in range(n)])
    for seed in (1, 2, 3):
        yield Case(case, nudge=seed)
    if case.endswith("-f32"):
        yield Case(case, double=True)


def distances(base, other):
    def far(a, b):
        return {k: (a[k] - b[k]).norm().item() for k in a}
    loss = [abs(a["loss"] - b["loss"]) if not a["skipped"] else 0.0
            for a, b in zip(base.steps, other.steps)]
    return loss, far(base.grads, other.grads), far(base.final, other.final)


def joined(a, b):
    if isinstance(a, dict):
        return {k: max(v, b[k]) for k, v in a.items()}
    return [max(v, w) for v, w in zip(a, b)]


def write_tensors(path, tensors):
    head, raw = {}, b""
    for name, t in tensors.items():
        piece = t.float().contiguous().numpy().tobytes()
        head[name] = {"dtype": "F32", "shape": list(t.shape),
                      "data_offsets": [len(raw), len(raw) + len(piece)]}
        raw += piece
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + raw)


def short(v):
    return float(f"{v:.3g}")


def make(case):
    base, spread = Case(case), None
    for other in others(case):
        assert other.schedule() == base.schedule(), (case, "borderline skip")
        d = distances(base, other)
        spread = d if spread is None else [joined(a, b)
                                           for a, b in zip(spread, d)]
    loss, grad, final = spread
    path = os.path.join(HERE, "oracle", "models", case)
    tensors = {f"grad/{k}": v for k, v in base.grads.items()}
    tensors.update({f"final/{k}": v for k, v in base.final.items()})
    write_tensors(path + ".safetensors", tensors)
    for s in base.steps:
        if s["loss"] != s["loss"] or abs(s["loss"]) == float("inf"):
            s["loss"] = None
    out = {"torch": torch.__version__, "date": str(datetime.date.today()),
           "first_update": base.first, "steps": base.steps,
           "spread": {"loss": [short(v) for v in loss],
                      "grad": {k: short(v) for k, v in grad.items()},
                      "final": {k: short(v) for k, v in final.items()}}}
    with open(path + ".json", "w", encoding="utf-8") as f:
        f.write(json.dumps(out, separators=(",", ":")) + "\n")
    way = {k: (v - torch.tensor(initial(k, tuple(v.shape))).reshape(v.shape)
               ).norm().item() for k, v in base.final.items()}
    print(f"{case}: {len(base.steps)} iterations, loss "
          f"{base.steps[base.first]['loss']:.4f} to "
          f"{base.steps[-1]['loss']:.4f}, skipped at "
          f"{[i + 1 for i, s in enumerate(base.steps) if s['skipped']]}, "
          f"spread: loss {max(loss):.2g}, gradients "
          f"{max(v / base.grads[k].norm().item() for k, v in grad.items()):.2g}"
          f", weights {max(v / way[k] for k, v in final.items()):.2g}",
          flush=True)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for case in sys.argv[1:] or om.CASES:
        make(case)


if __name__ == "__main__":
    main()
