#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job's history, taken along: CSV, JSON lines, TensorBoard's event files.

What is exported is held to the database row by row, by readers that are not
ours: Python's csv and json, a reader of event files of the tests' own, and
TensorBoard itself where ./dev test could install it.
"""
import csv
import io
import json
import math
import os
import resource
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
import tfevents
from overflow import c08
from scenario import (BIN, SOURCE, Daemon, blobs, check, check_ledger, equal,
                      main, mlp_spec, wait_for)

ENDLESS = {"epochs": 1000000, "clip_grad_norm": 1.0}
OFTEN = {"every_updates": 20, "keep": 1000}

# List, its table, and the fields that are columns under another name.
LISTS = {
    "metrics": ("metric", {"row": "id"}),
    "scale": ("scale_event", {"row": "id"}),
    "skips": ("scale_event", {"row": "id"}),
    "incidents": ("incident", {"index": "at"}),
    "evaluations": ("evaluation", {"row": "id"}),
    "checkpoints": ("checkpoint", {}),
    "guards": ("guard", {"row": "id"}),
    "rollbacks": ("rollback", {"row": "id"}),
}
NO_COLUMN = {"n_skipped", "loss_min", "loss_max", "n", "path", "checkpoint"}


def numbers(value):
    return math.nan if value is None else value


def stored(d, job, what, all_lines, window=(0, 1 << 62)):
    """Rows of the database as dicts, in the order of the history."""
    table, _ = LISTS[what]
    where = "" if all_lines or table == "rollback" else " AND live = 1"
    if what == "skips":
        where += " AND cause = 'skip'"
    order = "id"
    if table != "rollback":
        where += f" AND iteration BETWEEN {window[0]} AND {window[1]}"
        order = "iteration, id"
    names = [r[1] for r in d.sql(f"PRAGMA table_info({table})")]
    return [dict(zip(names, r)) for r in d.sql(
        f"SELECT * FROM {table} WHERE job = ?{where} ORDER BY {order}", job)]


def want(row, key):
    """A column as JSON has it; floats that are not finite are spelled out."""
    value = row[key]
    if key + "_flag" in row:
        return [value, "NaN", "Infinity", "-Infinity"][row[key + "_flag"]]
    return value


def same(text, value):
    """A CSV field against a column."""
    if isinstance(value, float) or value is None:
        a, b = float(text), numbers(value)
        return a == b or math.isnan(a) and math.isnan(b)
    if isinstance(value, int):
        return int(text) == value
    if value in ("NaN", "Infinity", "-Infinity"):
        return text == value
    if value.startswith("[") and not text.startswith("["):
        return [int(x) for x in text.split()] == json.loads(value)
    return text == value or text == "" and value == "[]"


def as_text(value):
    """A JSON value as its CSV field."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(int(value))
    return value if isinstance(value, str) else repr(value)


def check_table(d, job, what, folder, *flags, **window):
    """One list in both forms, against the database and each other."""
    files = {}
    for form in ("csv", "jsonl"):
        path = f"{folder}/{what}{''.join(flags)}.{form}"
        out = d.ctl("export", job, "--format", form, "--what", what, "--to",
                    path, *flags)
        equal(out, path + "\n", "says where")
        with open(path, encoding="utf-8", newline="") as f:
            files[form] = f.read()
    rows = list(csv.DictReader(io.StringIO(files["csv"])))
    objects = [json.loads(line) for line in files["jsonl"].splitlines()]
    wanted = stored(d, job, what, "--all-lines" in flags, **window)
    equal(len(rows), len(wanted), f"rows of {what}")
    equal(len(objects), len(wanted), f"lines of {what}")
    other = LISTS[what][1]
    for row, item, db in zip(rows, objects, wanted):
        equal(list(row), list(item), "the same fields in the same order")
        columns = [(k, other.get(k, k)) for k in row
                   if other.get(k, k) in db and k not in NO_COLUMN]
        check(len(columns) >= len(row) - 12, f"{what}: {columns}")
        for key, column in columns:
            value = want(db, column)
            check(same(row[key], value),
                  f"{what}.{key}: {row[key]!r}, stored {value!r}")
        for key, text in row.items():
            value = as_text(item[key])
            check(text == value or float(text) == float(value),
                  f"{what}.{key}: {text!r} and {value!r}")
    return rows


def every_list_is_as_stored():
    """csv and jsonl, live line and all lines, with what is not finite"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint=OFTEN))
        d.wait_iteration(job, 120)
        first = d.json("checkpoints", job)[1]
        d.ctl("rollback", job, "--to", first["name"])
        d.wait_iteration(job, first["iteration"] + 60)
        d.ctl("cancel", job)
        os.mkdir(f"{d.dir}/out")
        for what in LISTS:
            rows = check_table(d, job, what, f"{d.dir}/out", "--all-lines")
            check(rows or what == "guards", f"there are {what}")
            if what != "rollbacks":
                check_table(d, job, what, f"{d.dir}/out")
                check_table(d, job, what, f"{d.dir}/out", "--from-iteration",
                            "10", "--to-iteration", "30", window=(10, 30))
        rows = check_table(d, job, "metrics", d.dir)
        kinds = {row["grad_norm"] for row in rows}
        check(kinds & {"NaN", "Infinity"}, "some are not finite")
        check(any(row["skipped"] == "1" for row in rows), "some are skipped")
        text = d.ctl("export", job, "--format", "csv", "--to", "-")
        with open(f"{d.dir}/metrics.csv", encoding="utf-8") as f:
            equal(text, f.read(), "standard output")
        evaluation = d.ctl("export", job, "--format", "jsonl", "--what",
                           "evaluations", "--to", "-")
        check(json.loads(evaluation.splitlines()[0])["loss"] > 0, evaluation)

        # A guard, and a table of confusion.
        spec = c08(d.dir, "float16", guard=[
            {"when": {"consecutive_skips": 2}, "do": "fail"}])
        other = d.submit(spec)
        d.wait_state(other, "failed")
        check(check_table(d, other, "guards", f"{d.dir}", "--all-lines"),
              "there is a guard")
        check_table(d, other, "incidents", f"{d.dir}", "--all-lines")


def nothing_is_half_left():
    """a full disk, no directory, a file that is there: one sentence each"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir), "--wait")
        box = f"{d.dir}/box"
        os.mkdir(box)

        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        def refused(rc, sentence, *args, **kw):
            r = d.try_ctl("export", job, *args, **kw)
            equal((r.returncode, r.stdout), (rc, ""), r.stderr)
            check(sentence in r.stderr and r.stderr.count("\n") == 1, r.stderr)

        for form in ("csv", "jsonl", "tensorboard"):
            refused(74, "File too large", "--format", form, "--to",
                    f"{box}/{form}", preexec_fn=small, restore_signals=False)
            equal(os.listdir(box), [], "nothing is left")
            refused(74, "No such file or directory", "--format", form, "--to",
                    f"{d.dir}/none/of/this")
        with open(f"{box}/mine", "w", encoding="utf-8") as f:
            f.write("precious")
        refused(2, "mine exists already; --force", "--format", "csv", "--to",
                f"{box}/mine")
        d.ctl("export", job, "--format", "csv", "--to", f"{box}/mine",
              "--force")
        with open(f"{box}/mine", encoding="utf-8") as f:
            check(f.readline().startswith("row,iteration,"), "replaced")
        for sentence, args in (
                ("did you mean jsonl?", ["--format", "jsonll"]),
                ("safetensors, csv, jsonl or tensorboard",
                 ["--format", "parquet"]),
                ("did you mean skips?",
                 ["--format", "csv", "--what", "skip"]),
                ("--what does not go with --format safetensors",
                 ["--what", "skips"]),
                ("--ema does not go with --format csv",
                 ["--format", "csv", "--ema"]),
                ("only with tensorboard", ["--format", "csv", "--follow"]),
                ("needs --to DIR", ["--format", "tensorboard"]),
                ("does not go to standard output",
                 ["--format", "tensorboard", "--to", "-"]),
                ("lies before --from-iteration",
                 ["--format", "csv", "--from-iteration", "9",
                  "--to-iteration", "8", "--to", "-"]),
                ("rollbacks are between lines",
                 ["--format", "csv", "--what", "rollbacks",
                  "--from-iteration", "9", "--to", "-"])):
            refused(2, sentence, *args)
        r = d.try_ctl("export", job, "--format", "csv", cwd=box)
        equal((r.returncode, r.stdout), (0, "scenario.metrics.csv\n"),
              r.stderr)


# ---- event files -----------------------------------------------------------

def narrow(value):
    """As float32; NaN is equal to NaN."""
    value = struct.unpack("<f", struct.pack("<f", numbers(value)))[0]
    return "NaN" if math.isnan(value) else value


def flagged(value, flag):
    return [value, math.nan, math.inf, -math.inf][flag]


def live_curves(d, job):
    """What TensorBoard should show: the live line."""
    rows = d.sql("SELECT iteration, loss, loss_flag, grad_norm,"
                 " grad_norm_flag, scale, skipped, lr, step_us FROM metric"
                 " WHERE job = ? AND live = 1 ORDER BY iteration", job)
    evaluations = d.sql("SELECT iteration, loss, loss_flag, accuracy FROM"
                        " evaluation WHERE job = ? AND live = 1 AND NOT"
                        " incomplete ORDER BY iteration, id", job)
    out = {
        "train/loss": [(r[0], flagged(r[1], r[2])) for r in rows],
        "train/grad_norm": [(r[0], flagged(r[3], r[4])) for r in rows],
        "amp/scale": [(r[0], r[5]) for r in rows],
        "amp/skipped": [(r[0], r[6]) for r in rows],
        "opt/lr": [(r[0], r[7]) for r in rows],
        "sys/step_seconds": [(r[0], r[8] / 1e6) for r in rows],
        "validation/loss": [(r[0], flagged(r[1], r[2])) for r in evaluations],
        "validation/accuracy": [(r[0], r[3]) for r in evaluations],
    }
    return {tag: [(i, narrow(v)) for i, v in points]
            for tag, points in out.items()}


def seen(curves):
    return {tag: [(i, narrow(v)) for i, v in points]
            for tag, points in curves.items()}


def check_curves(got, wanted, what):
    equal(sorted(got), sorted(wanted), f"tags {what}")
    for tag, points in wanted.items():
        pairs = [p for p in zip(got[tag], points) if p[0] != p[1]]
        equal(pairs[:3], [], f"{tag} {what}")
        equal(len(got[tag]), len(points), f"points of {tag} {what}")


def contents(folder):
    out = {}
    for path in tfevents.paths(folder):
        with open(path, "rb") as f:
            out[os.path.basename(path)] = f.read()
    return out


def follow(d, job, folder, *flags):
    return subprocess.Popen(
        [os.path.join(BIN, "trainctl"), "export", str(job), "--format",
         "tensorboard", "--follow", "--to", folder, *flags], env=d.env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def ended(process, rc):
    out, err = process.communicate(timeout=60)
    equal(process.returncode, rc, out + err)
    return out, err


def check_files(d, job, folder):
    """Each begins as it should, and they are in the order of attempts."""
    starts = []
    for path in tfevents.paths(folder):
        first, second, *rest = tfevents.read_file(path)
        equal(first["file_version"], "brain.Event:2", "first record")
        equal(second["session"], {1: 1}, "second record: a start")
        check(all("scalars" in e for e in rest), "then scalars")
        steps = [e["step"] for e in rest]
        equal(steps, sorted(steps), "steps ascend")
        check(not steps or steps[0] >= second["step"] - 1, "from there on")
        starts.append(second["step"])
    times = d.sql("SELECT start_us FROM attempt WHERE job = ? AND"
                  " policy <> '' ORDER BY attempt", job)
    equal(len(starts), len(times), "a file for each attempt")
    return starts


def the_same_live_and_afterwards():
    """rollbacks, an abandoned line revived, a killed daemon: no row is missed
    or repeated, and TensorBoard shows the live line"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint=OFTEN))
        live, late = f"{d.dir}/live", f"{d.dir}/late"
        process = follow(d, job, live)
        wait_for("rows on the disk", lambda: os.path.isdir(live) and any(
            "scalars" in e for path in tfevents.paths(live)[:1]
            for e in tfevents.read_file(path)))
        d.wait_iteration(job, 200)
        back = d.json("checkpoints", job)[2]
        d.ctl("rollback", job, "--to", back["name"])
        d.wait_iteration(job, back["iteration"] + 150)
        d.ctl("pause", job)
        paused = d.status(job)["iteration"]
        d.ctl("resume", job)
        d.wait_iteration(job, paused + 50)
        d.kill()
        d.start()
        d.wait_iteration(job, d.status(job)["iteration"] + 50)
        # Back to the line that was left first, beyond where it was left.
        dead = [c for c in d.json("checkpoints", "--all-lines", job)
                if not c["live"] and c["attempt"] == 1][-1]
        check(dead["iteration"] > back["iteration"], dead)
        d.ctl("rollback", job, "--to", dead["name"])
        d.wait_iteration(job, dead["iteration"] + 100)
        d.ctl("cancel", job)
        out, err = ended(process, 0)
        equal(out, live + "\n", "says where")
        check("trying again" in err and "event files" in err, err)
        check_ledger(d, job)

        wanted = live_curves(d, job)
        check("NaN" in dict(wanted["train/grad_norm"]).values() or
              math.inf in dict(wanted["train/grad_norm"]).values(),
              "some gradients are not finite")
        starts = check_files(d, job, live)
        equal(starts[:2], [1, back["iteration"] + 1], "where attempts begin")
        equal(starts[-1], back["iteration"] + 1, "where its line was left")
        check_curves(seen(tfevents.curves(live)), wanted, "after purges")
        abandoned, = d.sql("SELECT count(*) FROM metric WHERE job = ? AND"
                           " live = 0", job)
        every = sum("train/loss" in e.get("scalars", {}) for path in
                    tfevents.paths(live) for e in tfevents.read_file(path))
        revived = dead["iteration"] - back["iteration"]
        equal(every, len(wanted["train/loss"]) + abandoned[0] + revived,
              "each row once, and once more what was revived")

        d.ctl("export", job, "--format", "tensorboard", "--to", late,
              "--all-lines")
        check(contents(late) == contents(live), "afterwards the same bytes")
        alone = f"{d.dir}/alone"
        d.ctl("export", job, "--format", "tensorboard", "--to", alone)
        every = {}
        for path in tfevents.paths(alone):
            for e in tfevents.read_file(path):
                for tag, value in e.get("scalars", {}).items():
                    every.setdefault(tag, []).append((e["step"], value))
        check_curves(seen(every), wanted, "of the live line alone")
        check(len(contents(alone)) < len(contents(live)), "fewer files")
        ask_tensorboard(wanted, live, alone)


def ask_tensorboard(wanted, *folders):
    python = os.path.join(os.environ.get("TRAIND_VENV", ""), "bin", "python")
    if not os.path.exists(python):
        print("   skipped: TensorBoard itself (no $TRAIND_VENV)")
        return
    for folder in folders:
        r = subprocess.run(
            [python, os.path.join(SOURCE, "tests/support/tensorboard_read.py"),
             folder], capture_output=True, encoding="utf-8", check=False)
        if r.returncode == 77:
            print(f"   skipped: TensorBoard itself ({r.stderr.strip()})")
            return
        equal(r.returncode, 0, r.stderr)
        curves = {tag: [tuple(p) for p in points]
                  for tag, points in json.loads(r.stdout).items()}
        check_curves(seen(curves), wanted, "by TensorBoard")
        print("   TensorBoard itself shows the live line")


def one_writer_a_directory():
    """others are kept out; Ctrl-C leaves whole records; --force begins anew"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS))
        box = f"{d.dir}/box"
        first = follow(d, job, box)
        wait_for("rows on the disk", lambda: os.path.isdir(box) and any(
            "scalars" in e for path in tfevents.paths(box)
            for e in tfevents.read_file(path)))

        def refused(rc, sentence, which, *flags):
            r = d.try_ctl("export", which, "--format", "tensorboard", "--to",
                          box, *flags)
            equal((r.returncode, r.stdout), (rc, ""), r.stderr)
            check(sentence in r.stderr and r.stderr.count("\n") == 1, r.stderr)

        refused(75, "another trainctl is exporting", job)
        refused(75, "another trainctl is exporting", job, "--force")
        first.send_signal(signal.SIGINT)
        ended(first, 128 + signal.SIGINT)
        left = contents(box)
        check(left, "there is a file")
        check_files(d, job, box)
        refused(2, "an export of this job already", job)
        equal(contents(box), left, "as it was")
        d.ctl("cancel", job)
        d.ctl("export", job, "--format", "tensorboard", "--to", box, "--force")
        check_curves(seen(tfevents.curves(box)), live_curves(d, job), "anew")
        whole = contents(box)
        again = follow(d, job, box, "--force")
        ended(again, 0)
        equal(contents(box), whole, "followed when it is over")
        other = d.submit(mlp_spec(d.dir), "--wait")
        for flags in ([], ["--force"]):
            refused(2, "event files of something else", other, *flags)
        equal(contents(box), whole, "nothing was touched")


main(every_list_is_as_stored, nothing_is_half_left,
     the_same_live_and_afterwards, one_writer_a_directory)
