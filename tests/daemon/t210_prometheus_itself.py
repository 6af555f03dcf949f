#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes traind; the board and the alerts are asked of it."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from board import RULES, board, expressions
from http_door import Http, HttpDaemon
from scenario import DEADLINE_S, blobs, check, equal, main, mlp_spec, wait_for

CONFIG = """
global: {{scrape_interval: 500ms, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: traind
    honor_labels: true
    authorization: {{credentials_file: {folder}/token}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus:
    """One that scrapes a daemon with a token."""

    def __init__(self, daemon, token):
        self.dir = os.path.join(daemon.dir, "prometheus")
        os.mkdir(self.dir)
        for name, text in (("token", token), ("config.yml", CONFIG.format(
                rules=RULES, folder=self.dir, port=Http(daemon, token).port))):
            with open(os.path.join(self.dir, name), "w",
                      encoding="utf-8") as f:
                f.write(text)
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self):
        program = shutil.which("prometheus")
        check(program, "prometheus is missing (Debian: prometheus)")
        with open(os.path.join(self.dir, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [program, f"--config.file={self.dir}/config.yml",
                 f"--storage.tsdb.path={self.dir}/data",
                 "--web.listen-address=" + self.url[len("http://"):]],
                stdout=log, stderr=log)
        return self

    def __exit__(self, kind, *rest):
        self.process.terminate()
        self.process.wait(DEADLINE_S)
        if kind is not None:
            with open(os.path.join(self.dir, "log"), encoding="utf-8") as f:
                sys.stderr.write(f.read())

    def ask(self, path, **args):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(args)}"
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as r:
                return json.load(r)["data"]
        except urllib.error.HTTPError as e:
            if e.code == 503:
                raise  # it is not ready yet
            raise AssertionError(f"{args}: {e.read().decode()}") from e

    def query(self, expr):
        return self.ask("query", query=expr)["result"]

    def has(self, expr):
        with contextlib.suppress(OSError):  # it does not listen, or answer yet
            check(self.process.poll() is None, "prometheus has ended")
            return self.query(expr)
        return None


def check_board(p):
    """Every panel shows something while a job runs, sooner or later: a
    gradient that is no number has no norm."""
    for title, expr in expressions(board()):
        if title == "Rollbacks":
            p.query(expr)  # there was none
        else:
            wait_for(f"panel {title}", lambda e=expr: p.query(e))


def a_job_on_the_board():
    """every query of the board has an answer, every alert can be judged"""
    with HttpDaemon() as d:
        token = d.ctl("token", "create", "--scope", "metrics").strip()
        blobs(d.dir)
        job = d.submit(mlp_spec(d.dir, train={"epochs": 100000}))
        d.wait_iteration(job, 60)
        d.try_ctl("status", "77")  # is refused
        with Prometheus(d, token) as p:
            wait_for("some scrapes", lambda: p.has(
                f'count_over_time(traind_job_iteration{{job="{job}"}}[5m])'
                " > 4"))
            target, = p.ask("targets")["activeTargets"]
            equal((target["health"], target["lastError"]), ("up", ""), "scrape")
            check_board(p)
            row, = p.query(f'traind_job_info{{job="{job}"}}')
            equal(row["metric"]["name"], "scenario", "its name")
            rules = [r for g in wait_for("the rules to be judged", lambda: (
                lambda groups: groups if all(
                    r["health"] != "unknown" for g in groups
                    for r in g["rules"]) else None)(
                        p.ask("rules")["groups"])) for r in g["rules"]]
            check(len(rules) > 10, "the alerts are there")
            equal([(r["name"], r.get("lastError")) for r in rules
                   if r["health"] != "ok"], [], "alerts that make no sense")
            d.ctl("cancel", job)
            d.wait_state(job, "cancelled")
            wait_for("its figures to go", lambda: not p.query(
                f'traind_job_iteration{{job="{job}"}}'))


main(a_job_on_the_board)
