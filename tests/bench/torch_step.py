#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The peer of `./dev bench step`: the same shapes in Debian's PyTorch.

Reads lines "MODEL DTYPE SECONDS" and answers each with one JSON line: the
milliseconds of every update done in that time. Batches are drawn at random
once; updates contain forward, loss, backward, clipping and the optimizer, as
ours do. channels_last for the CNN: PyTorch's fast layout on a CPU.
"""
import json
import sys
import time

import torch
from torch import nn

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)


def make_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Dropout(0.25),
        nn.Linear(128, 10))


def make_mlp():
    return nn.Sequential(
        nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Linear(1024, 10))


MODELS = {
    # name: (model, shape of x, clip, optimizer)
    "cnn": (make_cnn, (128, 1, 28, 28), 1.0, "adamw"),
    "mlp": (make_mlp, (256, 784), None, "sgd"),
    "mlp-adamw": (make_mlp, (256, 784), None, "adamw"),
}
DTYPES = {"float32": None, "bfloat16": torch.bfloat16}


class Trainer:
    def __init__(self, name, dtype):
        make, shape, self.clip, optimizer = MODELS[name]
        torch.manual_seed(1)
        self.model = make()
        self.x = torch.randn(shape)
        if len(shape) == 4:
            self.model = self.model.to(memory_format=torch.channels_last)
            self.x = self.x.to(memory_format=torch.channels_last)
        self.y = torch.randint(0, 10, (shape[0],))
        self.dtype = DTYPES[dtype]
        params = self.model.parameters()
        if optimizer == "sgd":
            self.opt = torch.optim.SGD(params, lr=1e-3, momentum=0.9)
        else:
            self.opt = torch.optim.AdamW(params, lr=1e-3, foreach=True)

    def update(self):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=self.dtype or torch.bfloat16,
                            enabled=self.dtype is not None):
            out = self.model(self.x)
            loss = nn.functional.cross_entropy(out.float(), self.y)
        loss.backward()
        if self.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.opt.step()


def main():
    trainers = {}
    for line in sys.stdin:
        name, dtype, seconds = line.split()
        if (name, dtype) not in trainers:
            trainers[name, dtype] = Trainer(name, dtype)
        trainer = trainers[name, dtype]
        for _ in range(5):
            trainer.update()
        times = []
        end = time.perf_counter() + float(seconds)
        while time.perf_counter() < end:
            start = time.perf_counter()
            trainer.update()
            times.append((time.perf_counter() - start) * 1e3)
        print(json.dumps(times), flush=True)


main()
