# SPDX-License-Identifier: Apache-2.0
"""A traind-worker without a daemon: this file plays the other end of fd 3.

A Job is a directory as the daemon would lay it out; Job.start() spawns one
attempt. Reads what the attempt says from its events.jsonl, as the daemon does.
"""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

from scenario import BIN, wait_for


def frame(payload):
    """One frame; payload is bytes, or an object to be written as JSON."""
    if not isinstance(payload, bytes):
        payload = json.dumps(payload).encode()
    return struct.pack(">I", len(payload)) + payload


class Attempt:
    """One worker process and this end of its socket."""

    def __init__(self, job, number, resume=(), env=None, spec=None,
                 resume_required=False, keep=None, best="", best_metric="NaN",
                 send_start=True, prefix=(), more=None):
        self.job, self.number = job, number
        self.dir = os.path.join(job.dir, "attempts", str(number))
        os.makedirs(self.dir)
        self.sock, theirs = socket.socketpair()
        self.buffer, self.frames = b"", []
        self.sock_closed = False
        out = open(os.path.join(self.dir, "stdout"), "wb")
        err = open(os.path.join(self.dir, "stderr"), "wb")

        def child():
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen(
            [*prefix, os.path.join(BIN, "traind-worker"), "--job", str(job.id),
             "--attempt", str(number)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=job.dir,
            env=dict(os.environ, **(env or {})), close_fds=False,
            preexec_fn=child)
        theirs.close()
        out.close()
        err.close()
        self.start_args = {
            "job": job.id, "attempt": number,
            "spec": json.dumps(spec or job.spec), "directory": job.dir,
            "device": "cpu", "resume": list(resume),
            "resume_required": resume_required,
            "keep": list(keep if keep is not None else reversed(resume)),
            "best": best, "best_metric": best_metric, **(more or {})}
        if send_start:
            self.send("start", self.start_args)

    def send(self, verb, args):
        self.send_raw(frame({"verb": verb, "args": args}))

    def send_raw(self, data):
        self.sock.sendall(data)

    def order(self, name, token=0):
        self.send("order", {"order": name, "token": token})

    def read_frames(self):
        """All frames so far, in order."""
        if self.sock_closed:
            return self.frames
        self.sock.setblocking(False)
        try:
            while True:
                piece = self.sock.recv(65536)
                if not piece:
                    break
                self.buffer += piece
        except (BlockingIOError, ConnectionResetError):
            pass
        while len(self.buffer) >= 4:
            n = struct.unpack(">I", self.buffer[:4])[0]
            if len(self.buffer) < 4 + n:
                break
            self.frames.append(json.loads(self.buffer[4:4 + n]))
            self.buffer = self.buffer[4 + n:]
        return self.frames

    def hang_up(self):
        self.sock_closed = True
        self.sock.close()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def wait(self, deadline_s=60):
        """The exit status."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise AssertionError("the worker did not end: " +
                                 self.stderr()) from None

    def path(self, name):
        return os.path.join(self.dir, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def stderr(self):
        return self.text("stderr")

    def events(self, kind=None):
        """Whole lines of events.jsonl as objects."""
        try:
            with open(self.path("events.jsonl"), "rb") as f:
                lines = f.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        all_ = [json.loads(line) for line in lines]
        return [e for e in all_ if kind is None or e["kind"] == kind]

    def wait_event(self, kind, condition=lambda e: True, deadline_s=60):
        def found():
            for e in self.events(kind):
                if condition(e):
                    return e
            if self.process.poll() is not None and not any(
                    condition(e) for e in self.events(kind)):
                raise AssertionError(f"ended without {kind}: {self.stderr()}")
            return None
        return wait_for(f"event {kind}", found, deadline_s)

    def exit_json(self):
        return json.loads(self.text("exit.json"))


class Job:
    """A job's directory and its attempts."""

    def __init__(self, spec, directory=None):
        self.own = directory is None
        self.dir = directory or tempfile.mkdtemp(prefix="traind-w-")
        self.id, self.spec, self.attempts = 1, spec, []

    def start(self, **args):
        a = Attempt(self, len(self.attempts) + 1, **args)
        self.attempts.append(a)
        return a

    def run(self, **args):
        """An attempt to its end."""
        a = self.start(**args)
        a.status = a.wait()
        return a

    def checkpoints(self):
        """Names, oldest first."""
        path = os.path.join(self.dir, "checkpoints")
        names = os.listdir(path) if os.path.isdir(path) else []
        return sorted(n for n in names if n.startswith("it"))

    def checkpoint_file(self, name, which):
        return os.path.join(self.dir, "checkpoints", name, which)

    def weights(self, name):
        """The bytes of all tensors of a checkpoint, metadata left out."""
        out = {}
        for which in ("model.safetensors", "optimizer.safetensors"):
            with open(self.checkpoint_file(name, which), "rb") as f:
                data = f.read()
            n = struct.unpack("<Q", data[:8])[0]
            for key, v in json.loads(data[8:8 + n]).items():
                if key != "__metadata__":
                    a, b = v["data_offsets"]
                    out[key] = data[8 + n + a:8 + n + b]
        return out

    def state(self, name):
        with open(self.checkpoint_file(name, "state.json"),
                  encoding="utf-8") as f:
            return json.load(f)

    def close(self):
        for a in self.attempts:
            if a.process.poll() is None:
                a.kill()
        if self.own:
            shutil.rmtree(self.dir)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
