# SPDX-License-Identifier: Apache-2.0
"""traind-worker against PyTorch's numbers in tests/train/oracle/.

oracle_torch.py made them from the same cases (oracle_cases.py): same weights,
same batches. Skips, scales and trackers must be the same; the rest within
what rounding explains:

  * float32: both sides compute the same sums in another order, each good to a
    few 2^-24. Training carries a difference on and adds to it with every
    update, so the bound grows by a quarter of itself with each.
  * half: where two sums fall on two sides of a rounding boundary, one value
    differs by a unit of the half type (2^-11 of it in float16, 2^-8 in
    bfloat16). Few values do; a mean over a batch sees a fraction of it.

Weights are compared by the distance of whole tensors, relative to how far
training moved them: so a small bias counts as much as a large matrix.
"""
import array
import json
import math
import os
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
from oracle_cases import CASES, data, initial, spec_of  # noqa: E402
from scenario import check, equal, npy  # noqa: E402
from worker import Job  # noqa: E402

# Loss and norm at the first update, growth an update, weights at the end.
# Measured with oneDNN's kernels for SSE4.1, AVX2 and AVX-512: 3e-7 and 5e-6,
# 1e-4 and 2e-3, 4e-4 and 8e-4.
LIMITS = {"float32": (1e-6, 0.25, 2e-5), "float16": (5e-4, 0.25, 1e-2),
          "bfloat16": (4e-3, 0.25, 1e-2)}


def write_safetensors(path, tensors):
    head, blob = {}, b""
    for name, (shape, values) in tensors.items():
        raw = struct.pack(f"<{len(values)}f", *values)
        head[name] = {"dtype": "F32", "shape": shape,
                      "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + blob)


def write_inputs(folder, name, case, want):
    x, y = data(name, case)
    npy(f"{folder}/x.npy", "<f4", (case["n"], *case["input"]), x)
    kind, width = case["target"]
    if kind == "class":
        npy(f"{folder}/y.npy", "<i4", (case["n"],), y)
    else:
        npy(f"{folder}/y.npy", "<f4", (case["n"], width), y)
    write_safetensors(f"{folder}/start.safetensors", {
        k: (v["shape"], initial(k, tuple(v["shape"])))
        for k, v in want["final"].items()})


def relative(got, want):
    return abs(got - want) / max(abs(want), 1e-30)


def floats(raw):
    return array.array("f", raw)


def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))


def compare_steps(job, attempt, want, limits):
    """Largest relative differences of (loss, norm)."""
    steps = attempt.events("step")
    equal(len(steps), len(want["steps"]), "iterations")
    worst, u = [0.0, 0.0], 0
    for i, (got, w) in enumerate(zip(steps, want["steps"])):
        where = f"iteration {i + 1}"
        equal(got["skipped"], w["skipped"], f"{where}: skipped")
        equal(got["scale"], w["scale"], f"{where}: scale")
        check(relative(got["lr"], w["lr"]) < 1e-12 or got["lr"] == w["lr"],
              f"{where}: lr {got['lr']}, want {w['lr']}")
        limit = limits[0] * (1 + limits[1] * u)
        pairs = [("loss", 0)] + ([] if w["skipped"] else [("grad_norm", 1)])
        for key, slot in pairs:
            d = relative(got[key], w[key])
            worst[slot] = max(worst[slot], d / (1 + limits[1] * u))
            check(d <= limit or LOOSE,
                  f"{where}: {key} {got[key]!r}, want {w[key]!r} "
                  f"(off by {d:.2g}, limit {limit:.2g})")
        u += not w["skipped"]
    changes = [(e["iteration"], e["after"], e["growth_tracker"])
               for e in attempt.events("scale")]
    expect = [(i + 1, w["scale_after"], w["tracker"])
              for i, w in enumerate(want["steps"])
              if w["skipped"] or w["scale_after"] > w["scale"]]
    equal(changes, expect, "changes of the scale")
    state = job.state(job.checkpoints()[-1])["scaler"]
    last = want["steps"][-1]
    equal((state["scale"], state["_growth_tracker"]),
          (last["scale_after"], last["tracker"]), "scaler in the checkpoint")
    return worst


def compare_evaluation(attempt, want, limits, u):
    got = attempt.events("evaluation")[-1]
    d = relative(got["loss"], want["loss"])
    check(d <= limits[0] * (1 + limits[1] * u) or LOOSE,
          f"evaluation: loss {got['loss']!r}, want {want['loss']!r}")
    if "accuracy" in want:
        check(abs(got["accuracy"] - want["accuracy"]) < 1e-6,
              f"accuracy {got['accuracy']}, want {want['accuracy']}")
    return d / (1 + limits[1] * u)


def compare_weights(job, want, limit):
    got = job.weights(job.checkpoints()[-1])
    worst = 0.0
    for name, w in want["final"].items():
        start = initial(name, tuple(w["shape"]))
        moved = distance(w["values"], start)
        d = distance(floats(got[name]), w["values"])
        # A gradient that is zero but for rounding moves nothing that counts.
        floor = 1e-2 * math.sqrt(len(start))
        share = d / max(moved, floor)
        worst = max(worst, share)
        check(share <= limit or LOOSE,
              f"{name}: off by {share:.2g} of its way, limit {limit:.2g}")
    for name, w in want["moments"].items():
        size = distance(w["values"], [0.0] * len(w["values"]))
        share = distance(floats(got[name]), w["values"]) / size
        worst = max(worst, share)
        check(share <= limit / 4 or LOOSE,
              f"{name}: off by {share:.2g}, limit {limit / 4:.2g}")
    for name, raw in got.items():
        if name.endswith("num_batches_tracked"):
            equal(struct.unpack("<q", raw)[0], want["batches_tracked"], name)
    return worst


def run(name):
    case = CASES[name]
    with open(os.path.join(HERE, "oracle", name + ".json"),
              encoding="utf-8") as f:
        want = json.load(f)
    dtype = case["spec"].get("amp", {}).get("dtype", "float32")
    limits = LIMITS[dtype]
    with tempfile.TemporaryDirectory(prefix="traind-o-") as folder:
        write_inputs(folder, name, case, want)
        with Job(spec_of(case, folder)) as job:
            a = job.run()
            equal(a.status, 0, "exit status; " + a.stderr())
            worst = compare_steps(job, a, want, limits)
            evaluation = compare_evaluation(
                a, want["evaluation"], limits,
                sum(not w["skipped"] for w in want["steps"]))
            weights = compare_weights(job, want, limits[2])
    print(f"{name}: loss {worst[0]:.1e}, norm {worst[1]:.1e}, "
          f"evaluation {evaluation:.1e}, "
          f"weights {weights:.1e}", flush=True)


LOOSE = "--measure" in sys.argv


def main():
    names = [a for a in sys.argv[1:] if a != "--measure"] or list(CASES)
    failed = []
    for name in names:
        try:
            run(name)
        except AssertionError as e:
            failed.append(name)
            print(f"{name}: {e}", flush=True)
    check(not failed, f"differ from PyTorch: {', '.join(failed)}")


if __name__ == "__main__":
    main()
