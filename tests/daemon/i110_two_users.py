#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One daemon, several users: nobody sees or touches what is not theirs."""
import os
import pwd
import shutil
import sys
from types import SimpleNamespace

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from accounts import private_data, two_accounts
from scenario import (SystemDaemon, blobs, check, equal, main, mlp_spec,
                      wait_for)

ENDLESS = {"epochs": 1000000}
NOTHING = 999


def chmod_all(folder, mode):
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), mode)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f
                    if ":\t" in line)


def others_jobs_do_not_exist():
    """status, cancel, rollback...: as if there were no such job"""
    with SystemDaemon() as d:
        a, b = two_accounts()
        folder = private_data(d, a)
        job = d.submit_as(a, mlp_spec(folder, name="secret", train=ENDLESS))
        d.wait_iteration(job, 30)
        for verb in (["status"], ["cancel"], ["pause"], ["resume"],
                     ["checkpoint"], ["rollback", "--to", "last"],
                     ["rollback", "--to", "1"], ["checkpoints"], ["metrics"],
                     ["scale"], ["skips"], ["incidents"], ["attempts"],
                     ["logs"], ["wait"], ["watch"]):
            there = d.run_as(b, *verb, job)
            absent = d.run_as(b, *verb, NOTHING)
            check(there.returncode != 0, f"{verb}: {there.stdout}")
            equal(there.returncode, absent.returncode, f"{verb}: exit code")
            equal(there.stderr.replace(str(job), "N"),
                  absent.stderr.replace(str(NOTHING), "N"), f"{verb}: words")
            equal(there.stdout, absent.stdout, f"{verb}: nothing leaks")
        r = d.run_as(b, "list", "--all")
        check(r.returncode == 0 and "secret" not in r.stdout, r.stdout)
        for ref in ("@", "name:secret"):
            r = d.run_as(b, "status", ref)
            check(r.returncode != 0 and "secret\n" not in r.stdout, r.stdout)
        s = d.status(job)  # root may see it
        equal((s["state"], s["rollbacks"], s["attempt"]), ("running", 0, 1),
              "nothing was done to it")
        # Its owner and root may act on it.
        for who in (a, pwd.getpwuid(0)):
            r = d.run_as(who, "checkpoint", job)
            check(r.returncode == 0, r.stderr)
        d.ctl("cancel", job)
        equal(d.status(job)["state"], "cancelled", "root may act on all")
        r = d.run_as(b, "status", job)
        check(r.returncode != 0, "not after its end, either")


def worker_has_the_submitters_rights():
    """it reads its owner's files and no others'; ids are taken for good"""
    with SystemDaemon() as d:
        a, b = two_accounts()
        folder = private_data(d, a)
        job = d.submit_as(a, mlp_spec(folder, train=ENDLESS))
        d.wait_iteration(job, 30)
        pid, = wait_for("its worker", lambda: d.worker_pids(job))
        s = status_of(pid)
        equal(s["Uid"].split(), [str(a.pw_uid)] * 4, "uids")
        equal(s["Gid"].split(), [str(a.pw_gid)] * 4, "gids")
        allowed = set(map(str, os.getgrouplist(a.pw_name, a.pw_gid)))
        check(set(s["Groups"].split()) <= allowed, s["Groups"])
        equal(s["NoNewPrivs"].strip(), "1", "no new privileges")
        equal(int(s["CapEff"], 16) | int(s["CapPrm"], 16), 0, "capabilities")
        own = os.path.join(d.job_dir(job), "checkpoints")
        st = os.stat(own)
        equal((st.st_uid, st.st_mode & 0o777), (a.pw_uid, 0o700), own)
        for path in (d.db_path, d.job_dir(job)):
            st = os.stat(path)
            check(st.st_uid == 0 and not st.st_mode & 0o022, path)
        check(not os.stat(d.db_path).st_mode & 0o044, "the database is private")

        # The client would not even ask; so the file is closed behind its back.
        chmod_all(folder, 0o644)
        thief = d.submit_as(b, mlp_spec(folder))
        chmod_all(folder, 0o600)
        d.ctl("cancel", job)
        r = d.run_as(b, "wait", thief)
        check(r.returncode != 0, "somebody else's data")
        s = d.status(thief)
        equal(s["state"], "failed", s["reason"])
        check("Permission denied" in s["reason"] and folder in s["reason"],
              s["reason"])
        equal(d.sql("SELECT count(*) FROM metric WHERE job = ?", thief),
              [(0,)], "not one step of it")


def no_account_no_job():
    """a number without an account: refused at once, with a sentence"""
    with SystemDaemon() as d:
        known = {a.pw_uid for a in pwd.getpwall()}
        uid = next(u for u in range(12001, 60000) if u not in known)
        nobody = SimpleNamespace(pw_uid=uid, pw_gid=uid)
        blobs(d.dir)
        path = os.path.join(d.dir, "submit.json")
        d.submit(mlp_spec(d.dir), "--wait")  # root's own, and the file
        r = d.run_as(nobody, "submit", path)
        check(r.returncode != 0 and str(uid) in r.stderr and
              "account" in r.stderr, r.stderr)
        equal(len(d.json("list", "--all")), 1, "nothing was queued")


if os.geteuid() != 0 or shutil.which("setpriv") is None:
    print("skipped: it takes root and setpriv")
    sys.exit(77)
main(others_jobs_do_not_exist, worker_has_the_submitters_rights,
     no_account_no_job)
