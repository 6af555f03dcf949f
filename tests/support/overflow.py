# SPDX-License-Identifier: Apache-2.0
"""Case C08: 66304 in the forward pass, which float16 does not have."""
import json
import struct

from scenario import npy


def write_tensors(path, tensors):
    """A safetensors file of float32: name -> (shape, values)."""
    head, data = {}, b""
    for name, (shape, values) in tensors.items():
        piece = struct.pack(f"<{len(values)}f", *values)
        head[name] = {"dtype": "F32", "shape": shape,
                      "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def c08(folder, dtype, **changes):
    """Two layers whose numbers never change; 4 iterations."""
    npy(f"{folder}/x.npy", "<f4", (1, 2), [256, 256])
    npy(f"{folder}/t.npy", "<f4", (1, 1), [0])
    write_tensors(f"{folder}/w.safetensors", {
        "fc1.weight": ([2, 2], [128, 131, 0.5, 0.25]),
        "fc1.bias": ([2], [0, 0]),
        "fc2.weight": ([1, 2], [0.01, 0.01]), "fc2.bias": ([1], [0])})
    return {
        "threads": 1,
        "data": {"train": {"format": "npy", "input": f"{folder}/x.npy",
                           "target": f"{folder}/t.npy"}, "batch_size": 1},
        "initial_weights": f"{folder}/w.safetensors",
        "model": [{"name": "fc1", "linear": {"out_features": 2}}, "relu",
                  {"name": "fc2", "linear": {"out_features": 1}}],
        "loss": "mse", "optimizer": {"sgd": {"lr": 0.0}},
        "amp": {"dtype": dtype}, "train": {"epochs": 4}, **changes,
    }
