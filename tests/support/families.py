#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how many tests of each family ran: what ./dev test ends with.

    families.py BUILD RESULTS

A family is a folder of tests/. BUILD is a build directory, RESULTS what ctest
wrote with --output-junit. A program counts once; beside it stand the test
functions that the programs say they ran.
"""
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

FUNCTIONS = [
    re.compile(r"^\[==========\] (?:\S+: )?(\d+) test\(s\) run", re.M),
    re.compile(r"^Ran (\d+) tests? in ", re.M),
]


def folders(build):
    """name of a test -> the folder below tests/ that adds it"""
    text = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"],
        check=True, capture_output=True, text=True).stdout
    listing = json.loads(text)
    files = listing["backtraceGraph"]["files"]
    nodes = listing["backtraceGraph"]["nodes"]
    found = {}
    for test in listing["tests"]:
        at = test.get("backtrace")
        folder = "other"
        while at is not None and folder == "other":
            match = re.search(r"tests/(\w+)/[^/]+$",
                              files[nodes[at]["file"]])
            folder = match.group(1) if match else "other"
            at = nodes[at].get("parent")
        found[test["name"]] = folder
    return found


def count_functions(text):
    return sum(int(n) for f in FUNCTIONS for n in f.findall(text))


def main():
    build, results = sys.argv[1:]
    folder = folders(build)
    table = {}
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        row = table.setdefault(folder.get(case.get("name"), "other"),
                               {"run": 0, "failed": 0, "not run": 0,
                                "functions": 0})
        status = case.get("status")
        row["run" if status == "run" else
            "failed" if status == "fail" else "not run"] += 1
        row["functions"] += count_functions(case.findtext("system-out") or "")
    for name, row in sorted(table.items()):
        words = f"{row['run']:4} passed"
        for key in ("failed", "not run"):
            if row[key] > 0:
                words += f", {row[key]} {key}"
        if row["functions"] > 0:
            words += f" ({row['functions']} test functions)"
        print(f"{name:8} {words}")


if __name__ == "__main__":
    main()
