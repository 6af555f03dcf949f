#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rollbacks that change something: by a person, and by a guard.

A changed policy needs consent and leaves a record; passing over data and
another loss scale are recorded too. What a guard asks for is done once, also
when the daemon dies at the worst moment.
"""
import json
import os
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import (Daemon, blobs, check, check_ledger, equal, main,
                      mlp_spec, npy, wait_for)

ENDLESS = {"epochs": 1000000, "clip_grad_norm": 1.0}
OFTEN = {"every_updates": 10, "keep": 1000}


def train_and_pause(d, **changes):
    """A job that has trained a while, and one of its checkpoints."""
    blobs(d.dir)
    job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint=OFTEN, **changes))
    d.wait_iteration(job, 120)
    d.ctl("pause", job)
    good = [c for c in d.json("checkpoints", job) if c["cause"] == "periodic"]
    return job, good[len(good) // 2]


def metadata(raw):
    return json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])[
        "__metadata__"]


def rollback(d, job, to, **args):
    return d.ask("rollback", job=str(job), to=str(to), **args)


def refused(answer, code, *words):
    check(not answer["ok"], answer)
    equal(answer["error"]["name"], code, answer)
    for word in words:
        check(word in answer["error"]["message"], answer)


def agreed(answer):
    check(answer["ok"], answer)
    return answer["item"]


def dump(d, job):
    return [d.sql(f"SELECT * FROM {table} WHERE {key} = ? ORDER BY 1, 2", job)
            for table, key in (("job", "id"), ("rollback", "job"),
                               ("attempt", "job"), ("event", "job"))]


def first_state_of(d, job, attempt):
    """state.json of the first checkpoint of an attempt."""
    name = wait_for("a checkpoint of the attempt", lambda: [
        c["name"] for c in d.json("checkpoints", job)
        if c["attempt"] == attempt])[0]
    return json.loads(d.checkpoint_files(job, name)["state.json"])


def another_policy_needs_consent():
    """refused with the difference, a dry run tells it, then it is recorded"""
    with Daemon() as d:
        job, to = train_and_pause(d)
        ask = {"to": to["name"], "set": ["amp.dtype=bfloat16",
                                         "optimizer.adamw.lr=0.005"]}
        before = dump(d, job)
        refused(rollback(d, job, **ask), "state", "float16", "bfloat16",
                "optimizer.adamw.lr: 0.01 -> 0.005", "--accept-policy-change")
        dry = agreed(rollback(d, job, dry_run=True, **ask))
        check(dry["policy_changed"] and "bfloat16" in dry["difference"], dry)
        equal(dry["iteration"], to["iteration"], "where to")
        equal(dump(d, job), before, "nothing has changed")
        done = agreed(rollback(d, job, accept_policy_change=True, **ask))
        check(done["policy_changed"], done)
        equal(done["difference"], dry["difference"], "as the dry run said")
        d.wait_iteration(job, to["iteration"] + 30)
        d.ctl("pause", job)
        s = d.status(job)
        equal((s["rollbacks"], s["policy_changed"], s["dtype"]),
              (1, True, "bfloat16"), "status")
        check('amp.dtype: "float16" -> "bfloat16"' in s["difference"], s)
        equal(d.sql("SELECT uid, checkpoint, from_iteration > to_iteration,"
                    " to_iteration, cause, change, difference, policy_changed,"
                    " attempt FROM rollback WHERE job = ?", job),
              [(os.getuid(), to["id"], 1, to["iteration"], "by a person",
                '{"amp": {"dtype": "bfloat16"}, "optimizer": {"adamw": '
                '{"lr": 0.005}}}', done["difference"], 1, 1)], "its record")
        first, second = d.json("attempts", job)
        equal((first["policy_changed"], second["policy_changed"],
               second["resumed_from"], second["cause"]),
              (False, True, to["name"], "by a person"), "attempts")
        check("bfloat16" in second["difference"], second)
        equal(json.loads(second["policy"])["dtype"], "bfloat16", "policy")
        # The flag goes with the weights, also out of the house.
        kept = [metadata(d.checkpoint_files(job, name)["model.safetensors"])
                for name in (to["name"], s["checkpoint"])]
        check("policy_changed" not in kept[0], kept[0])
        equal(kept[1]["policy_changed"], "true", "of the later weights")
        history, = json.loads(kept[1]["policy_history"])
        equal((history["attempt"], history["iteration"],
               history["difference"]),
              (2, to["iteration"], done["difference"]), "their history")
        out = f"{d.dir}/out.safetensors"
        said = d.try_ctl("export", "--to", out, job).stderr
        check("before that checkpoint" in said and "bfloat16" in said, said)
        with open(out, "rb") as f:
            equal(metadata(f.read()), kept[1], "exported")
        # Weights of before the change are of one policy alone.
        said = d.try_ctl("export", "--force", "--to", out, "--checkpoint",
                         to["name"], job).stderr
        check(to["name"] in said and "policy" not in said, said)
        # It goes on under the new policy, whatever happens.
        d.kill()
        d.start()
        d.ctl("resume", job)
        d.wait_iteration(job, s["iteration"] + 10)
        d.ctl("cancel", job)
        third = d.json("attempts", job)[2]
        equal((json.loads(third["policy"])["dtype"], third["policy_changed"],
               third["cause"]), ("bfloat16", False, ""), "a mere continuation")
        lr = d.sql("SELECT DISTINCT lr FROM metric WHERE job = ? AND"
                   " attempt > 1", job)
        equal(lr, [(0.005,)], "learning rate")
        check_ledger(d, job)


def what_stays_for_ever():
    """data, model and the like are refused by name; so are odd changes"""
    with Daemon() as d:
        job, to = train_and_pause(d)
        before = dump(d, job)
        rows = (
            (["data.batch_size=16"], "data.batch_size"),
            (["model[0].linear.out_features=8"], "out_features"),
            (["train.epochs=1"], "train.epochs"),
            (["optimizer.sgd.lr=1"], "optimizer"),
            (["amp.dtype=float8"], "amp.dtype"),
            (["amp.fp32_regions=[\"nowhere\"]"], "unknown layer"),
            (["amp.nonsense=1"], "amp.nonsense"),
            (["amp.dtype"], "path=value"),
            (["[0]=1"], "path"),
            (["amp.dtype=bfloat16", "seed=9"], "seed"),
        )
        for assignments, word in rows:
            answer = rollback(d, job, to=to["name"], set=assignments,
                              accept_policy_change=True)
            check(not answer["ok"], (assignments, answer))
            check(word in answer["error"]["message"], answer)
        for args, word in (
                ({"scale": -1}, "scale"), ({"scale": 0}, "scale"),
                ({"scale": "Infinity"}, "scale"),
                ({"scale": 2.0 ** 60}, "max_scale"),
                ({"skip_batches": -1}, "windows"),
                ({"skip_batches": 2 ** 62}, "windows"),
                ({"cure": 999}, "incident 999"), ({"cure": -1}, "incident"),
                ({"set": ["amp.scaler=false"], "scale": 64}, "is off")):
            answer = rollback(d, job, to=to["name"], **args,
                              accept_policy_change=True)
            check(not answer["ok"], (args, answer))
            check(word in answer["error"]["message"], answer)
        equal(dump(d, job), before, "nothing has changed")
        check_ledger(d, job)


def data_and_scale_are_no_policy():
    """windows are passed over, the scale is set: no consent, but recorded"""
    with Daemon() as d:
        job, to = train_and_pause(d)
        done = agreed(rollback(d, job, to=to["id"], skip_batches=3,
                               scale=4096))
        check(not done["policy_changed"] and done["difference"] == "", done)
        state = first_state_of(d, job, 2)
        equal(state["data_position"], state["iteration"] + 3, "passed over")
        d.ctl("pause", job)
        equal(d.sql("SELECT iteration, after FROM scale_event WHERE job = ? AND"
                    " live = 1 AND cause = 'set'", job),
              [(to["iteration"], 4096.0)], "the scale was set")
        (cause,), = d.sql("SELECT cause FROM rollback WHERE job = ?", job)
        check("3 windows" in cause and "4096" in cause, cause)
        s = d.status(job)
        equal((s["policy_changed"], s["difference"]), (False, ""), "status")
        # Once more: the new ones come behind those, and the scale was for once.
        agreed(rollback(d, job, to="last", skip_batches=2))
        state = first_state_of(d, job, 3)
        equal(state["data_position"], state["iteration"] + 5, "five in all")
        d.ctl("pause", job)
        equal(d.sql("SELECT count(*) FROM scale_event WHERE job = ? AND"
                    " cause = 'set'", job), [(1,)], "set once")
        # Where an abandoned line stands in the data is not known any more.
        old = [c for c in d.json("checkpoints", "--all-lines", job)
               if not c["live"]][0]
        refused(rollback(d, job, to=old["id"], skip_batches=1), "state",
                "abandoned")
        check_ledger(d, job)


def back_to_the_start():
    """also of a running job, also without any checkpoint"""
    with Daemon() as d:
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint={
            "every_updates": 0, "keep": 3}))
        d.wait_iteration(job, 50)
        done = agreed(rollback(d, job, to="start", skip_batches=4))
        equal((done["iteration"], done["checkpoint"], done["name"]),
              (0, 0, ""), "where to")
        check(done["abandoned"] >= 50, done)
        wait_for("the second attempt to train", lambda: d.sql(
            "SELECT 1 FROM metric WHERE job = ? AND attempt = 2", job))
        d.ctl("pause", job)
        first, second = d.json("attempts", job)
        equal((second["start_iteration"], second["resumed_from"]), (0, ""),
              "from scratch")
        equal(d.sql("SELECT checkpoint, to_iteration FROM rollback"
                    " WHERE job = ?", job), [(None, 0)], "its record")
        state = json.loads(list(d.checkpoint_files(
            job, d.status(job)["checkpoint"]).values())[-1])
        equal(state["data_position"], state["iteration"] + 4, "passed over")
        check_ledger(d, job)


def an_order_outlives_the_daemon():
    """kill -9 after a person asked: carried out once, by whom and with what"""
    with Daemon() as d:
        blobs(d.dir)
        for trial in range(4):
            job = d.submit(mlp_spec(d.dir, train=ENDLESS, checkpoint=OFTEN))
            d.wait_iteration(job, 60)
            to = d.json("checkpoints", job)[1]
            ask = json.dumps({"id": 1, "verb": "rollback", "args": {
                "job": str(job), "to": to["name"], "skip_batches": 2,
                "set": ["train.clip_grad_norm=0.25"],
                "accept_policy_change": True}}).encode()
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(d.socket)
                s.sendall(struct.pack(">I", len(ask)) + ask)
                wait_for("the order to be stored", lambda: d.sql(
                    "SELECT 1 FROM job WHERE id = ? AND changes <> '[]'", job))
                d.kill()
            d.start()
            wait_for("the second line", lambda: d.sql(
                "SELECT 1 FROM metric WHERE job = ? AND attempt > 1 AND"
                " iteration > ?", job, to["iteration"]))
            d.ctl("pause", job)
            equal(d.sql("SELECT uid, to_iteration, policy_changed FROM rollback"
                        " WHERE job = ?", job),
                  [(os.getuid(), to["iteration"], 1)], "its record, once")
            s = d.status(job)
            equal((s["rollbacks"], s["policy_changed"]), (1, True), "status")
            check("train.clip_grad_norm: 1.0 -> 0.25" in s["difference"], s)
            state = json.loads(d.checkpoint_files(
                job, s["checkpoint"])["state.json"])
            equal(state["data_position"], state["iteration"] + 2, "passed over")
            check_ledger(d, job)
            d.ctl("cancel", job)


# ---- guards -------------------------------------------------------------------

def overflowing(folder, **changes):
    """A layer that float16 cannot hold from the first iteration on."""
    npy(f"{folder}/big.npy", "<f4", (64, 2), [3000.0] * 128)
    npy(f"{folder}/t.npy", "<f4", (64, 1), [0.0] * 64)
    return {
        "name": "overflow", "seed": 1, "threads": 1,
        "data": {"train": {"format": "npy", "input": f"{folder}/big.npy",
                           "target": f"{folder}/t.npy"}, "batch_size": 8},
        "model": [{"name": "fc1", "linear": {"out_features": 4},
                   "weight_init": {"normal": {"std": 60}}},
                  {"name": "fc2", "linear": {"out_features": 1}}],
        "loss": "mse", "optimizer": {"sgd": {"lr": 1e-12}},
        "amp": {"dtype": "float16",
                "scaler": {"init_scale": 1024.0, "growth_factor": 2.0,
                           "backoff_factor": 0.5, "growth_interval": 2000,
                           "min_scale": 1.0, "max_scale": 2.0 ** 24}},
        "train": {"epochs": 20}, "guard": "auto", **changes}


def story(d, job):
    """One rollback by a guard for each time that one asked for it."""
    asked = d.sql("SELECT attempt FROM attempt WHERE job = ? AND"
                  " state = 'go_back' ORDER BY attempt", job)
    done = d.sql("SELECT attempt FROM rollback WHERE job = ? AND uid = -1"
                 " ORDER BY attempt", job)
    equal(done, asked, "each wish is done once")
    equal(d.status(job)["guard_rollbacks"], len(done), "counted")
    return len(done)


def a_guard_repairs():
    """it goes back by itself, takes the cure, and ends"""
    with Daemon() as d:
        job = d.submit(overflowing(d.dir), "--wait")
        s = d.status(job)
        equal((s["state"], s["rollbacks"], s["policy_changed"]),
              ("completed", 1, True), s["reason"])
        check("fc1" in s["difference"], s["difference"])
        equal(story(d, job), 1, "rollbacks")
        (cause, change, changed), = d.sql(
            "SELECT cause, change, policy_changed FROM rollback"
            " WHERE job = ?", job)
        check(cause.startswith("guard "), cause)
        check("fc1" in json.loads(change)["amp"]["fp32_regions"], change)
        equal(changed, 1, "flagged")
        check_ledger(d, job)


def a_person_takes_the_cure():
    """the same by hand, from what an incident says"""
    with Daemon() as d:
        job = d.submit(overflowing(d.dir, guard=[
            {"when": {"consecutive_skips": 3}, "do": "pause"}]))
        d.wait_state(job, "paused")
        s = d.status(job)
        check("guard" in s["reason"] and "skips" in s["reason"], s["reason"])
        incident = d.json("incidents", job)[-1]
        other = d.submit(overflowing(d.dir, guard="off"), "--wait")
        theirs = d.json("incidents", other)[-1]
        refused(rollback(d, job, to="start", cure=theirs["id"]), "notfound",
                str(theirs["id"]))
        refused(rollback(d, job, to="start", cure=incident["id"]), "state",
                "fp32_regions", "--accept-policy-change")
        agreed(rollback(d, job, to="start", cure=incident["id"],
                        accept_policy_change=True))
        d.ctl("wait", job)
        s = d.status(job)
        equal((s["state"], s["skips"], s["guard_rollbacks"]),
              ("completed", 0, 0), "cured")
        equal(d.sql("SELECT uid FROM rollback WHERE job = ?", job),
              [(os.getuid(),)], "by a person")
        check_ledger(d, job)


def rollbacks_are_bounded():
    """a guard whose change does not help ends in a failure by name"""
    with Daemon() as d:
        job = d.submit(overflowing(d.dir, guard={
            "mode": "off", "max_rollbacks": 2, "rules": [
                {"when": {"consecutive_skips": 2}, "do": "rollback",
                 "with": {"skip_batches": True}}]}))
        equal(d.try_ctl("wait", job).returncode, 9, "stopped by a guard")
        s = d.status(job)
        equal((s["state"], s["error"], s["rollbacks"]),
              ("failed", "numerics", 2), s["reason"])
        equal(story(d, job), 2, "rollbacks")
        equal(s["policy_changed"], False, "data is no policy")
        check_ledger(d, job)


def the_daemon_dies_in_between():
    """kill -9 once a guard has asked: the rollback is made once"""
    with Daemon() as d:
        for trial in range(6):
            job = d.submit(overflowing(d.dir))
            events = os.path.join(d.job_dir(job), "attempts", "1",
                                  "events.jsonl")

            def has_asked():
                if not os.path.exists(events):
                    return False
                with open(events, encoding="utf-8") as f:
                    return '"go_back"' in f.read()
            wait_for("the guard to ask", has_asked)
            if trial % 2 == 1:
                wait_for("its end to be stored", lambda: d.sql(
                    "SELECT 1 FROM event WHERE job = ? AND"
                    " kind IN ('guard', 'obituary')", job))
            d.kill()
            d.start()
            equal(d.try_ctl("wait", job).returncode, 0, d.status(job))
            equal(story(d, job), 1, "rollbacks")
            s = d.status(job)
            equal((s["rollbacks"], s["policy_changed"]), (1, True), s)
            check_ledger(d, job)


LIAR = '''#!/usr/bin/env python3
import json, os, socket, struct, sys
job, attempt = int(sys.argv[2]), int(sys.argv[4])
s = socket.socket(fileno=3)
def take(n):
    out = b""
    while len(out) < n:
        out += s.recv(n - len(out))
    return out
start = json.loads(take(struct.unpack(">I", take(4))[0]))["args"]
def send(verb, args):
    text = json.dumps({"verb": verb, "args": args}).encode()
    s.sendall(struct.pack(">I", len(text)) + text)
send("checkin", {"job": job, "attempt": attempt, "pid": os.getpid(),
                 "version": "liar"})
with open(os.path.dirname(os.path.realpath(__file__)) + "/lie.json") as f:
    lie = json.load(f)
counts = {"iteration": 0, "updates": 0, "skips": 0}
with open(f"{start['directory']}/attempts/{attempt}/events.jsonl", "w") as f:
    f.write(json.dumps({"seq": 1, "t_us": 1, "kind": "started", **counts,
                        "policy": "{}"}) + "\\n")
    f.write(json.dumps({"seq": 2, "t_us": 2, "kind": "finished", **counts,
                        "outcome": "go_back", "error": 0, "text": "a lie",
                        "to": "last", **lie}) + "\\n")
'''


class LyingDaemon(Daemon):
    """Its worker trains nothing and asks for what is in lie.json."""

    def command(self, *extra):
        worker = f"{self.dir}/liar"
        with open(worker, "w", encoding="utf-8") as f:
            f.write(LIAR)
        os.chmod(worker, 0o755)
        return super().command("--worker", worker, *extra)


def a_worker_lies():
    """what it may not ask for fails its own job with a sentence, no other"""
    with LyingDaemon() as d:
        blobs(d.dir)
        for lie, code, words in (
                ({"change": "no JSON"}, 65, "no JSON"),
                ({"change": "[]"}, 65, "not a JSON object"),
                ({"change": '{"data": {"batch_size": 1}}'}, 65,
                 "data.batch_size cannot be changed"),
                ({"change": '{"amp": {"dtype": "float8"}}'}, 65, "amp.dtype"),
                ({"change": '{"optimizer": [{"sgd": {"lr": 1}}]}'}, 65,
                 "optimizer"),
                ({"scale": -1}, 2, "loss scale"),
                ({"scale": "Infinity"}, 2, "loss scale"),
                ({"skip_windows": [5, -1]}, 65, "windows"),
                ({"skip_windows": [2 ** 62, 2 ** 62]}, 65, "windows"),
                ({"change": '{"amp": {"dtype": "bfloat16"}}'}, 9,
                 "guard.max_rollbacks is 3")):
            with open(f"{d.dir}/lie.json", "w", encoding="utf-8") as f:
                json.dump(lie, f)
            job = d.submit(mlp_spec(d.dir, checkpoint=OFTEN))
            equal(d.try_ctl("wait", job).returncode, code, (lie, code))
            s = d.status(job)
            check(s["state"] == "failed" and words in s["reason"], s)
            equal(s["rollbacks"], 3 if code == 9 else 0, "rollbacks")
        equal(d.ctl("ping") != "", True, "the daemon lives")


main(another_policy_needs_consent, what_stays_for_ever,
     data_and_scale_are_no_policy, back_to_the_start,
     an_order_outlives_the_daemon, a_guard_repairs,
     a_person_takes_the_cure, rollbacks_are_bounded,
     the_daemon_dies_in_between, a_worker_lies)
