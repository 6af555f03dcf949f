#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk fills under a running job; nothing that was recorded is lost."""
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (BIN, Daemon, blobs, check, check_ledger, equal, main,
                      mlp_spec, wait_for)

ENDLESS = {"epochs": 1000000}


@contextlib.contextmanager
def small_disk(path, size):
    os.mkdir(path, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700",
                    "none", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path):
    with open(path, "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(4096))


def full_disk():
    """status and cancel work on it; with room again all goes on"""
    d = Daemon()
    with small_disk(d.state, "64m"), d:
        blobs(d.dir)
        ballast = d.db_path + "-ballast"
        filler = os.path.join(d.state, "filler")
        equal(os.path.getsize(ballast), 4 << 20, "room that is kept")
        stays = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint={
            "every_updates": 200, "keep": 2}))
        d.wait_iteration(stays, 1000)
        goes = d.submit(mlp_spec(d.dir, train=ENDLESS))
        fill(filler)
        wait_for("somebody to find the disk full", lambda: (
            "full" in d.log() or "No space" in d.log() or d.sql(
                "SELECT 1 FROM attempt WHERE job = ? AND end_us > 0", stays)))
        equal(d.status(goes)["state"], "queued", "status works")
        d.ctl("ping")
        # The room that is kept may do for it, or the worker was faster: then
        # the answer waits for room, and nothing else does.
        cancel = subprocess.Popen(
            [os.path.join(BIN, "trainctl"), "--timeout", "100", "cancel",
             str(goes)], env=d.env)
        s = d.status(stays)
        check(not s["end_us"], f"not given up for that: {s['reason']}")
        os.unlink(filler)
        equal(cancel.wait(100), 0, "cancel")
        equal(d.sql("SELECT state FROM job WHERE id = ?", goes),
              [("cancelled",)], "its end is written down")
        at = s["iteration"]
        d.wait_iteration(stays, at + 500)
        wait_for("the room to be kept again",
                 lambda: os.path.exists(ballast))
        d.ctl("cancel", stays)
        rows, _ = check_ledger(d, stays)
        check(rows >= at + 500, f"{rows} rows")


if os.geteuid() != 0 or subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True, check=False).returncode != 0:
    print("skipped: it takes root and a file system of its own")
    sys.exit(77)
main(full_disk)
