# SPDX-License-Identifier: Apache-2.0
"""Kept incidents, run again by a fresh process, far from their data.

An attempt skips; its incidents are moved elsewhere, all else is removed; then
traind-worker --replay must give the very bits of the step that failed.
"""
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("TRAIND_SOURCE", "."),
                                "tests", "support"))
from overflow import c08  # noqa: E402
from scenario import BIN, check, equal, main, mlp_spec, npy, blobs  # noqa: E402
from worker import Job  # noqa: E402

WORKER = os.path.join(BIN, "traind-worker")
TOO_LARGE = {"float16": 2.0 ** 40, "bfloat16": 3.0e38}


def replay(directory, *options, rc=0, flag="--replay"):
    """Header and ranges."""
    p = subprocess.run([WORKER, flag, directory, *map(str, options)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       check=False, text=True)
    equal(p.returncode, rc, f"exit status of {options}: {p.stderr}{p.stdout}")
    lines = [json.loads(line) for line in p.stdout.splitlines()]
    return (lines[0], lines[1:]) if lines else (p.stderr, [])


def names(job):
    path = os.path.join(job.dir, "incidents")
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def too_large(dtype):
    """A scale at which gradients do not fit the dtype."""
    return {"dtype": dtype, "scaler": {
        "enabled": True, "init_scale": TOO_LARGE[dtype], "max_scale": 0,
        "backoff_factor": 0.9}}


# ---- models ----------------------------------------------------------------

def mlp(folder, dtype):
    """dropout, batch norm, 3 micro-batches, the last one short"""
    blobs(folder, n=75)
    spec = mlp_spec(
        folder, amp=too_large(dtype), checkpoint={"keep": 3},
        data={"train": {"format": "npy", "input": f"{folder}/x.npy",
                        "target": f"{folder}/y.npy"}, "batch_size": 32},
        train={"epochs": 6, "max_iterations": 6, "accumulate": 3})
    del spec["evaluate"]
    return spec


def cnn(folder, dtype):
    """images, augmented, with dropout and batch norm"""
    r = random.Random(5)
    n = 20
    npy(f"{folder}/x.npy", "<f4", (n, 3, 8, 8),
        [r.gauss(0, 1) for _ in range(n * 192)])
    npy(f"{folder}/y.npy", "<i4", (n,), [r.randrange(4) for _ in range(n)])
    return {
        "seed": 11, "threads": 2,
        "data": {"train": {"format": "npy", "input": f"{folder}/x.npy",
                           "target": f"{folder}/y.npy"},
                 "normalize": {"mean": 0.1, "std": 2.0}, "batch_size": 8,
                 "augment": {"random_crop": {"padding": 2},
                             "horizontal_flip": {"p": 0.5}}},
        "model": [{"name": "c1", "conv2d": {"out_channels": 8,
                                            "kernel_size": 3, "padding": 1}},
                  {"name": "bn", "batch_norm2d": {}}, "relu",
                  {"dropout": {"p": 0.2}},
                  {"max_pool2d": {"kernel_size": 2}}, "flatten",
                  {"name": "head", "linear": {"out_features": 4}}],
        "loss": "cross_entropy", "optimizer": {"sgd": {"lr": 0.1}},
        "amp": too_large(dtype), "train": {"epochs": 2, "max_iterations": 6},
    }


def gpt(folder, dtype):
    """masked tokens, computed again in backward, accumulated"""
    r = random.Random(6)
    n = 16 * 40 + 1
    with open(f"{folder}/ids.bin", "wb") as f:
        for _ in range(n):
            f.write(r.randrange(50).to_bytes(2, "little"))
    npy(f"{folder}/mask.npy", "|u1", (n,),
        [int(r.random() < 0.6) for _ in range(n)])
    return {
        "seed": 2, "threads": 2,
        "data": {"train": {"format": "tokens", "input": f"{folder}/ids.bin",
                           "token_dtype": "uint16",
                           "mask": f"{folder}/mask.npy"},
                 "sequence_length": 16, "batch_size": 4, "shuffle": True},
        "model": {"gpt": {"vocab_size": 50, "block_size": 16, "n_layer": 2,
                          "n_head": 2, "n_embd": 16, "dropout": 0.1}},
        "loss": "cross_entropy", "optimizer": {"adamw": {"lr": 1e-2}},
        "amp": too_large(dtype),
        "train": {"epochs": 1, "max_iterations": 4, "accumulate": 2,
                  "recompute": ["h.?"]},
    }


# ---- scenarios -------------------------------------------------------------

def train(make, dtype, status=0, **changes):
    """Directories of the incidents, at another place, and the events."""
    away = tempfile.mkdtemp(prefix="traind-r-away-")
    folder = tempfile.mkdtemp(prefix="traind-r-data-")
    spec = make(folder, dtype)
    if dtype == "bfloat16":  # weights that make gradients too large for it
        spec["optimizer"] = {"adamw": {"lr": 100}}
    spec.update(changes)
    with Job(spec) as job:
        a = job.run()
        equal(a.status, status, f"{make.__name__} {dtype}: {a.stderr()}")
        events = a.events("incident")
        equal(names(job), [e["name"] for e in events if e["name"]],
              "what is kept")
        for name in names(job):
            shutil.move(os.path.join(job.dir, "incidents", name),
                        os.path.join(away, name))
    shutil.rmtree(folder)
    return away, events


def the_same_bits():
    """of MLP, CNN and GPT in both halves, one run of each skip"""
    for make in (mlp, cnn, gpt):
        for dtype in ("float16", "bfloat16"):
            away, events = train(make, dtype)
            check(len(events) >= 2, f"{make.__name__} {dtype} skips: {events}")
            for e in events:
                header, ranges = replay(os.path.join(away, e["name"]))
                what = f"{make.__name__} {dtype} {e['name']}"
                equal((header["bits"], header["differences"],
                       header["digest"]),
                      ("same", [], header["recorded"]), what)
                equal((header["finite"], header["dtype"], header["scale"],
                       header["iteration"], header["verdict"]),
                      (False, dtype, e["scale"], e["iteration"],
                       e["verdict"]), what)
                check(len(ranges) > 10, "ranges")
                # Each says the same about the first one.
                equal((header["pass"], header["tensor"]),
                      (e["pass"], e["tensor"]) if e["pass"] != "unscale"
                      else (header["pass"], header["tensor"]), what)
                header, _ = replay(os.path.join(away, e["name"]),
                                   "--amp", "float32", "--scale", 1)
                equal((header["bits"], header["finite"], header["pass"]),
                      ("", True, ""), f"{what} in float32")
            shutil.rmtree(away)


def a_bad_pixel():
    """survives in the kept batch: a NaN keeps its bits"""
    def bad(folder, dtype):
        spec = mlp(folder, dtype)
        with open(f"{folder}/x.npy", "r+b") as f:
            f.seek(-4 * 8 * 20, os.SEEK_END)
            f.write(b"\x01\x02\xc3\x7f")
        spec["amp"] = {"dtype": dtype}
        return spec
    away, events = train(bad, "float16")
    check(events, "it skips")
    for e in events:
        equal(e["verdict"], "bad_input", "verdict")
        header, _ = replay(os.path.join(away, e["name"]))
        equal((header["bits"], header["pass"]), ("same", "input"), "replay")
        header, _ = replay(os.path.join(away, e["name"]), "--amp", "float32",
                           "--scale", 1)
        equal((header["finite"], header["pass"]), (False, "input"), "float32")
    shutil.rmtree(away)


def c08_in_numbers():
    """66304 does not fit: the table shows it, and what cures it"""
    away, events = train(c08, "float16")
    equal(len(events), 4, "incidents")
    first = os.path.join(away, events[0]["name"])
    header, ranges = replay(first)
    equal((header["bits"], header["pass"], header["layer"], header["op"],
           header["tensor"], header["tensor_dtype"]),
          ("same", "forward", "fc1", "linear", "fc1.out", "float16"), "where")
    row = [r for r in ranges if r["tensor"] == "fc1.out"][0]
    equal((row["largest"], row["nonfinite"], row["fp32_largest"],
           row["fp32_nonfinite"], row["mark"], row["shape"]),
          (192, 1, 66304, 0, "overflow", [1, 2]), "fc1.out")
    check(abs(row["headroom"] - math.log2(65504 / 192)) < 1e-12, "head-room")
    for options in (("--amp", "float32"), ("--amp", "bfloat16"),
                    ("--fp32-region", "fc1", "--fp32-region", "fc2")):
        header, ranges = replay(first, *options)
        equal((header["finite"], header["bits"]), (True, ""), f"{options}")
        check(header["varied"], "what was changed is said")
        row = [r for r in ranges if r["tensor"] == "fc1.out"][0]
        equal(row["largest"], 66560 if "bfloat16" in options else 66304,
              f"{options}")
    # One of the two does not help: the relu's output is cast.
    header, _ = replay(first, "--fp32-region", "fc1")
    equal((header["finite"], header["pass"], header["op"], header["layer"]),
          (False, "forward", "cast", "fc2"), "fc1 alone")
    header, _ = replay(first, "--scale", 0.25)
    equal((header["finite"], header["scale"]), (False, 0.25), "scale")
    message, _ = replay(first, "--fp32-region", "fc7", rc=65)
    check("unknown layer; did you mean fc1?" in message, message)
    # Weights stay as they are: they lie on disk once.
    inodes = {os.stat(os.path.join(away, e["name"],
                                   "weights.safetensors")).st_ino
              for e in events}
    equal(len(inodes), 1, "files of weights")
    shutil.rmtree(away)


def weights_that_are_not_finite():
    """are kept as they are, and named before any op"""
    # No checkpoint is made of such weights: 9.
    away, events = train(c08, "float32", status=9,
                         optimizer={"sgd": {"lr": 1e38}})
    check(events, "it skips")
    events = [e for e in events if e["name"]]
    header, _ = replay(os.path.join(away, events[-1]["name"]))
    equal((header["bits"], header["pass"], header["finite"]),
          ("same", "optimizer", False), "replay")
    check(header["tensor"] in ("fc1.weight", "fc1.bias", "fc2.weight",
                               "fc2.bias"), header["tensor"])
    shutil.rmtree(away)


def another_backend():
    """is not the same: what differs is named, and the exit status is 1"""
    away, events = train(gpt, "bfloat16")
    path = os.path.join(away, events[-1]["name"])
    header, _ = replay(path, "--backend", "reference", rc=1)
    equal((header["bits"], header["backend"]), ("different", "reference"),
          "bits")
    check(any(d.startswith("backend:") for d in header["differences"]),
          f"{header['differences']}")
    header, _ = replay(path, "--threads", 1, rc=0)
    equal(header["differences"], ["threads: 1 here, 2 recorded"], "threads")
    message, _ = replay(path, "--backend", "abacus", rc=65)
    check("abacus" in message, message)
    shutil.rmtree(away)


def damage_is_named():
    """whatever file it hits, by that file's name"""
    away, events = train(c08, "float16")
    for i, name in enumerate(("spec.json", "incident.json", "manifest.json",
                              "weights.safetensors", "batch.safetensors")):
        path = os.path.join(away, "copy")
        shutil.copytree(os.path.join(away, events[0]["name"]), path)
        with open(os.path.join(path, name), "r+b") as f:
            f.seek(40 + i)
            f.write(b"\x00")
        message, _ = replay(path, rc=74)
        check(name in message, f"{name}: {message}")
        shutil.rmtree(path)
    message, _ = replay(os.path.join(away, "nowhere"), rc=74)
    check("nowhere" in message, message)
    shutil.rmtree(away)


def nothing_is_kept():
    """where the spec says so, and none that is larger than all the room"""
    folder = tempfile.mkdtemp(prefix="traind-r-data-")
    for diagnose in ({"keep": 0}, {"keep_bytes": 1000}):
        with Job({**c08(folder, "float16"), "diagnose": diagnose}) as job:
            a = job.run()
            equal(a.status, 0, a.stderr())
            equal(names(job), [], "kept")
            equal([(e["name"], e["kept_bytes"]) for e in a.events("incident")],
                  [("", 0)] * 4, f"{diagnose}")
            equal(a.events("warning"), [], "warnings")
    shutil.rmtree(folder)


def a_full_disk():
    """is a warning, and the run goes on"""
    folder = tempfile.mkdtemp(prefix="traind-r-data-")
    with Job(c08(folder, "float16")) as job:
        a = job.run(env={"TRAIND_FAILPOINT": "incident.before_manifest=ENOSPC"})
        equal(a.status, 0, a.stderr())
        equal([e["name"] != "" for e in a.events("incident")],
              [False, True, True, True], "kept")
        check(any("is not kept" in w["text"] for w in a.events("warning")),
              "warning")
        equal(len(names(job)), 3, "on disk")
    shutil.rmtree(folder)


def killed_while_keeping():
    """half an incident is none: the next attempt sweeps it, and goes on"""
    folder = tempfile.mkdtemp(prefix="traind-r-data-")
    with Job(c08(folder, "float16")) as job:
        for point in ("incident.before_weights", "ckpt.before_fsync:2",
                      "incident.before_manifest", "ckpt.before_rename"):
            a = job.run(env={"TRAIND_FAILPOINT": point})
            equal(a.status, -9, "killed")
            equal([n.startswith(".tmp-") for n in names(job)], [True], point)
            equal(a.events("incident"), [], "nobody was told")
        a = job.run()
        equal(a.status, 0, a.stderr())
        equal(names(job), [e["name"] for e in a.events("incident")], "swept")
        for name in names(job):
            header, _ = replay(os.path.join(job.dir, "incidents", name))
            equal(header["bits"], "same", name)
        # Whole, and its event lost: it counts, and goes when it is oldest.
        a = job.run(env={"TRAIND_FAILPOINT": "ckpt.after_rename"})
        equal(a.status, -9, "killed")
        equal(len(names(job)), 5, "one more")
    shutil.rmtree(folder)


def the_oldest_goes():
    """each removal is an event"""
    folder = tempfile.mkdtemp(prefix="traind-r-data-")
    with Job({**c08(folder, "float16"), "diagnose": {"keep": 2}}) as job:
        a = job.run()
        told = [e["name"] for e in a.events("incident")]
        equal([e["name"] for e in a.events("incident_pruned")], told[:2],
              "pruned")
        equal(names(job), told[2:], "kept")
    shutil.rmtree(folder)


def ranges_of_a_checkpoint():
    """are those of the iteration that it would go on with"""
    folder = tempfile.mkdtemp(prefix="traind-r-data-")
    spec = cnn(folder, "float16")
    spec["amp"] = {"dtype": "float16"}
    with Job(spec) as job:
        equal(job.run().status, 0, "status")
        path = os.path.join(folder, "spec.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(spec, f)
        name = job.checkpoints()[-1]
        header, ranges = replay(os.path.join(job.dir, "checkpoints", name),
                                "--spec", path, flag="--ranges")
        equal((header["name"], header["iteration"], header["finite"],
               header["bits"]), (name, 7, True, ""), "header")
        check(all(r["mark"] in ("", "headroom", "flushed") for r in ranges),
              "marks")
        check({r["pass"] for r in ranges} == {"forward", "loss", "backward"},
              "passes")
        rows = [r for r in ranges if r["tensor"] == "c1.out"]
        equal([r["dtype"] for r in rows], ["float16"], "c1.out")
        check(abs(rows[0]["largest"] / rows[0]["fp32_largest"] - 1) < 1e-2,
              "beside float32")
        # All float32: there is no twin, and nothing is flushed.
        header, ranges = replay(os.path.join(job.dir, "checkpoints", name),
                                "--spec", path, "--amp", "float32",
                                flag="--ranges")
        equal({r["flushed"] for r in ranges}, {0}, "flushed")
        equal({r["fp32_largest"] for r in ranges}, {"NaN"}, "twins")
        message, _ = replay(job.dir, "--spec", path, flag="--ranges", rc=74)
        check("checkpoint" in message, message)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(the_same_bits, a_bad_pixel, c08_in_numbers,
         weights_that_are_not_finite, another_backend,
         damage_is_named, nothing_is_kept, a_full_disk, killed_while_keeping,
         the_oldest_goes, ranges_of_a_checkpoint)
