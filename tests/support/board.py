# SPDX-License-Identifier: Apache-2.0
"""The families of metrics.def, and what board and alerts ask for."""
import json
import os
import re

from scenario import SOURCE, check

BOARD = os.path.join(SOURCE, "examples/grafana/traind-overview.json")
RULES = os.path.join(SOURCE, "examples/prometheus/traind.rules.yml")
PARTS = ("_bucket", "_sum", "_count")
# Of Prometheus itself, on everything it scrapes.
TARGET_LABELS = {"instance", "job"}
# What Grafana puts in their places.
VARIABLES = (("$__rate_interval", "1m"), ("$job", ".*"), ("$user", ".*"))


def families():
    """{name of a sample: set of its labels}"""
    with open(os.path.join(SOURCE, "daemon/metrics.def"),
              encoding="utf-8") as f:
        text = f.read()
    out = {}
    for kind, labels, name in re.findall(
            r'\nMETRIC\(\w+, (\w+), \w+, "([^"]*)",\s*"(\w+)"', text):
        have = set(filter(None, labels.split(",")))
        if kind == "HISTOGRAM":
            for part in PARTS:
                out[name + part] = have | (
                    {"le"} if part == "_bucket" else set())
        else:
            out[name] = have
    check(len(out) > 50, "metrics.def is read wrongly")
    return out


def board():
    with open(BOARD, encoding="utf-8") as f:
        return json.load(f)


def rules_text():
    with open(RULES, encoding="utf-8") as f:
        return f.read()


def panels_of(b):
    for panel in b["panels"]:
        yield panel
        yield from panel.get("panels", [])


def expressions(b):
    """Every query of the board, with its variables filled in."""
    for panel in panels_of(b):
        for target in panel.get("targets", []):
            yield panel["title"], fill(target["expr"])
    for a in b["annotations"]["list"]:
        yield a["name"], fill(a["expr"])


def fill(expr):
    for name, value in VARIABLES:
        expr = expr.replace(name, value)
    check("$" not in expr, f"a variable is left: {expr}")
    return expr


def check_names(where, text):
    """Metrics and the labels they are picked by are those of metrics.def."""
    known = families()
    names = set(re.findall(r"\b(?:traind|process)_[a-z_]+", text))
    for name in names:
        check(name in known, f"{where}: metrics.def has no {name}")
    for name, picked in re.findall(r"\b((?:traind|process)_[a-z_]+)\{([^}]*)\}",
                                   text):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", picked):
            check(label in known[name] | TARGET_LABELS,
                  f"{where}: {name} has no label {label}")
    return names
