#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An incident is kept, run again by trainctl, and told in every form."""
import csv
import io
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from overflow import c08
from scenario import Daemon, blobs, check, equal, main, mlp_spec


def by_its_number():
    """words, table, JSON, csv and parsable of the same replay"""
    with Daemon() as d:
        job = d.submit(c08(d.dir, "float16"), "--wait")
        incidents = d.json("incidents", job)
        equal([i["name"] != "" and i["kept_bytes"] > 0 for i in incidents],
              [True] * 4, "kept")
        number, path = incidents[0]["id"], incidents[0]["path"]
        said = d.ctl("replay", number)
        for words in ("bits: the same as in the step that failed",
                      "verdict: forward_overflow",
                      "now: the first that is not finite is fc1.out, of "
                      "linear in fc1 (forward, float16)",
                      "66304", "overflow, the first",
                      "0 of 19 tensors are within 2 bits of overflow; 14 are "
                      "not finite", "float16 ends at 65504"):
            check(words in said, f"{words}: {said}")
        both = d.json("replay", number)
        equal((both["replay"]["bits"], both["replay"]["name"],
               len(both["ranges"])), ("same", os.path.basename(path), 19),
              "JSON")
        want = [(r["tensor"], str(float(r["largest"])), r["mark"])
                for r in both["ranges"]]
        rows = csv.DictReader(io.StringIO(d.ctl("replay", number, "--csv")))
        equal([(r["tensor"], str(float(r["largest"])), r["mark"])
               for r in rows], want, "csv")
        lines = [line.split("|") for line in
                 d.ctl("--parsable", "replay", number).splitlines()]
        equal([(f[3], str(float(f[6])), f[14]) for f in lines], want,
              "parsable")
        d.ctl("--json", "replay", number, "--csv", rc=2)
        said = d.ctl("replay", number, "--fp32-region", "fc1",
                     "--fp32-region", "fc2")
        check("changed: fp32 region fc1, fp32 region fc2" in said and
              "now: everything is finite" in said and "bits:" not in said,
              said)
        said = d.ctl("replay", number, "--amp", "bfloat16", "--scale", 2)
        check("changed: dtype bfloat16, scale 2" in said, said)


def without_a_daemon():
    """a directory will do, wherever it was copied to"""
    with Daemon() as d:
        job = d.submit(c08(d.dir, "float16"), "--wait")
        away = tempfile.mkdtemp(prefix="traind-r-away-")
        copy = os.path.join(away, "from another machine")
        shutil.copytree(d.json("incidents", job)[2]["path"], copy)
    d.env["TRAIND_SOCKET"] = "/nonexistent"
    equal(d.json("replay", copy)["replay"]["bits"], "same", "bits")
    with open(os.path.join(copy, "batch.safetensors"), "r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(b"\x7f")
    r = d.try_ctl("replay", copy)
    equal(r.returncode, 74, r.stderr)
    check("batch.safetensors: checksum" in r.stderr, r.stderr)
    equal(r.stdout, "", "output")
    shutil.rmtree(away)
    r = d.try_ctl("replay", 1)
    equal(r.returncode, 69, "a number needs the daemon: " + r.stderr)


def what_is_not_kept():
    """is refused with a sentence; so is what makes no sense"""
    with Daemon() as d:
        job = d.submit(c08(d.dir, "float16", diagnose={"keep": 1}), "--wait")
        incidents = d.json("incidents", job)
        r = d.try_ctl("replay", incidents[0]["id"])
        equal(r.returncode, 2, r.stderr)
        check("is not kept" in r.stderr, r.stderr)
        d.ctl("replay", incidents[3]["id"])
        for words, rc in ((("replay", 99), 2), (("replay",), 2),
                          (("replay", incidents[3]["id"], "--amp", "int8"), 2),
                          (("replay", incidents[3]["id"], "--scale", "0"), 2),
                          (("replay", incidents[3]["id"], "--threads", "x"), 2),
                          (("replay", incidents[3]["id"], "--fp32-region",
                            "fc3"), 65),
                          (("replay", incidents[3]["id"], "--backend",
                            "abacus"), 65),
                          (("replay", d.dir), 74)):
            r = d.try_ctl(*words)
            equal(r.returncode, rc, f"{words}: {r.stderr}")
            check(r.stderr.count("\n") == 1 and r.stdout == "", f"{words}")


def ranges_of_a_running_job():
    """it makes a checkpoint when it has none, and goes on"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(
            d.dir, train={"epochs": 1000000}, evaluate={"every_updates": 0},
            checkpoint={"every_updates": 0, "keep": 3}))
        d.wait_iteration(job, 20)
        both = d.json("ranges", job)
        header, ranges = both["replay"], both["ranges"]
        equal((header["bits"], header["finite"]), ("", True), "header")
        equal(header["name"], d.json("checkpoints", job)[-1]["name"], "name")
        check({r["mark"] for r in ranges} <= {"", "headroom", "flushed"},
              "marks")
        equal(d.status(job)["state"], "running", "state")
        said = d.ctl("ranges", job)
        check("within 2 bits of overflow" in said and "fc1.out" in said, said)
        said = d.ctl("ranges", job, "--amp", "float32")
        check("FP32 LARGEST" not in said, said)
        d.ctl("cancel", job)
        d.ctl("ranges", job)  # the checkpoint is still there
    with Daemon() as d:
        blobs(d.dir)
        d.ctl("ranges", 1, rc=2)


def ranges_after_a_change():
    """are those of the policy that holds by now"""
    with Daemon() as d:
        blobs(d.dir)
        # Kept so many that none goes between the choice and the stop.
        job = d.submit(mlp_spec(d.dir, train={"epochs": 1000000}, checkpoint={
            "every_updates": 50, "keep": 1000}))
        d.wait_iteration(job, 120)
        d.ctl("rollback", job, "--set", "amp.dtype=bfloat16",
              "--accept-policy-change")
        d.ctl("rollback", job, "--set", "amp.fp32_regions=[\"head\"]",
              "--accept-policy-change")
        header = d.json("ranges", job)["replay"]
        equal((header["dtype"], header["regions"], header["varied"]),
              ("bfloat16", ["head"], ""), "policy")
        d.ctl("cancel", job)


def another_backend():
    """other bits: exit status 1, both digests, what differs in the policy"""
    with Daemon() as d:
        blobs(d.dir, n=64)
        job = d.submit(mlp_spec(
            d.dir, optimizer={"sgd": {"lr": 10}},
            amp={"dtype": "float32", "scaler": {
                "enabled": True, "init_scale": 3e38, "max_scale": 0}},
            train={"epochs": 4}), "--wait")
        incidents = d.json("incidents", job)
        check(incidents, "it skips")
        said = d.ctl("replay", incidents[-1]["id"], "--backend", "reference",
                     rc=1)
        check("bits: NOT those of the step that failed" in said and
              "policy: backend:" in said, said)
        d.ctl("replay", incidents[-1]["id"])


if __name__ == "__main__":
    main(by_its_number, without_a_daemon, what_is_not_kept,
         ranges_of_a_running_job, ranges_after_a_change, another_backend)
