#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard, in a real browser, before a real daemon with real jobs.

Whatever is done, the browser complains of nothing, and nothing is asked of
anybody but the daemon.
"""
import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from browser import PHONE, Page, free_port, need_browser
from http_door import Http, HttpDaemon
from overflow import c08
from scenario import blobs, check, equal, main, mlp_spec, wait_for

need_browser()
from selenium.webdriver.common.keys import Keys

ENDLESS = {"epochs": 1000000, "clip_grad_norm": 1.0}
# Asked before anybody has logged in: does the way need a token at all?
FIRST = "/v1/whoami - Failed to load resource"
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document" \
    ".title='taken'</script>\u202eback"


def token_of(d, *scopes, name="browser"):
    """A secret, and the number by which it is taken back."""
    t = Http(d).post("/v1/tokens", {"name": name, "scopes": list(scopes)},
                     None).json
    return t["secret"], t["id"]


@contextlib.contextmanager
def door(scopes=("read", "submit"), **kw):
    """A daemon, and a page of it that is logged in."""
    with HttpDaemon() as d:
        secret, number = token_of(d, *scopes)
        with Page(Http(d).url, **kw) as page:
            d.token = number
            page.go("")
            page.log_in(secret)
            yield d, page


def endless(d, **changes):
    blobs(d.dir)
    return mlp_spec(d.dir, train=ENDLESS, **changes)


def window_of(page):
    return page.js("return document.querySelector('.plots').dataset.window")


def iteration(page):
    digits = "".join(c for c in page.number("updates + skips").split("+")[0]
                     if c.isdigit())
    return int(digits or 0)


def curve(page):
    """Its last iteration, and how many its points stand for."""
    return [int(n or 0) for n in page.js(
        "const {last, covered} = document.querySelector('.plots').dataset;"
        "return [last, covered]")]


def end_by_keyboard(page, d, job):
    """The cancel dialog, by nothing but keys; Escape leaves it first."""
    button = page.find("[data-order=cancel]")
    page.js("arguments[0].focus()", button)
    page.keys(Keys.ENTER)
    page.find("dialog[open]")
    page.keys(Keys.ESCAPE)
    wait_for("the dialog to be gone", lambda: not page.all("dialog"))
    equal(page.js("return document.activeElement.dataset.order"), "cancel",
          "the focus is back where it was")
    equal(d.status(job)["state"], "running", "nothing has happened")
    page.keys(Keys.ENTER)
    page.find("dialog[open] input")
    page.js("document.querySelector('dialog button').focus()")
    for _ in range(20):
        inside = page.js("return document.activeElement.closest('dialog') !=="
                         " null || document.activeElement === document.body")
        check(inside, "the keyboard has left the dialog")
        if page.js("return document.activeElement.tagName") == "INPUT":
            break
        page.keys(Keys.TAB)
    page.keys("seen enough", Keys.ENTER)
    wait_for("the dialog to be done", lambda: not page.all("dialog"))
    page.wait_text(".job-top .state", "cancelled")
    check("seen enough" in d.status(job)["reason"], d.status(job)["reason"])


# ---- scenarios --------------------------------------------------------------

def one_logs_in():
    """a wrong token is told, a good one opens, log out closes"""
    with HttpDaemon() as d:
        secret, _ = token_of(d, "read", "submit")
        with Page(Http(d).url) as page:
            page.go("")
            page.find("input[name=token]")
            page.type("input[name=token]", "wrong").send_keys(Keys.ENTER)
            page.wait_text(".fault", "not valid")
            page.shot("login")
            page.log_in(secret)
            page.wait_text("h1", "Jobs")
            page.wait_text("#connection", "live")
            page.driver.refresh()
            page.wait_text("h1", "Jobs")
            page.click("#logout")
            page.wait_text("h1", "Log in")
            equal(page.js("return sessionStorage.length"), 0, "forgotten")
            page.check_quiet(FIRST)


def a_token_is_taken_back():
    """the page says so at once, and asks for another one"""
    with door() as (d, page):
        page.wait_text("h1", "Jobs")
        Http(d).ask("DELETE", f"/v1/tokens/{d.token}", None, None)
        page.go("submit")
        page.type("textarea", "{}")
        page.click("button", "validate")
        page.wait_text(".fault", "expired or was revoked")
        page.check_quiet("401")


def a_job_is_submitted_and_watched():
    """faults stand at their lines; then the curve moves by itself"""
    with door() as (d, page):
        spec = endless(d)
        bad = json.dumps(dict(spec, loss="cross_entrop"), indent=1)
        page.go("submit")
        page.js("""const t = document.querySelector('textarea');
            t.value = arguments[0];
            t.dispatchEvent(new Event('input', {bubbles: true}));""", bad)
        page.click("button.primary")
        line = next(i for i, text in enumerate(bad.split("\n"), 1)
                    if '"loss"' in text)
        page.wait_text(".faults", f"{line}:", "cross_entropy")
        equal(page.js("return document.querySelector('.gutter .bad')"
                      ".textContent"), str(line), "the line is marked")
        page.click(".faults button")
        at = page.js("const t = document.querySelector('textarea');"
                     "return t.value.slice(0, t.selectionStart)"
                     ".split('\\n').length")
        equal(at, line, "the caret goes there")
        page.shot("submit")
        page.js("""const t = document.querySelector('textarea');
            t.value = arguments[0];
            t.dispatchEvent(new Event('input', {bubbles: true}));""",
                json.dumps(spec))
        page.click("button.primary")
        page.wait_text("h1", "scenario")
        equal([j["name"] for j in d.json("list")], ["scenario"], "one job")
        job = d.json("list")[0]["id"]
        page.wait_text(".job-top .state", "running")
        for _ in range(3):
            seen = iteration(page)
            wait_for("the numbers to move", lambda s=seen: iteration(page) > s)
        for _ in range(4):
            drawn, _ = curve(page)
            last, covered = wait_for("the curve to grow", lambda n=drawn: (
                lambda c: c if c[0] > n else None)(curve(page)))
            equal(covered, last, "each iteration is in one point")
        page.wait_text(".checkpoints", "periodic")
        page.wait_text(".evaluations", "accuracy")
        check(page.colour_count("loss", "--curve") > 50, "a curve of the loss")
        page.click(".logs summary")
        check(page.find("pre.log").is_displayed(), "the log")
        end_by_keyboard(page, d, job)
        check(page.find("[data-order=rollback]").get_attribute(
            "aria-disabled") == "true", "nothing is left to order")
        page.check_quiet(FIRST)


def charts_move_as_one():
    """drag, keys and buttons zoom all; the daemon is asked for the detail"""
    with door() as (d, page):
        job = d.submit(endless(d))
        d.wait_iteration(job, 3000)
        d.ctl("pause", job)
        page.go(f"job/{job}")
        page.find("[data-chart=rate] canvas")
        wait_for("all charts", lambda: page.js(
            "return performance.getEntriesByName('traind:ready').length"))
        whole = window_of(page)
        page.listen()
        before = len(page.asked)
        page.drag(".plot-loss", 0.4, 0.7)
        wait_for("a window", lambda: window_of(page) != whole)
        a, b = map(float, window_of(page).split())

        def finer():
            page.listen()
            return [u for u in page.asked[before:]
                    if "/metrics?" in u and "from=" in u and "to=" in u]
        (url,) = wait_for("the detail to be asked for", finer)[:1]
        asked = dict(p.split("=") for p in url.split("?")[1].split("&"))
        check(int(asked["from"]) <= a and int(asked["to"]) >= b, url)
        check(200 <= int(asked["max_points"]) <= 3000, url)
        ranges = set(page.js("return [...document.querySelectorAll('.chart')]"
                             ".map((c) => c.dataset.window)"))
        equal(len(ranges), 1, "one window for all charts")
        page.double_click(".plot-lr")
        wait_for("the whole", lambda: window_of(page) == whole)
        page.js("document.querySelector('.plots').focus()")
        page.keys("+")
        wait_for("nearer", lambda: window_of(page) != whole)
        page.keys(Keys.ARROW_RIGHT)
        page.keys("0")
        wait_for("the whole", lambda: window_of(page) == whole)
        page.check_quiet(FIRST)


def a_skip_is_explained_and_cured():
    """mark, incident, evidence, cure, rollback, branch in the lineage"""
    with door() as (d, page):
        spec = c08(d.dir, "float16", guard="off", name="overflows",
                   train={"epochs": 100000000})
        job = d.submit(spec)
        d.wait_iteration(job, 20)
        d.ctl("pause", job)
        page.go(f"job/{job}")
        page.wait_text(".job-top .state", "paused")
        page.wait_text(".incidents", "forward_overflow", "fc1")
        wait_for("marks in the verdict's colour", lambda: page.colour_count(
            "scale", "--v-forward") > 20)
        wait_for("losses that are not finite", lambda: page.colour_count(
            "loss", "--bad") > 5)
        page.click(".incident summary", "forward_overflow")
        facts = page.wait_text(".incident[open] .detail", "66304", "fc1",
                               "linear", "forward", "float16")
        check("fp32_regions" in facts, facts)
        page.shot("incident")
        page.click(".incident[open] [data-cure]")
        page.wait_text("dialog .preview", "fc1", "left behind")
        page.click("#to-start")
        page.wait_text("dialog .preview", "back to the start")
        go = page.find("dialog button.danger")
        equal(go.get_attribute("aria-disabled"), "true", "not accepted yet")
        go.click()
        equal(d.status(job)["rollbacks"], 0, "nothing has happened")
        page.shot("rollback")
        page.click("#accept-policy")
        equal(go.get_attribute("aria-disabled"), "false", "accepted")
        go.click()
        wait_for("the dialog to be done", lambda: not page.all("dialog"))
        s = wait_for("the rollback", lambda: (
            lambda s: s if s["rollbacks"] == 1 else None)(d.status(job)))
        check(s["policy_changed"] and "fc1" in s["difference"], s)
        page.wait_text(".policy", "fc1")
        page.wait_text(".lineage", "attempt 2", "back to", "abandoned", "fc1")
        check(page.all(".lanes .left"), "the abandoned line is drawn")
        d.wait_iteration(job, 50)
        d.ctl("pause", job)
        wait_for("updates", lambda: iteration(page) >= 50)
        page.click("#show-left")
        page.drag(".plot-scale", 0.08, 0.13)
        wait_for("the line that was left", lambda: page.colour_count(
            "scale", "--left") > 5)
        page.shot("cured")
        page.click("[data-order=cancel]")
        page.click("dialog button.danger")
        page.wait_text(".job-top .state", "cancelled")
        page.check_quiet(FIRST)


def a_hostile_name_does_nothing():
    """markup in a name is shown as it is written, everywhere"""
    with door() as (d, page):
        job = d.submit(endless(d, name=HOSTILE))
        page.wait_text("table.jobs", "<img src=x", "\\u202eback")
        page.click("table.jobs a", "<img")
        page.wait_text("h1", "<img src=x", "</script>")
        page.click("[data-order=cancel]")
        page.wait_text("dialog h2", "<img src=x")
        page.click("dialog button.danger")
        page.wait_text(".job-top .state", "cancelled")
        page.go("")
        page.wait_text("table.jobs", "cancelled")
        equal(len(page.all("main img, main script, table img")), 0, "elements")
        check("taken" not in page.js("return document.title").replace(
            HOSTILE, ""), "the title")
        equal(d.status(job)["state"], "cancelled", "the job")
        page.check_quiet(FIRST)


def a_reader_may_look_only():
    """without the scope submit every button says why it does not work"""
    with door(scopes=("read",)) as (d, page):
        job = d.submit(endless(d))
        page.go(f"job/{job}")
        page.wait_text(".job-top .state", "running")
        for button in page.all(".orders button"):
            if button.is_displayed():
                equal(button.get_attribute("aria-disabled"), "true",
                      button.text)
                check("submit" in button.get_attribute("title"), button.text)
        page.click("[data-order=cancel]")
        page.wait_text("#toasts", "submit")
        equal(len(page.all("dialog")), 0, "no dialog opens")
        equal(d.status(job)["state"], "running", "the job")
        page.go("submit")
        page.type("textarea", json.dumps(endless(d)))
        page.click("button.primary")
        page.wait_text("form", "orders need submit")
        equal(len(d.json("list")), 1, "nothing was submitted")
        page.check_quiet(FIRST)


def the_connection_comes_back():
    """a restarted daemon is found again, without a reload"""
    port = free_port()
    with HttpDaemon() as d:
        with open(d.config, encoding="utf-8") as f:
            text = f.read().replace("127.0.0.1:0", f"127.0.0.1:{port}")
        with open(d.config, "w", encoding="utf-8") as f:
            f.write(text)
        d.stop()
        d.start()
        secret, _ = token_of(d, "read", "submit")
        with Page(f"http://127.0.0.1:{port}/") as page:
            page.go("")
            page.log_in(secret)
            job = d.submit(endless(d))
            page.wait_text("table.jobs", "running")
            page.js("window.kept = true")
            d.stop()
            page.wait_text("#connection", "no connection")
            d.start()
            page.wait_text("#connection", "live")
            other = d.submit(endless(d, name="after"))
            page.wait_text("table.jobs", "after", "queued")
            equal(page.js("return window.kept"), True, "the same page")
            for number in (job, other):
                d.ctl("cancel", number)
            page.check_quiet(FIRST, "ERR_", "401", "503")


def it_fits_every_screen():
    """desktop and phone, light and dark; the pictures are for people"""
    with HttpDaemon() as d:
        secret, _ = token_of(d, "read", "submit")
        spec = endless(d, name="pictures")
        spec["amp"]["scaler"]["growth_interval"] = 60
        job = d.submit(spec)
        d.wait_iteration(job, 1500)
        d.ctl("rollback", job, "--to", "last", "--set", "optimizer.adamw.lr="
              "0.004", "--accept-policy-change")
        d.wait_iteration(job, 1700)
        d.submit(endless(d, name="waits for the first one"))
        for kind, size in (("desktop", (1400, 900)), ("phone", PHONE)):
            for theme in ("light", "dark"):
                with Page(Http(d).url, size, theme == "dark") as page:
                    look_at_all(page, secret, job, f"{kind}-{theme}")
        for number in (job, job + 1):
            d.ctl("cancel", number)


def look_at_all(page, secret, job, name):
    page.go("")
    page.log_in(secret)
    page.wait_text("table.jobs", "pictures", "running")
    page.wait_text("table.jobs", "queued")
    page.check_width()
    page.shot(f"jobs-{name}")
    page.go(f"job/{job}")
    wait_for("all charts", lambda: page.js(
        "return performance.getEntriesByName('traind:ready').length"))
    page.wait_text(".lineage", "attempt 2")
    page.check_width()
    page.shot(f"job-{name}")
    want = "dark" if "dark" in name else "light"
    equal(page.js("return document.documentElement.dataset.theme"), want,
          "the system's colours")
    page.click("#theme")
    wait_for("the switch", lambda: page.js(
        "return document.documentElement.dataset.theme") == "light")
    page.click("[data-order=rollback]")
    page.wait_text("dialog .preview", "back to")
    page.check_width()
    page.keys(Keys.ESCAPE)
    page.go("submit")
    page.find("textarea")
    page.check_width()
    page.check_quiet(FIRST)


SCENARIOS = (
    one_logs_in, a_token_is_taken_back, a_job_is_submitted_and_watched,
    charts_move_as_one, a_skip_is_explained_and_cured,
    a_hostile_name_does_nothing, a_reader_may_look_only,
    the_connection_comes_back, it_fits_every_screen)
main(*[s for s in SCENARIOS
       if len(sys.argv) < 2 or s.__name__ in sys.argv[1:]])
