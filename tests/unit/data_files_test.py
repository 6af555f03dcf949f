#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our readers and writer against NumPy's and the safetensors library's.

Runs under $TRAIND_VENV/bin/python, which has both; without it the test is
skipped (77), and ./dev test makes it first.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

venv = os.environ.get("TRAIND_VENV", "")
python = os.path.join(venv, "bin", "python")
if __name__ == "__main__" and os.environ.get("TRAIND_IN_VENV") != "1":
    if not venv or not os.path.exists(python):
        print("skipped: no $TRAIND_VENV/bin/python")
        sys.exit(77)
    os.environ["TRAIND_IN_VENV"] = "1"
    os.execv(python, [python] + sys.argv)

import numpy as np
import safetensors
import safetensors.numpy

TOOL = os.path.join(os.environ["TRAIND_BIN"], "data_tool")

NAMES = {"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8",
         "i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8",
         "u2": "uint16", "u4": "uint32", "u8": "int64", "b1": "bool"}


def tool(*args):
    done = subprocess.run([TOOL, *args], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr.strip())
    return done.stdout


def values(text):
    """As doubles; what numbers of more digits JSON may hold is not asked."""
    return np.array(text["values"], dtype=np.float64).reshape(text["shape"])


class DataFiles(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.dir.cleanup()

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def check_npy(self, path, array):
        read = json.loads(tool("npy", path))
        self.assertEqual(read["shape"], list(array.shape))
        self.assertEqual(read["dtype"], NAMES[array.dtype.str[1:]])
        np.testing.assert_array_equal(values(read), array.astype(np.float64))

    def test_npy_every_dtype_order_and_shape(self):
        rng = np.random.default_rng(1)
        path = self.path("a.npy")
        for kind in NAMES:
            for order in "<>":
                for shape in [(), (5,), (3, 4), (2, 3, 4), (2, 1, 3, 2),
                              (0, 3), (2, 3, 1, 2, 2, 2)]:
                    a = np.asarray(rng.integers(0, 100, shape))
                    a = a.astype(np.dtype(order + kind))
                    for fortran in (False, True):
                        np.save(path, np.asfortranarray(a) if fortran and
                                a.ndim else a)
                        self.check_npy(path, a)

    def test_npy_special_values(self):
        path = self.path("a.npy")
        for kind in ("<f2", "<f4", "<f8", ">f4"):
            a = np.array([np.nan, np.inf, -np.inf, 0.1, -0.0, 6e-8],
                         dtype=kind)
            np.save(path, a)
            self.check_npy(path, a)

    def test_npy_versions(self):
        path = self.path("a.npy")
        a = np.arange(6, dtype=np.float32).reshape(2, 3)
        for version in ((1, 0), (2, 0), (3, 0)):
            with open(path, "wb") as f:
                np.lib.format.write_array(f, a, version=version)
            self.check_npy(path, a)

    def test_npy_refused(self):
        path = self.path("a.npy")
        for a in (np.array(["a"]), np.array([1j]), np.array([{}], dtype="O"),
                  np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f4")]),
                  np.array(["2020-01-01"], dtype="M8[D]"), np.array([b"x"])):
            np.save(path, a, allow_pickle=True)
            with self.assertRaises(AssertionError):
                tool("npy", path)

    def test_idx_gzip(self):
        path = self.path("a.gz")
        a = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
        with gzip.open(path, "wb") as f:
            f.write(bytes([0, 0, 8, 3]) + np.array(a.shape, ">u4").tobytes() +
                    a.tobytes())
        np.testing.assert_array_equal(values(json.loads(tool("idx", path))), a)

    def test_checkpoint_is_read_by_safetensors(self):
        name = tool("checkpoint", self.path("ckpt")).strip()
        path = self.path("ckpt/" + name + "/model.safetensors")
        with safetensors.safe_open(path, "numpy") as f:
            self.assertEqual(f.metadata(),
                             {"format": "pt",
                              "policy": '{"dtype": "float16"}'})
        got = safetensors.numpy.load_file(path)
        self.assertEqual(sorted(got), ["0.bias", "0.weight",
                                       "1.num_batches_tracked",
                                       "1.running_mean", "1.running_var",
                                       "1.weight"])

        def fill(first, n):
            step = np.float32(0.01) * np.arange(n, dtype=np.float32)
            return np.float32(first) + step

        np.testing.assert_array_equal(got["0.weight"],
                                      fill(100, 12).reshape(3, 4))
        np.testing.assert_array_equal(got["0.bias"], fill(101, 3))
        self.assertEqual(got["1.weight"].shape, ())
        self.assertEqual(got["1.weight"], np.float32(102))
        self.assertEqual(got["1.num_batches_tracked"].dtype, np.int64)
        self.assertEqual(got["1.num_batches_tracked"], 98)
        moments = safetensors.numpy.load_file(
            self.path("ckpt/" + name + "/optimizer.safetensors"))
        np.testing.assert_array_equal(
            moments["v.0.bias"],
            np.float32(100) + np.float32(0.2) + np.float32(1) +
            np.float32(0.01) * np.arange(3, dtype=np.float32))
        with open(self.path("ckpt/" + name + "/state.json")) as f:
            self.assertEqual(json.load(f)["seed"], str(2**64 - 1 - 100))

    def test_safetensors_of_the_library(self):
        path = self.path("a.safetensors")
        tensors = {
            "a": np.arange(6, dtype=np.float16).reshape(2, 3),
            "b.weight": np.array(7.5, dtype=np.float32),
            "c": np.zeros((0, 3), dtype=np.float64),
            "d": np.array([-1, 2], dtype=np.int64),
            "e": np.array([True, False]),
            "f": np.array([255], dtype=np.uint8),
        }
        safetensors.numpy.save_file(tensors, path, metadata={"k": "v"})
        read = json.loads(tool("safetensors", path))
        self.assertEqual(sorted(read), sorted(tensors))
        for name, a in tensors.items():
            self.assertEqual(read[name]["dtype"], str(a.dtype))
            np.testing.assert_array_equal(values(read[name]),
                                          a.astype(np.float64))


if __name__ == "__main__":
    unittest.main()
