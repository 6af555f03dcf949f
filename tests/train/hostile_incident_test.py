# SPDX-License-Identifier: Apache-2.0
"""Kept incidents that somebody else made, and that do not hold together.

Each file by itself may be what the manifest says. Running one again must end
in one sentence that names the file and the place, or in the true table: never
in a crash, a wait for ever, or memory without end.
"""
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("TRAIND_SOURCE", "."),
                                "tests", "support"))
from forge import FILES, Forged, canonical, pack  # noqa: E402
from overflow import c08  # noqa: E402
from scenario import BIN, blobs, check, equal, main, mlp_spec  # noqa: E402
from worker import Job  # noqa: E402

INT64_MAX = 2 ** 63 - 1
HUGE = 2 ** 42  # more memory than there is


def replay(path, *options):
    """Exit status, lines of standard output, standard error."""
    p = subprocess.run([os.path.join(BIN, "traind-worker"), "--replay", path,
                        *options], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, check=False, timeout=120)
    return (p.returncode, [json.loads(line) for line in p.stdout.splitlines()],
            p.stderr.decode())


def refused(path, what, rc, *words):
    """One line, of the file at fault."""
    status, lines, said = replay(path)
    equal((status, lines, said.count("\n")), (rc, [], 1), f"{what}: {said}")
    check(said.startswith(f"traind-worker: {path}: ") and
          any(name in said for name in FILES + ("manifest.json",)) and
          said[:-1].isprintable(), f"{what}: {said}")
    for word in words:
        check(word in said, f"{what}: {said}")


class Kept:
    """One incident, as it was kept, and a place for what is made of it."""

    def __init__(self, make):
        self.dir = tempfile.mkdtemp(prefix="traind-r-hostile-")
        self.path = os.path.join(self.dir, "handed over")
        with Job(make(self.dir)) as job:
            equal(job.run().status, 0, "status")
            kept = os.path.join(job.dir, "incidents")
            self.whole = Forged(os.path.join(kept, sorted(os.listdir(kept))[0]))
        self.whole.write(self.path)
        equal(replay(self.path)[0], 0, "as it is")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)

    def forge(self, change):
        forged = self.whole.copy()
        change(forged)
        forged.write(self.path)

    def refuse(self, cases):
        for change, rc, *words in cases:
            self.forge(change)
            refused(self.path, words, rc, *words)


def mlp(folder):
    """Class ids, running statistics, 3 micro-batches; its scale is absurd."""
    blobs(folder, n=75)
    spec = mlp_spec(folder, train={"epochs": 1, "accumulate": 3},
                    amp={"dtype": "float16", "scaler": {
                        "enabled": True, "init_scale": 2.0 ** 40,
                        "max_scale": 0}})
    spec["data"]["batch_size"] = 32
    del spec["evaluate"]
    return spec


def record(path, value):
    """Sets what a path like "data.shape" leads to."""
    def change(forged):
        *parents, last = path.split(".")
        at = forged.record
        for key in parents:
            at = at[key]
        at[last] = value
    return change


def spec(path, value):
    def change(forged):
        *parents, last = path.split(".")
        at = forged.spec
        for key in parents:
            at = at[int(key)] if key.isdigit() else at[key]
        at[int(last) if last.isdigit() else last] = value
    return change


def batch(name, at, *values):
    return lambda forged: forged.put(name, at, struct.pack(f"<{len(values)}i",
                                                           *values))


def weights(name, tensor):
    """None takes it away."""
    def change(forged):
        if tensor is None:
            del forged.weights[name]
        else:
            forged.weights[name] = tensor
    return change


def lie(file, name, **members):
    """The header of a tensor, not what it says of."""
    def change(forged):
        tensors = forged.weights if file == FILES[2] else forged.batch
        forged.files[file] = pack(tensors, lambda h: h[name].update(members))
    return change


# ---- scenarios ---------------------------------------------------------------

def a_record_that_contradicts():
    """counts, data, policy, and what was found out"""
    with Kept(mlp) as k:
        k.refuse((
            (record("count", 74), 74, "count: 74", "has 75 targets"),
            (record("count", INT64_MAX), 74, "has 75 targets"),
            (record("count", "75"), 74, "count is not an integer"),
            (record("data.ignore_index", 0), 74, "count: 75"),
            (record("threads", 10 ** 6), 74, "threads"),
            (record("micro_batches", INT64_MAX), 74, "micro_batches"),
            (record("data.shape", [2 ** 41]), 74, "data:"),
            (record("data.target_shape", [1]), 74, "spec.json: loss:"),
            (record("backend", "abacus\x1b[2J"), 65, "incident.json: backend",
             "abacus?[2J", "--backend cpu"),
            (record("policy", "no JSON"), 74, "incident.json: policy"),
            (record("policy", "[]"), 74, "policy: not an object"),
            (record("policy", "[" * 5000), 74, "policy: maximum"),
            (record("policy", '{"fp32_regions":["nowhere"]}'), 74,
             'policy: fp32_regions is ["nowhere"]'),
            (record("diagnosis.index", [0] * 7), 74, "incident.index"),
            (record("diagnosis.name", "it000000009-a1"), 74, "it is of")))
        # Numbers as long as they get are told in full.
        k.forge(record("diagnosis.index", [-INT64_MAX] * 6))
        status, lines, said = replay(k.path)
        equal((status, said), (0, ""), "status")
        check("[" + ",".join([str(-INT64_MAX)] * 6) + "]" in
              lines[0]["where"], lines[0]["where"])


def a_spec_of_something_else():
    """other sizes, losses, counts, precision and optimizers"""
    with Kept(mlp) as k:
        k.refuse((
            (spec("model.0.linear.out_features", 17), 74,
             "weights.safetensors: fc1.weight is f32[16,8]"),
            (spec("train.accumulate", 2), 74, "micro_batches: 3"),
            (spec("data.batch_size", 31), 74, "batch.safetensors: micro-batch"),
            (spec("loss", "mse"), 74, "spec.json:", "mse"),
            (spec("amp.dtype", "bfloat16"), 74, 'policy: dtype is "float16"'),
            (spec("amp.fp32_regions", ["fc1"]), 74, "policy: fp32_regions"),
            (spec("optimizer", []), 74, "spec.json:", "optimizer"),
            (spec("model", [{"relu": {}}]), 74, "weights.safetensors:"),
            (lambda f: f.files.update({"spec.json": b"[]"}), 74,
             "spec.json:1:1: must be an object")))
        # More optimizers change nothing: weights are not stepped.
        k.forge(spec("optimizer", [{"match": ["fc1.*"], "sgd": {"lr": 1}},
                                   {"adamw": {"lr": 1}}]))
        equal(replay(k.path)[0], 0, "two optimizers")


def tensors_of_another_kind():
    """missing, doubled, of another shape or dtype, out of range"""
    with Kept(mlp) as k:
        head = k.whole.weights["head.bias"]
        header = (FILES[2], "head.bias")
        k.refuse((
            (batch("target.1", 4, 3), 74, "target.1: value 3, allowed 0..2"),
            (batch("target.2", 0, -1), 74, "target.2: value -1"),
            (batch("target.0", 0, -2 ** 31), 74, "target.0: value -2147483648"),
            (weights("head.bias", None), 74, "head.bias is missing"),
            (weights("head.bias", ["F16", [3], b"\0" * 6]), 74, "is f16[3]"),
            (weights("head.bias", ["F32", [3, 1], head[2]]), 74,
             "is f32[3,1]"),
            (weights("bn.num_batches_tracked", ["F64", [], b"\0" * 8]), 74,
             "bn.num_batches_tracked is f64[]"),
            (weights("one\nmore\x1b[2J", ["F32", [0], b""]), 74,
             "one?more?[2J is not in the model"),
            (lie(*header, shape=[2 ** 62]), 74, "too large"),
            (lie(*header, shape=[6]), 74, "its shape needs 24"),
            (lie(*header, shape=[-3]), 74, "not a size"),
            (lie(*header, data_offsets=[0, 12]), 74, "gap or overlap"),
            (lie(*header, data_offsets=[-12, 0]), 74, "backwards"),
            (lie(*header, data_offsets=[INT64_MAX - 12, INT64_MAX]), 74,
             "leave a gap"),
            (lie(FILES[3], "input.0", dtype="C64"), 74, "dtype C64"),
            (lambda f: f.batch.pop("ids.2"), 74, "8 tensors for 3"),
            (lambda f: f.batch.update({"input.00": f.batch.pop("input.0")}),
             74, "input.0 is missing"),
            (lambda f: f.files.update({FILES[2]: pack(f.weights)[:-1]}), 74,
             "weights.safetensors: data"),
            (lambda f: f.files.update({FILES[3]: pack(f.batch)[:100]}), 74,
             "batch.safetensors: header length"),
            (lambda f: f.files.update({FILES[2]: pack(f.weights).replace(
                b'"head.bias"', b'"fc1.bias" ')}), 74, "duplicate"),
            (lambda f: f.files.update({FILES[1]: canonical(f.record).replace(
                b'"attempt"', b'"attempt": 1, "attempt"')}), 74,
             "duplicate")))


def what_is_no_file():
    """links, pipes, sockets, directories, and holes larger than memory"""
    def link(path):
        os.rename(path, path + ".away")
        os.symlink(path + ".away", path)

    def listen(path):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
    with Kept(lambda folder: c08(folder, "float16")) as k:
        for name in FILES + ("manifest.json",):
            for make in (link, os.mkfifo, os.mkdir, listen,
                         lambda path: os.symlink("/dev/zero", path)):
                k.whole.write(k.path)
                at = os.path.join(k.path, name)
                if make is not link:
                    os.unlink(at)
                make(at)
                refused(k.path, make, 74, f"{name}: not a regular file")
        for name, rc in zip(FILES, (74, 74, 5, 5)):
            forged = k.whole.copy()
            forged.manifest = lambda m: m["files"][name].update(bytes=HUGE)
            forged.write(k.path)
            os.truncate(os.path.join(k.path, name), HUGE)
            refused(k.path, name, rc, f"{name}", str(HUGE))


def a_layer_that_pads():
    """makes tensors larger than memory of a few bytes"""
    def images(forged):
        forged.spec["model"] = [
            {"name": "c1", "conv2d": {"out_channels": 1, "kernel_size": 1,
                                      "padding": 180000, "bias": False}},
            {"adaptive_avg_pool2d": {"output_size": 1}}, "flatten",
            {"name": "h", "linear": {"out_features": 1}}]
        forged.record["data"]["shape"] = [1, 2, 1]
        forged.weights = {"c1.weight": ["F32", [1, 1, 1, 1], b"\0" * 4],
                          "h.weight": ["F32", [1, 1], b"\0" * 4],
                          "h.bias": ["F32", [1], b"\0" * 4]}
    with Kept(lambda folder: c08(folder, "float16")) as k:
        k.refuse(((images, 5, "spec.json: model: its tensors",
                   "bytes of memory of this machine"),))


if __name__ == "__main__":
    main(a_record_that_contradicts, a_spec_of_something_else,
         tensors_of_another_kind, what_is_no_file, a_layer_that_pads)
