#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a restarted daemon makes of every kind of job (cases C57, C58)."""
import os
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, equal, main, mlp_spec, wait_for)

ENDLESS = {"epochs": 1000000}


def five_jobs(d):
    blobs(d.dir)
    done = d.submit(mlp_spec(d.dir), "--wait")
    cancelled = d.submit(mlp_spec(d.dir))
    d.try_ctl("cancel", cancelled)
    running = d.submit(mlp_spec(d.dir, train=ENDLESS))
    d.wait_iteration(running, 100)
    queued = [d.submit(mlp_spec(d.dir)) for _ in range(2)]
    return done, cancelled, running, queued


def restart_resumes():
    """the running job goes on from its checkpoint, the others keep state"""
    with Daemon() as d:
        done, cancelled, running, queued = five_jobs(d)
        final = d.status(cancelled)["state"]
        d.kill()
        d.kill_workers()
        d.start()
        s = d.wait_state(running, "running")
        s = d.wait_iteration(running, s["iteration"] + 1)
        equal(s["attempt"], 2, "a second attempt")
        (start, name), = d.sql(
            "SELECT start_iteration, resumed_from FROM attempt"
            " WHERE job = ? AND attempt = 2", running)
        check(start > 0 and name, "resumed from a checkpoint")
        equal(d.status(done)["state"], "completed", "done stays done")
        equal(d.status(cancelled)["state"], final, "cancelled stays")
        for job in queued:
            equal(d.status(job)["state"], "queued", "queued stays queued")
        d.ctl("cancel", running)
        for job in queued:
            d.wait_state(job, "completed")


def restart_without_requeue():
    """requeue_on_restart = no: what nobody saw end is interrupted"""
    with Daemon(config="[jobs]\nrequeue_on_restart = no\n") as d:
        _, _, running, queued = five_jobs(d)
        d.kill()
        d.kill_workers()
        d.start()
        equal(d.status(running)["state"], "interrupted", "never completed")
        equal(d.try_ctl("wait", running).returncode, 7, "exit code")
        for job in queued:
            d.wait_state(job, "completed")


def graceful_stop_and_start():
    """SIGTERM checkpoints; the next daemon goes on where it stopped"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint={
            "every_updates": 0, "keep": 2}))
        d.wait_iteration(job, 60)
        equal(d.stop(), 0, "exit status")
        equal(d.worker_pids(), [], "no worker survives")
        check(not os.path.exists(d.socket), "the socket is gone")
        d.start()
        d.wait_state(job, "running")
        (start,), = d.sql("SELECT start_iteration FROM attempt"
                          " WHERE job = ? AND attempt = 2", job)
        check(start >= 60, f"nothing was lost: resumed at {start}")
        d.ctl("cancel", job)


def socket_path_states():
    """stale socket: replaced; live daemon: refused; a file: left alone"""
    with Daemon() as d:
        d.kill()
        check(os.path.exists(d.socket), "kill -9 leaves the socket")
        d.start()

        second = subprocess.run(d.command(), capture_output=True, text=True,
                                env=d.env, timeout=60, check=False)
        equal(second.returncode, 75, f"second instance: {second.stderr}")
        other = os.path.join(d.dir, "state2")
        third = subprocess.run(
            [*d.command()[:4], "--state-dir", other, "--socket", d.socket],
            capture_output=True, text=True, env=d.env, timeout=60,
            check=False)
        check(third.returncode not in (0, None), "another state directory")
        d.ctl("ping")
        d.stop()
        with open(d.socket, "w", encoding="utf-8") as f:
            f.write("precious")
        r = subprocess.run(d.command(), capture_output=True, text=True,
                           env=d.env, timeout=60, check=False)
        check(r.returncode != 0 and d.socket in r.stderr, r.stderr)
        with open(d.socket, encoding="utf-8") as f:
            equal(f.read(), "precious", "the file")
        os.unlink(d.socket)
        d.start()


def corrupt_database_is_refused():
    """never start empty over a database that cannot be read"""
    with Daemon() as d:
        d.stop()
        for suffix in ("-wal", "-shm"):
            if os.path.exists(d.db_path + suffix):
                os.unlink(d.db_path + suffix)
        with open(d.db_path, "wb") as f:
            f.write(b"garbage " * 4096)
        r = subprocess.run(d.command(), capture_output=True, text=True,
                           env=d.env, timeout=60, check=False)
        check(r.returncode != 0 and "traind.db" in r.stderr, r.stderr)
        with open(d.db_path, "rb") as f:
            equal(f.read(8), b"garbage ", "the file is left as it is")
        os.unlink(d.db_path)
        d.start()


main(restart_resumes, restart_without_requeue, graceful_stop_and_start,
     socket_path_states, corrupt_database_is_refused)
