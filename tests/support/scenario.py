# SPDX-License-Identifier: Apache-2.0
"""What daemon scenarios share: a private traind, a client, tiny data.

Everything goes through the real door: processes, the control socket, SQLite.
Nothing sleeps for a fixed time: wait_for() polls a condition to a deadline
that only a broken daemon reaches.
"""
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

BIN = os.environ.get("TRAIND_BIN", "build/dev/bin")
SOURCE = os.environ.get("TRAIND_SOURCE", os.getcwd())
DEADLINE_S = 120


def wait_for(what, condition, deadline_s=DEADLINE_S):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"timed out waiting for {what}")


def check(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def equal(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


# ---- data ------------------------------------------------------------------

def npy(path, code, shape, values):
    """Writes a version 1 .npy file; code is numpy's ('<f4', '<i4')."""
    fmt = {"<f4": "f", "<i4": "i", "<f8": "d", "|u1": "B"}[code]
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (
        code, "".join(f"{n}," for n in shape)))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)))
        f.write(head.encode())
        f.write(struct.pack(f"<{len(values)}{fmt}", *values))


def blobs(folder, n=256, features=8, classes=3, seed=0):
    """x.npy and y.npy: classes that a small net can learn."""
    r = random.Random(seed)
    x, y = [], []
    for _ in range(n):
        c = r.randrange(classes)
        y.append(c)
        x += [r.gauss(0, 1) + 2.0 * c * (-1) ** k for k in range(features)]
    npy(os.path.join(folder, "x.npy"), "<f4", (n, features), x)
    npy(os.path.join(folder, "y.npy"), "<i4", (n,), y)


def mlp_spec(folder, **changes):
    """A small classifier over blobs(); changes replace top-level keys."""
    spec = {
        "name": "scenario", "seed": 7, "threads": 1,
        "data": {
            "train": {"format": "npy", "input": f"{folder}/x.npy",
                      "target": f"{folder}/y.npy"},
            "validation": {"format": "npy", "input": f"{folder}/x.npy",
                           "target": f"{folder}/y.npy"},
            "batch_size": 32, "shuffle": True},
        "model": [{"name": "fc1", "linear": {"out_features": 16}},
                  {"name": "bn", "batch_norm1d": {}}, "relu",
                  {"dropout": {"p": 0.1}},
                  {"name": "head", "linear": {"out_features": 3}}],
        "loss": "cross_entropy",
        "optimizer": {"adamw": {"lr": 1e-2}},
        "amp": {"dtype": "float16",
                "scaler": {"init_scale": 2.0 ** 24, "growth_interval": 20}},
        "train": {"epochs": 10, "clip_grad_norm": 1.0},
        "evaluate": {"every_updates": 20},
        "checkpoint": {"every_updates": 10, "keep": 3, "best": "accuracy"},
    }
    spec.update(changes)
    return spec


def write_spec(folder, spec, name="spec.json"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(spec, f, indent=2)
    return path


# ---- the daemon -------------------------------------------------------------

class Daemon:
    """A traind in user mode over a scratch directory."""

    def __init__(self, config="", env=None):
        self.dir = tempfile.mkdtemp(prefix="traind-t-")
        self.state = os.path.join(self.dir, "state")
        self.socket = os.path.join(self.dir, "ctl.sock")
        self.config = os.path.join(self.dir, "traind.conf")
        self.log_path = os.path.join(self.dir, "traind.log")
        self.db_path = os.path.join(self.state, "traind.db")
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(config)
        self.env = dict(os.environ, TRAIND_SOCKET=self.socket, **(env or {}))
        self.env.pop("NOTIFY_SOCKET", None)
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def fsck(self):
        """Every promise about the store's rows holds; asked of the daemon."""
        if self.process.poll() is not None:
            self.start()
        r = self.try_ctl("admin", "fsck")
        check(r.returncode == 0, f"fsck: {r.stdout}{r.stderr}")

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.fsck()
        except BaseException:
            kind = AssertionError
            raise
        finally:
            self.end(kind)

    def end(self, kind):
        with contextlib.suppress(ProcessLookupError):
            self.kill_workers()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if kind is not None:
            sys.stderr.write(self.log())
        shutil.rmtree(self.dir, ignore_errors=True)

    def command(self, *extra):
        return [os.path.join(BIN, "traind"), "--user", "--config", self.config,
                "--state-dir", self.state, "--socket", self.socket, *extra]

    def start(self, env=None):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=dict(self.env, **(env or {})))
        self.wait_ready()

    def wait_ready(self):
        def ready():
            check(self.process.poll() is None,
                  f"traind ended with {self.process.returncode}")
            return self.try_ctl("ping").returncode == 0
        wait_for("traind to answer", ready)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_S)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    # -- the client

    def try_ctl(self, *args, **kw):
        kw.setdefault("timeout", DEADLINE_S)
        return subprocess.run(
            [os.path.join(BIN, "trainctl"), *map(str, args)],
            capture_output=True, encoding="utf-8", errors="replace",
            env=self.env, check=False, **kw)

    def ctl(self, *args, rc=0):
        r = self.try_ctl(*args)
        if r.returncode != rc:
            raise AssertionError(
                f"trainctl {' '.join(map(str, args))}: exit {r.returncode}, "
                f"want {rc}\n{r.stdout}{r.stderr}")
        return r.stdout

    def json(self, *args, rc=0):
        return json.loads(self.ctl("--json", *args, rc=rc))

    def ask(self, verb, **args):
        """One request on a connection of its own: the last answer."""
        def read(s):
            def take(n):
                out = b""
                while len(out) < n:
                    part = s.recv(n - len(out))
                    check(part, "traind hung up")
                    out += part
                return out
            return json.loads(take(struct.unpack(">I", take(4))[0]))

        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(DEADLINE_S)
            s.connect(self.socket)
            read(s)
            text = json.dumps({"id": 1, "verb": verb, "args": args}).encode()
            s.sendall(struct.pack(">I", len(text)) + text)
            return read(s)

    def submit(self, spec, *args):
        """Submits a spec (dict); returns the job's number."""
        path = write_spec(self.dir, spec, "submit.json")
        return int(self.ctl("submit", "--print-id", *args, path).strip())

    def status(self, job):
        return self.json("status", job)

    def wait_state(self, job, *states):
        return wait_for(f"job {job} to be {'/'.join(states)}", lambda: (
            lambda s: s if s["state"] in states else None)(self.status(job)))

    def wait_iteration(self, job, iteration):
        return wait_for(f"job {job} to reach iteration {iteration}", lambda: (
            lambda s: s if s["iteration"] >= iteration or
            s["end_us"] else None)(self.status(job)))

    # -- underneath

    def sql(self, query, *args):
        """Rows, read by SQLite itself beside the running daemon."""
        with contextlib.closing(sqlite3.connect(
                f"file:{self.db_path}?mode=ro", uri=True, timeout=30)) as db:
            return db.execute(query, args).fetchall()

    def job_dir(self, job):
        return os.path.join(self.state, "jobs", str(job))

    def worker_pids(self, job=None):
        """Live processes that are this daemon's workers."""
        pids = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    argv = f.read().split(b"\0")
                cwd = os.readlink(f"/proc/{pid}/cwd")
            except OSError:
                continue
            if b"traind-worker" in os.path.basename(argv[0]) and \
                    cwd.startswith(self.state) and \
                    (job is None or cwd == self.job_dir(job)):
                pids.append(int(pid))
        return pids

    def kill_workers(self, sig=signal.SIGKILL):
        for pid in self.worker_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)

    def checkpoint_files(self, job, name):
        folder = os.path.join(self.job_dir(job), "checkpoints", name)
        out = {}
        for f in sorted(os.listdir(folder)):
            with open(os.path.join(folder, f), "rb") as h:
                out[f] = h.read()
        return out

    def final_weights(self, job):
        """Bytes of model.safetensors of the last good live checkpoint."""
        (name,), = self.sql(
            "SELECT name FROM checkpoint WHERE job = ? AND live = 1 AND"
            " state = 'good' ORDER BY iteration DESC, id DESC LIMIT 1", job)
        return self.checkpoint_files(job, name)["model.safetensors"]


class SystemDaemon(Daemon):
    """A traind of everybody's, as root: workers take their submitters' rights.

    Programs are copied to where every user can reach them.
    """

    def __init__(self, config=""):
        super().__init__("[control]\nmode = 0666\ngroup =\n" + config)
        os.chmod(self.dir, 0o755)
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin, 0o755)
        for name in ("traind", "traind-exec", "traind-worker", "trainctl"):
            shutil.copy(os.path.join(BIN, name), self.bin)

    def command(self, *extra):
        return [os.path.join(self.bin, "traind"), "--system",
                "--config", self.config, "--state-dir", self.state,
                "--socket", self.socket, *extra]

    def run_as(self, account, *args):
        """trainctl with the rights of an account (struct passwd)."""
        return subprocess.run(
            ["setpriv", f"--reuid={account.pw_uid}",
             f"--regid={account.pw_gid}", "--clear-groups", "--",
             os.path.join(self.bin, "trainctl"), *map(str, args)],
            capture_output=True, text=True, env=self.env, cwd="/",
            timeout=DEADLINE_S, check=False)

    def submit_as(self, account, spec, *args):
        path = write_spec(self.dir, spec, "submit.json")
        r = self.run_as(account, "submit", "--print-id", *args, path)
        check(r.returncode == 0, r.stderr)
        return int(r.stdout.strip())


def check_ledger(daemon, job):
    """The invariants of product.md, read from the database."""
    for table in ("metric", "scale_event", "incident", "evaluation",
                  "checkpoint"):
        bad = daemon.sql(f"SELECT count(*) FROM {table} WHERE job = ? AND"
                         " iteration <> updates + skips", job)
        equal(bad, [(0,)], f"{table}: iteration = updates + skips")
    rows = daemon.sql("SELECT iteration, skipped FROM metric WHERE job = ?"
                      " AND live = 1 ORDER BY iteration, id", job)
    equal([r[0] for r in rows], list(range(1, len(rows) + 1)),
          "live iterations, each once")
    skipped = [r[0] for r in rows if r[1]]
    skips = daemon.sql("SELECT iteration FROM scale_event WHERE job = ? AND"
                       " live = 1 AND cause = 'skip' AND NOT partial"
                       " ORDER BY iteration", job)
    equal([s[0] for s in skips], skipped, "each skip recorded once")
    check_scale(daemon, job)
    return len(rows), len(skipped)


def check_scale(daemon, job):
    """The scale's history obeys the rule, recomputed from the skips alone, and
    from what rollbacks set; each attempt has the scaler of its policy."""
    policies = {a: json.loads(p)["scaler"] for a, p in daemon.sql(
        "SELECT attempt, policy FROM attempt WHERE job = ? AND policy <> ''",
        job)}
    rows = daemon.sql("SELECT iteration, skipped, scale, attempt FROM metric"
                      " WHERE job = ? AND live = 1 ORDER BY iteration", job)
    # Of several optimizers one skipped: an update, and a backoff.
    partial = {i for i, in daemon.sql("SELECT iteration FROM scale_event"
                                      " WHERE job = ? AND live = 1 AND"
                                      " partial", job)}
    sets = daemon.sql("SELECT iteration, after, growth_tracker FROM scale_event"
                      " WHERE job = ? AND live = 1 AND cause = 'set'"
                      " ORDER BY iteration, id", job)
    if not rows:
        return
    first = policies[rows[0][3]]
    scale = first["init_scale"] if first["enabled"] else 1.0
    tracker, want = 0, []
    for iteration, skipped, used, attempt in rows:
        scaler = policies[attempt]
        while sets and sets[0][0] < iteration:
            at, after, tracker = sets.pop(0)
            want.append((at, "set", scale, after))
            scale = after
        equal(used, scale, f"scale used in iteration {iteration}")
        if not (scaler["enabled"] and scaler.get("dynamic", True)):
            if skipped or iteration in partial:
                want.append((iteration, "skip", scale, scale))
            continue
        before = scale
        if skipped or iteration in partial:
            scale = scale * scaler["backoff_factor"]
            if scaler["min_scale"]:
                scale = max(scale, scaler["min_scale"])
            tracker = 0
            want.append((iteration, "skip", before, scale))
        else:
            tracker += 1
            if tracker >= scaler["growth_interval"]:
                tracker = 0
                grown = scale * scaler["growth_factor"]
                if scaler["max_scale"]:
                    grown = min(grown, scaler["max_scale"])
                if grown != scale:
                    scale = grown
                    want.append((iteration, "growth", before, scale))
    want += [(at, "set", None, after) for at, after, _ in sets]
    got = [row[:2] + (None,) + row[3:] if row[1] == "set" and
           row[0] >= rows[-1][0] else row for row in daemon.sql(
               "SELECT iteration, cause, before, after FROM scale_event"
               " WHERE job = ? AND live = 1 ORDER BY iteration, id", job)]
    equal(got, want, "the scale's history")


def main(*scenarios):
    for scenario in scenarios:
        print(f"-- {scenario.__name__}: {scenario.__doc__}", flush=True)
        scenario()
    print(f"{len(scenarios)} scenarios passed")
