# SPDX-License-Identifier: Apache-2.0
"""traind-worker from outside, this script at the other end of fd 3.

Orders, signals, kills and garbage at the worst moments: each must end in the
outcome that the protocol promises, and a resumed run in the bits of the run
that was never disturbed.
"""
import array
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ.get("TRAIND_SOURCE", "."),
                                "tests", "support"))
from scenario import (BIN, blobs, check, equal, mlp_spec, npy,  # noqa: E402
                      wait_for)
from worker import Attempt, Job, frame  # noqa: E402

DATA = tempfile.mkdtemp(prefix="traind-w-data-")
STOPPED = 75


def spec(**changes):
    return mlp_spec(DATA, **changes)


def endless(**changes):
    """A run that nobody waits for to end by itself."""
    return spec(train={"epochs": 1000000}, evaluate={"every_updates": 0},
                checkpoint={"every_updates": 0, "keep": 3}, **changes)


def sums_up(attempt, outcome, status):
    """What must hold at any regular end."""
    equal(attempt.wait(), status, "exit status; " + attempt.stderr())
    events = attempt.events()
    equal([e["seq"] for e in events], list(range(1, len(events) + 1)), "seq")
    last = events[-1]
    equal((last["kind"], last["outcome"]), ("finished", outcome), "the end")
    for e in events:
        if e["kind"] != "checkpoint_failed":
            equal(e["iteration"], e["updates"] + e["skips"], f"{e}")
    steps = [e["iteration"] for e in attempt.events("step")]
    first = attempt.events("started")
    if first:
        start = first[0]["iteration"]
        equal(steps, list(range(start + 1, start + 1 + len(steps))), "steps")
        equal(last["iteration"], start + len(steps), "last iteration")
    x = attempt.exit_json()
    equal((x["outcome"], x["exit_code"], x["iteration"]),
          (outcome, status, last["iteration"]), "exit.json")
    beats = [f["args"] for f in attempt.read_frames() if f["verb"] == "beat"]
    if beats and not attempt.sock_closed and status != 76:
        equal(beats[-1]["events_bytes"],
              os.path.getsize(attempt.path("events.jsonl")), "events_bytes")
    return last


def final(job):
    name = job.checkpoints()[-1]
    state = job.state(name)
    state.pop("attempt", None)
    return job.weights(name), state


def reference(**changes):
    """The run that was never disturbed."""
    with Job(spec(**changes)) as job:
        a = job.start()
        sums_up(a, "completed", 0)
        return final(job)


# ---- regular ends -----------------------------------------------------------

def test_completes():
    with Job(spec()) as job:
        a = job.start()
        sums_up(a, "completed", 0)
        frames = a.read_frames()
        equal(frames[0]["verb"], "checkin", "first frame")
        equal(frames[0]["args"]["pid"], a.process.pid, "pid")
        kinds = {e["kind"] for e in a.events()}
        check({"started", "step", "scale", "incident", "evaluation",
               "checkpoint", "checkpoint_pruned", "finished"} <= kinds,
              f"kinds: {kinds}")
        check("completed after" in a.text("stdout"), "log: the end")
        check(not [n for n in os.listdir(os.path.join(job.dir, "checkpoints"))
                   if n.startswith(".")], "leftovers")


def running(job, **args):
    a = job.start(**args)
    a.wait_event("step")
    return a


def test_checkpoint_order():
    with Job(endless()) as job:
        a = running(job)
        a.order("checkpoint")
        e = a.wait_event("checkpoint")
        equal(e["cause"], "demand", "cause")
        check(e["name"] in job.checkpoints(), "it is there")
        a.order("stop")
        last = sums_up(a, "stopped", STOPPED)
        e = a.events("checkpoint")[-1]
        equal((e["cause"], e["iteration"]), ("stop", last["iteration"]),
              "the last checkpoint")


def ends_stopped(end):
    """A running worker is told to stop in some way; it saves."""
    with Job(endless()) as job:
        a = running(job)
        end(a)
        last = sums_up(a, "stopped", STOPPED)
        equal([e["iteration"] for e in a.events("checkpoint")],
              [last["iteration"]], "one checkpoint, of the last iteration")


def test_stop_order():
    ends_stopped(lambda a: a.order("stop"))


def test_end_of_connection():
    ends_stopped(Attempt.hang_up)


def test_sigterm():
    ends_stopped(lambda a: a.signal(signal.SIGTERM))


def test_second_sigterm_is_ignored():
    def twice(a):
        a.signal(signal.SIGTERM)
        a.signal(signal.SIGTERM)
    ends_stopped(twice)


def ends_abandoned(end):
    with Job(endless()) as job:
        a = running(job)
        end(a)
        sums_up(a, "stopped", STOPPED)
        equal(a.events("checkpoint"), [], "checkpoints")


def test_abandon_order():
    ends_abandoned(lambda a: a.order("abandon"))


def test_sigint_abandons():
    ends_abandoned(lambda a: a.signal(signal.SIGINT))


def test_sigterm_before_start():
    with Job(endless()) as job:
        a = job.start(send_start=False)
        a.signal(signal.SIGTERM)
        # Before main() even the default action is right: nothing was done.
        check(a.wait() in (STOPPED, -signal.SIGTERM), "exit status")
        equal(a.events(), [], "events")


def test_sigterm_before_first_step():
    """While data is read and programs are made: nothing to save."""
    with Job(endless()) as job:
        a = job.start(send_start=False)
        os.kill(a.process.pid, signal.SIGSTOP)
        a.send("start", a.start_args)
        a.order("stop")
        os.kill(a.process.pid, signal.SIGCONT)
        last = sums_up(a, "stopped", STOPPED)
        equal(last["iteration"], 0, "iteration")
        equal(job.checkpoints(), [], "checkpoints")


def test_sigterm_during_evaluation():
    """C70: saved, and the evaluation is no result."""
    n = 400000
    with tempfile.TemporaryDirectory() as folder:
        values = array.array("f", [0.5, -1.0, 2.0, 0.1, 1.0, -2.0, 0.3, 0.7])
        npy(os.path.join(folder, "x.npy"), "<f4", (n, 8), list(values) * n)
        npy(os.path.join(folder, "y.npy"), "<i4", (n,), [0, 1] * (n // 2))
        s = endless()
        s["evaluate"] = {"every_updates": 1}
        s["checkpoint"]["best"] = "loss"
        s["data"]["validation"] = {"format": "npy",
                                   "input": f"{folder}/x.npy",
                                   "target": f"{folder}/y.npy"}
        s["amp"] = {"dtype": "float32"}
        with Job(s) as job:
            a = job.start()
            a.wait_event("step")
            t = time.monotonic()
            a.signal(signal.SIGTERM)
            last = sums_up(a, "stopped", STOPPED)
            check(time.monotonic() - t < 10, "it took too long")
            e = a.events("evaluation")[-1]
            check(e["incomplete"] and not e["best"], f"evaluation: {e}")
            c = a.events("checkpoint")[-1]
            equal((c["iteration"], c["best"], c["has_metric"]),
                  (last["iteration"], False, False), "checkpoint")
            # Whoever goes on from there makes up for it first.
            a = job.start(resume=[c["name"]], resume_required=True)
            a.wait_event("step")
            a.signal(signal.SIGTERM)
            sums_up(a, "stopped", STOPPED)
            first = [e for e in a.events() if e["kind"] != "started"][:2]
            equal([(e["kind"], e["iteration"]) for e in first],
                  [("evaluation", c["iteration"]),
                   ("checkpoint", c["iteration"])], "what comes first")
            check(not first[0]["incomplete"] and first[1]["best"], "the best")


# ---- beats ------------------------------------------------------------------

def answer(attempt, token):
    """The beat that answers a ping."""
    attempt.order("ping", token)
    return wait_for("an answer to the ping", lambda: [
        f["args"] for f in attempt.read_frames()
        if f["verb"] == "beat" and f["args"]["token"] == token])[0]


def test_ping_and_beats():
    with Job(endless()) as job:
        a = running(job)
        beat = answer(a, 4711)
        check(beat["resident_bytes"] > 1000000, "resident bytes")
        n = beat["iteration"]
        wait_for("progress", lambda: [
            f for f in a.read_frames()
            if f["verb"] == "beat" and f["args"]["iteration"] > n])
        a.order("abandon")
        sums_up(a, "stopped", STOPPED)


def test_full_socket_holds_nothing_up():
    """Nobody reads: beats are dropped, the run completes."""
    with Job(spec(train={"epochs": 300})) as job:
        a = job.start()
        equal(a.wait(), 0, "exit status")
        equal(a.events()[-1]["outcome"], "completed", "outcome")


def test_events_survive_a_full_disk():
    """What cannot be written waits; no number of the sequence is lost."""
    with Job(endless()) as job:
        a = running(job)
        size = os.path.getsize(a.path("events.jsonl"))
        unlimited = resource.prlimit(a.process.pid, resource.RLIMIT_FSIZE,
                                     (size + 5000, resource.RLIM_INFINITY))
        wait_for("the file to be full", lambda: os.path.getsize(
            a.path("events.jsonl")) >= size + 5000)
        a.order("checkpoint")
        seen = answer(a, 1)
        equal(seen["events_bytes"], size + 5000, "events_bytes")
        token = 2
        while answer(a, token)["iteration"] < seen["iteration"] + 10:
            token += 1
        resource.prlimit(a.process.pid, resource.RLIMIT_FSIZE, unlimited)
        a.wait_event("checkpoint_failed")
        a.order("stop")
        sums_up(a, "stopped", STOPPED)


# ---- kills ------------------------------------------------------------------

def test_kill_anywhere_and_resume():
    """kill -9 at random places; the last attempt ends in the same bits."""
    long = spec(train={"epochs": 40, "clip_grad_norm": 1.0})
    with Job(long) as job:
        sums_up(job.start(), "completed", 0)
        want = final(job)
    r = random.Random(1)
    with Job(long) as job:
        for _ in range(12):
            names = job.checkpoints()[::-1]
            a = job.start(resume=names, resume_required=bool(names))
            path, size = a.path("events.jsonl"), r.randrange(9000)
            wait_for("its turn to die", lambda: a.process.poll() is not None or
                     os.path.exists(path) and os.path.getsize(path) > size)
            a.kill()
            if a.process.returncode == 0:
                break
        check(len(job.attempts) > 3, "too few kills to show anything")
        a = job.start(resume=job.checkpoints()[::-1], resume_required=True)
        sums_up(a, "completed", 0)
        equal(final(job), want, "weights and state at the end")


def test_failpoints_and_resume():
    """Killed at the worst places of a checkpoint, of a kept incident (which is
    written as checkpoints are) and of the events file."""
    checkpoint = ("ckpt.half_data:2", "ckpt.before_fsync:9",
                  "ckpt.before_manifest:3", "ckpt.before_rename:2",
                  "ckpt.after_rename:2", "events.torn_line:4=EIO")
    incident = ("incident.before_weights", "incident.before_manifest:2",
                "ckpt.half_data:2", "ckpt.before_rename")
    for keep, places in ((0, checkpoint), (8, incident)):
        want = reference(diagnose={"keep": keep})
        for place in places:
            with Job(spec(diagnose={"keep": keep})) as job:
                a = job.start(env={"TRAIND_FAILPOINT": place})
                equal(a.wait(), -signal.SIGKILL, f"{place}: exit status")
                seqs = [e["seq"] for e in a.events()]
                equal(seqs, list(range(1, len(seqs) + 1)), f"{place}: seq")
                b = job.start(resume=job.checkpoints()[::-1])
                sums_up(b, "completed", 0)
                equal(final(job), want, place)


def test_stop_and_resume_many_times():
    want = reference()
    with Job(spec()) as job:
        for i in range(6):
            names = job.checkpoints()[::-1]
            a = job.start(resume=names)
            wait_for("a few steps", lambda a=a: len(
                a.events("step")) > 1 or a.process.poll() is not None)
            a.signal(signal.SIGTERM)
            check(a.wait() in (0, STOPPED), f"attempt {i}: {a.stderr()}")
        names = job.checkpoints()[::-1]
        a = job.start(resume=names, resume_required=True)
        sums_up(a, "completed", 0)
        equal(final(job), want, "weights and state at the end")


# ---- bad checkpoints --------------------------------------------------------

def flip(path):
    with open(path, "r+b") as f:
        f.seek(-3, os.SEEK_END)
        byte = f.read(1)
        f.seek(-3, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))


def test_bad_checkpoint_falls_back():
    want = reference()
    with Job(spec()) as job:
        sums_up(job.start(), "completed", 0)
        names = job.checkpoints()[::-1]
        flip(job.checkpoint_file(names[0], "model.safetensors"))
        a = job.start(resume=names)
        sums_up(a, "completed", 0)
        failed = a.events("checkpoint_failed")
        equal([e["name"] for e in failed], names[:1], "told")
        check("model.safetensors" in failed[0]["text"], failed[0]["text"])
        equal(a.events("started")[0]["checkpoint"], names[1], "resumed from")
        equal(final(job)[0], want[0], "weights")


def test_no_good_checkpoint():
    with Job(spec()) as job:
        sums_up(job.start(), "completed", 0)
        names = job.checkpoints()[::-1]
        for name in names:
            flip(job.checkpoint_file(name, "optimizer.safetensors"))
        a = job.start(resume=names, resume_required=True)
        equal(sums_up(a, "failed", 74)["error"], -7, "error")
        b = job.start(resume=names)
        sums_up(b, "completed", 0)
        equal(b.events("started")[0]["checkpoint"], "", "from scratch")


# ---- bad input --------------------------------------------------------------

def test_garbage_while_running():
    """The connection is worth nothing any more; the work is kept."""
    for garbage in (b"\xff\xff\xff\xff", frame(b"{nonsense"),
                    frame({"verb": "order", "args": {"order": "dance"}}),
                    frame({"verb": "start", "args": {}})):
        with Job(endless()) as job:
            a = running(job)
            a.send_raw(garbage)
            last = sums_up(a, "failed", 76)
            check(last["text"].startswith("fd 3"), last["text"])
            equal(len(a.events("checkpoint")), 1, "checkpoints")


def test_garbage_before_start():
    for garbage in (b"\x00\x00\x00\x00", frame(b"hello"),
                    frame({"verb": "order", "args": {"order": "stop"}})):
        with Job(spec()) as job:
            a = job.start(send_start=False)
            a.send_raw(garbage)
            equal(a.wait(), 76, "exit status")
            check("fd 3" in a.stderr(), a.stderr())
    with Job(spec()) as job:
        a = job.start(send_start=False)
        a.hang_up()
        equal(a.wait(), STOPPED, "exit status")


def test_bad_spec_and_data():
    with Job(spec(loss="cross_entropi")) as job:
        last = sums_up(job.start(), "failed", 65)
        check("cross_entropi" in last["text"] and "loss" in last["text"],
              last["text"])
    s = spec()
    s["data"]["train"]["input"] = DATA + "/nowhere.npy"
    with Job(s) as job:
        a = job.start()
        last = sums_up(a, "failed", a.wait())
        check("nowhere.npy" in last["text"], last["text"])
        check(a.wait() in (65, 74), "exit status")


def test_attempt_is_used_once():
    """An attempt's events are never added to by a second worker."""
    with Job(spec()) as job:
        a = job.start(send_start=False)
        with open(a.path("events.jsonl"), "w", encoding="utf-8") as f:
            f.write("{}\n")
        a.send("start", a.start_args)
        check(a.wait() != 0, "exit status")
        equal(os.path.getsize(a.path("events.jsonl")), 3, "size")


# ---- guards -----------------------------------------------------------------

BAD_LOSS = {"metric": "loss", "above": 0}


def guarded(do, **more):
    """A run that a guard ends at its second evaluation."""
    return spec(guard=[{"when": {**BAD_LOSS, "after_updates": 40}, "do": do,
                        **more}])


def ends_by_guard(job, outcome, status):
    last = sums_up(job.start(), outcome, status)
    fired = job.attempts[-1].events("guard")
    equal([(g["rule"], g["condition"]) for g in fired], [(0, "metric")],
          "events of guards")
    check(last["text"].startswith("guard 0 (metric): loss was "), last["text"])
    equal((last["updates"], fired[0]["updates"]), (40, 40), "updates")
    return last, fired[0]


def test_guard_fails():
    with Job(guarded("fail")) as job:
        last, fired = ends_by_guard(job, "failed", 9)
        equal((last["error"], fired["action"]), (-18, "fail"), "end")
        check(all(job.state(n)["updates"] < 40
                  for n in job.checkpoints()), "no checkpoint of what failed")


def test_guard_pauses():
    with Job(guarded("pause")) as job:
        last, fired = ends_by_guard(job, "paused", STOPPED)
        equal((last["error"], fired["action"]), (0, "pause"), "end")
        name = f"it{last['iteration']:09d}-a1"
        check(name in job.checkpoints(), "checkpoint")
        job.spec = spec()
        sums_up(job.start(resume=[name]), "completed", 0)


def test_guard_goes_back():
    """What the daemon is told is what the next attempt begins with."""
    change = {"lower_scale": 0.5}
    with Job(guarded("rollback", **{"with": change, "to": "best"})) as job:
        s = job.spec
        s["checkpoint"]["best"] = "accuracy"
        last, fired = ends_by_guard(job, "go_back", STOPPED)
        equal((last["error"], last["to"], last["change"], fired["action"]),
              (0, "best", "", "rollback"), "end")
        scales = [e["scale"] for e in job.attempts[0].events("step")]
        equal(last["scale"], min(scales) / 2, "scale to begin with")
        a = job.start(more={"scale": last["scale"], "guard_rollbacks": 3})
        last = sums_up(a, "failed", 9)
        check("guard.max_rollbacks allows 3" in last["text"], last["text"])
        first = a.events("scale")[0]
        equal((first["cause"], first["before"], first["after"]),
              ("set", 2.0 ** 24, min(scales) / 2), "event of the scale")
        equal(a.events("step")[0]["scale"], first["after"], "scale used")


def test_windows_are_passed_over():
    """As many iterations, later in the data, and again after a kill."""
    windows = [5, 2, 90, 1, 6, 3]
    with Job(spec()) as job:
        sums_up(job.start(more={"skip_windows": windows}), "completed", 0)
        n = job.attempts[0].events("finished")[0]["iteration"]
        state = job.state(f"it{n:09d}-a1")
        at = state["data_position"]
        equal(at, n + 4 + (n + 4 > 90), "data position")
        whole = job.weights(f"it{n:09d}-a1")
        a = job.start(more={"skip_windows": windows})
        name = a.wait_event("checkpoint")["name"]
        a.kill()
        b = job.start(resume=[name], more={"skip_windows": windows})
        sums_up(b, "completed", 0)
        check(job.weights(f"it{n:09d}-a3") == whole, "the same bits")
    with Job(spec()) as job:
        last = sums_up(job.start(more={"skip_windows": [5]}), "failed", 76)
        check("skip_windows" in last["text"], last["text"])


# ---- --check ----------------------------------------------------------------

def run_check(text, cwd=None):
    path = os.path.join(DATA, "check.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path, subprocess.run([os.path.join(BIN, "traind-worker"),
                                 "--check", path], capture_output=True,
                                text=True, check=False, cwd=cwd)


def test_check_prints_the_plan():
    _, r = run_check(json.dumps(spec()))
    equal(r.returncode, 0, r.stderr)
    for part in ("== graph ==", "== cast plan ==", "== program ==",
                 "== memory ==", "== totals ==", "fc1.weight.to_f16",
                 "parameters   227", "activations  "):
        check(part in r.stdout, f"{part} is not in the plan")


def test_check_tells_guards():
    """All rules that are in effect, and which of them have nothing to do."""
    _, r = run_check(json.dumps(spec(amp={"dtype": "bfloat16"}, guard={
        "mode": "auto", "rules": [
            {"when": {"consecutive_skips": 7}, "do": "rollback",
             "with": {"lower_scale": 0.5}}]})))
    equal(r.returncode, 0, r.stderr)
    rules = r.stdout.split("== guards ==\n")[1].split("\n\n")[0].split("\n")
    equal(len(rules), 12, "\n".join(rules))
    check('"consecutive_skips": 7' in rules[0] and rules[0].endswith(
        "(nothing to do: there is no loss scale)"), rules[0])
    check('"diagnosed"' in rules[1] and rules[1].endswith("}"), rules[1])
    check(rules[2].endswith("(nothing to do: the job runs in bfloat16 "
                            "already)"), rules[2])
    check('"float32"' in rules[3] and rules[3].endswith("}"), rules[3])


def test_check_tells_what_a_job_takes():
    # A small model, whose tables of evaluation are the largest part.
    wide = spec(model=[{"linear": {"out_features": 200}}], evaluate={
        "metrics": ["accuracy", "confusion"]}, checkpoint={})
    for one in (spec(), wide):
        _, r = run_check(json.dumps(one))
        equal(r.returncode, 0, r.stderr)
        with Job(one) as job:
            a = job.start()
            sums_up(a, "completed", 0)
            started = a.events("started")[0]
        for name in ("state", "activation"):
            check(re.search(rf"{name}s? +{started[name + '_bytes']} bytes",
                            r.stdout), f"{name}: {started}\n{r.stdout}")


def test_check_tells_precisions_apart():
    _, r = run_check(json.dumps(spec()))
    equal(r.returncode, 0, r.stderr)
    table = {}
    for line in r.stdout.split("== memory by precision ==")[1].splitlines():
        if len(line) < 15 or line[15:].split()[0] == "float32":
            continue
        table[line[:15].strip()] = [int(n) for n in line[15:].split()]
        if line.startswith("buffers"):
            break
    equal(table["parameters"], [4 * 227] * 2, "parameters")
    equal(table["weight copies"], [0, 2 * 195], "weight copies")
    for full, half in (table["peak"], table["lower bound"]):
        check(0 < full != half > 0, f"{full} and {half} bytes")
    for column in range(2):
        check(table["lower bound"][column] <= table["peak"][column], "peak")
    # A job without autocast has one precision to speak of.
    plain = spec()
    plain["amp"] = {"dtype": "float32"}
    _, r = run_check(json.dumps(plain))
    equal(r.returncode, 0, r.stderr)
    check("by precision" not in r.stdout, "one precision")


def test_check_takes_paths_from_the_working_directory():
    text = json.dumps(spec()).replace(DATA + "/", "")
    check(DATA not in text, text)
    _, r = run_check(text, cwd=DATA)
    equal(r.returncode, 0, r.stderr)
    _, r = run_check(text, cwd="/")
    equal(r.returncode, 74, r.stderr)
    check("/x.npy" in r.stderr, r.stderr)


def test_check_finds_every_fault():
    path, r = run_check('{"name": 3,\n "data": {},\n "modle": []}\n')
    equal(r.returncode, 65, "exit status")
    check(f"{path}:1:" in r.stderr and f"{path}:3:" in r.stderr, r.stderr)
    equal(r.stdout, "", "plan")
    s = spec()
    s["model"].insert(0, {"conv2d": {"out_channels": 2, "kernel_size": 3}})
    _, r = run_check(json.dumps(s))
    equal(r.returncode, 65, "exit status")
    check("conv2d" in r.stderr, r.stderr)


def main():
    blobs(DATA)
    tests = [v for k, v in sorted(globals().items())
             if k.startswith("test_")]
    wanted = sys.argv[1:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        t = time.monotonic()
        test()
        print(f"ok {test.__name__} ({time.monotonic() - t:.2f} s)", flush=True)


if __name__ == "__main__":
    main()
