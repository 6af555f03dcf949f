# SPDX-License-Identifier: Apache-2.0
"""A kept incident as somebody else may hand it over: taken apart, changed, and
put together again with a manifest that agrees with it."""
import copy
import ctypes
import json
import os
import re
import shutil
import struct

FILES = ("spec.json", "incident.json", "weights.safetensors",
         "batch.safetensors")


class _Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_128bits.restype = _Hash
_xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def digest(data):
    h = _xxhash.XXH3_128bits(data, len(data))
    return f"{h.high:016x}{h.low:016x}"


def canonical(value):
    """As the engine prints it, escapes in capitals too."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return (re.sub(r"\\u[0-9a-f]{4}", lambda m: "\\u" + m[0][2:].upper(),
                   text) + "\n").encode()


def unpack(data):
    """Tensors of a safetensors file: name -> [dtype, shape, bytes]."""
    n, = struct.unpack("<Q", data[:8])
    return {name: [t["dtype"], t["shape"],
                   data[8 + n:][slice(*t["data_offsets"])]]
            for name, t in json.loads(data[8:8 + n]).items()
            if name != "__metadata__"}


def pack(tensors, change=None):
    """The file; change(header) may lie about what is in it."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, piece) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    if change:
        change(header)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


class Forged:
    """spec, record, weights and batch are there to be changed; files holds
    bytes to write instead of what comes of them."""

    def __init__(self, directory):
        def read(name):
            with open(os.path.join(directory, name), "rb") as f:
                return f.read()
        self.spec = json.loads(read("spec.json"))
        self.record = json.loads(read("incident.json"))
        self.weights = unpack(read("weights.safetensors"))
        self.batch = unpack(read("batch.safetensors"))
        self.files = {}
        self.manifest = lambda manifest: None

    def copy(self):
        return copy.deepcopy(self)

    def put(self, name, at, piece):
        """Bytes into a tensor of the batch."""
        tensor = self.batch[name]
        tensor[2] = tensor[2][:at] + piece + tensor[2][at + len(piece):]

    def write(self, directory):
        shutil.rmtree(directory, ignore_errors=True)
        os.makedirs(directory)
        files = {"spec.json": json.dumps(self.spec).encode(),
                 "incident.json": canonical(self.record),
                 "weights.safetensors": pack(self.weights),
                 "batch.safetensors": pack(self.batch), **self.files}
        manifest = {"format": 1, "name": self.record["name"], "files": {
            name: {"bytes": len(files[name]), "xxh3_128": digest(files[name])}
            for name in FILES}}
        self.manifest(manifest)
        files["manifest.json"] = canonical(manifest)
        for name, data in files.items():
            with open(os.path.join(directory, name), "wb") as f:
                f.write(data)
