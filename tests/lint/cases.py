#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every trouble case of cases.txt is named by some test."""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)


def test_sources():
    for folder, _, names in os.walk(TESTS):
        if folder != HERE:
            for name in names:
                if re.search(r"(test|scen|[a-z]\d{3}_).*\.(c|py)$", name):
                    yield os.path.join(folder, name)


def main():
    with open(os.path.join(HERE, "cases.txt"), encoding="utf-8") as f:
        cases = dict(line.rstrip("\n").split(" ", 1) for line in f
                     if not line.startswith("#"))
    missing = set(cases)
    for path in test_sources():
        with open(path, encoding="utf-8") as f:
            text = f.read()
        missing -= {c for c in missing
                    if re.search(rf"(?<![0-9A-Za-z]){c}(?![0-9])", text,
                                 re.IGNORECASE)}
    for case in sorted(missing):
        print(f"tests/lint/cases.txt: no test names {case}, {cases[case]}")
    print(f"{len(cases)} cases, {len(missing)} without a test")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
