#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Grafana board and the alerts ask for what there is."""
import json
import os
import re
import sys
import tempfile

SOURCE = os.environ["TRAIND_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests/support"))
from board import (board, check_names, expressions, families, panels_of,
                   rules_text)
from exposition import Scrape, promtool
from scenario import check, equal, main

UID = {"type": "prometheus", "uid": "${datasource}"}


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def board_can_be_provisioned():
    """id null, a stable uid, one data source, nothing to be filled in"""
    b, text = board(), read("examples/grafana/traind-overview.json")
    equal((b["id"], b["uid"], b["schemaVersion"]),
          (None, "traind-overview", 39), "head")
    check("__inputs" not in b and "${DS_" not in text, "nothing to fill in")
    variables = {v["name"]: v for v in b["templating"]["list"]}
    equal(variables["datasource"]["type"], "datasource", "the variable")
    for name in ("job", "user"):
        check(variables[name]["definition"].startswith("label_values("),
              f"values of {name}")
        equal(variables[name]["datasource"], UID, f"source of {name}")
    for panel in panels_of(b):
        if panel["type"] == "row":
            continue
        equal(panel["datasource"], UID, panel["title"])
        check(panel["targets"], f"{panel['title']}: no query")
        for target in panel["targets"]:
            equal(target["datasource"], UID, panel["title"])
    for a in b["annotations"]["list"]:
        equal(a["datasource"], UID, a["name"])
    check(not re.search(r'"uid": "(?!\$\{datasource\}|traind-overview)', text),
          "a uid of one machine's")


def board_lies_well():
    """numbers are unique, panels stay on the grid and off each other"""
    seen, taken = set(), {}
    for panel in panels_of(board()):
        check(panel["id"] not in seen, f"number {panel['id']} twice")
        seen.add(panel["id"])
        g = panel["gridPos"]
        check(0 <= g["x"] and g["x"] + g["w"] <= 24, panel["title"])
        for x in range(g["x"], g["x"] + g["w"]):
            for y in range(g["y"], g["y"] + g["h"]):
                check((x, y) not in taken, f"{panel['title']} lies on "
                      f"{taken.get((x, y))}")
                taken[x, y] = panel["title"]


def board_shows_what_matters():
    """the rows there are, and the scale on a logarithmic axis"""
    b = board()
    equal([p["title"] for p in b["panels"] if p["type"] == "row"],
          ["Queue", "Running jobs", "Incidents", "Database and HTTP"], "rows")
    scale, = [p for p in b["panels"] if p["title"] == "Loss scale"]
    equal(scale["fieldConfig"]["defaults"]["custom"]["scaleDistribution"],
          {"type": "log", "log": 2}, "axis of the scale")
    used = check_names("board", " ".join(e for _, e in expressions(b)))
    # Nobody plots when something began, or of which version it is.
    rest = {n for n in families() if not n.endswith(("_sum", "_count"))}
    equal(sorted(rest - used), ["process_start_time_seconds",
                                "process_virtual_memory_bytes",
                                "traind_build_info",
                                "traind_job_checkpoint_failures_total",
                                "traind_job_loss_scale_floor",
                                "traind_samples_total",
                                "traind_scale_backoffs_total",
                                "traind_scale_growths_total",
                                "traind_updates_total"], "not on the board")


def board_speaks_promql():
    """each query is one that Prometheus can read"""
    rules = [{"record": f"board:{i}", "expr": expr} for i, (_, expr) in
             enumerate(expressions(board()))]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
        json.dump({"groups": [{"name": "board", "rules": rules}]}, f)
        f.flush()
        promtool("check", "rules", f.name)


def alerts_ask_for_what_there_is():
    """metrics exist; each alert has a test where it fires and one where not"""
    text = rules_text()
    check_names("alerts", text)
    alerts = re.findall(r"- alert: (\w+)", text)
    equal(len(alerts), text.count("severity:"), "each has a severity")
    tests = read("tests/prometheus/traind.rules_test.yml")
    cases = re.findall(r"- alertname: (\w+)\n\s+eval_time: \w+\n"
                       r"\s+exp_alerts:( \[\])?", tests)
    for alert in alerts:
        equal({quiet == "" for name, quiet in cases if name == alert},
              {True, False}, f"tests of {alert}: fires, fires not")


def golden_scrapes_are_good():
    """both formats, by a strict reader, and by promtool"""
    old, new = (Scrape(read(f"tests/golden/metrics.{end}"), end == "om")
                for end in ("prom", "om"))
    promtool("check", "metrics", text=read("tests/golden/metrics.prom"))
    equal(len(old.samples), len(new.samples), "as many figures")
    for key, value in old.samples.items():
        if not key[0].endswith("_bucket"):
            equal(new.samples.get(key), value, key)
    names = {k[0] for k in old.samples}
    equal(sorted(n for n in families() if n not in names and
                 not n.startswith("process_")), ["traind_build_info"],
          "not in the golden scrape")


main(board_can_be_provisioned, board_lies_well, board_shows_what_matters,
     board_speaks_promql, alerts_ask_for_what_there_is,
     golden_scrapes_are_good)
