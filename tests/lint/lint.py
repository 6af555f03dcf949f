#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that a script can check: see README, "Rules".

Every finding is one line "file:line: rule: sentence"; exit 1 if there is any.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

FOLDERS = ["proto", "kernels", "engine", "daemon", "ctl", "tests"]
# Who may include whom: a folder may include itself and these.
MAY_INCLUDE = {
    "proto": [],
    "kernels": ["proto"],
    "engine": ["proto", "kernels"],
    "daemon": ["proto"],
    "ctl": ["proto"],
    "tests": ["proto", "kernels", "engine", "daemon", "ctl"],
}
# The engine knows two structs of proto at its ends, and its worker the wire.
ENGINE_PROTO = {"err.h", "dtype.h", "spec.h", "event.h"}
WORKER_ONLY_PROTO = {"frame.h", "codec.h", "message.h", "view.h"}
# A kept incident holds its event as the file of events does.
ENGINE_PROTO_AT = {("engine/diagnose/incident_record.h", "codec.h")}
MAX_C, MAX_H, MAX_LINE = 1000, 300, 100
EXPLAIN_C = 600


def sources():
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *FOLDERS],
        check=True, capture_output=True, text=True).stdout.split()
    return [f for f in out if re.search(r"\.(c|h|cu|cuh|def)$", f)
            and os.path.exists(f)]


def check_text(path, found):
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    n = len(lines) - 1
    if "SPDX-License-Identifier: Apache-2.0" not in lines[0]:
        found.append(f"{path}:1: spdx: the first line names the licence")
    if path.endswith(".c") and n > MAX_C and not path.startswith("tests/"):
        found.append(f"{path}:{n}: size: more than {MAX_C} lines")
    if path.endswith(".c") and n > EXPLAIN_C and "lines:" not in \
            "\n".join(lines[:40]):
        found.append(f"{path}:{n}: size: more than {EXPLAIN_C} lines, and no "
                     "'lines:' at the top says why")
    if path.endswith(".h") and n > MAX_H:
        found.append(f"{path}:{n}: size: more than {MAX_H} lines")
    for i, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            found.append(f"{path}:{i}: width: {len(line)} columns")
        if "\t" in line:
            found.append(f"{path}:{i}: tab: four spaces, please")
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            found.append(f"{path}:{i}: todo: a ticket, not a note")
    if path.endswith(".h") and not path.startswith("tests/"):
        check_header_comment(path, lines, found)


def check_header_comment(path, lines, found):
    if len(lines) < 3 or not lines[1].startswith("/*"):
        found.append(f"{path}:2: header: begins with a comment that says what "
                     "the module owns")


def check_includes(path, found):
    top = path.split("/")[0]
    with open(path, encoding="utf-8") as f:
        for i, line in enumerate(f, 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            target = m.group(1)
            folder = target.split("/")[0]
            if folder not in FOLDERS:
                found.append(f"{path}:{i}: include: \"{target}\" is not a "
                             "full path from the top")
            elif folder != top and folder not in MAY_INCLUDE[top]:
                found.append(f"{path}:{i}: include: {top}/ may not include "
                             f"{folder}/")
            elif top == "engine" and folder == "proto":
                name = target.split("/")[1]
                worker = os.path.basename(path).startswith("worker")
                if name not in ENGINE_PROTO and not (
                        worker and name in WORKER_ONLY_PROTO) and (
                        path, name) not in ENGINE_PROTO_AT:
                    found.append(f"{path}:{i}: include: the engine knows "
                                 f"spec and event of proto/, not {name}")


def check_headers_alone(files, found):
    gen = os.environ.get("TRAIND_GENERATED", "")
    for h in files:
        if not h.endswith(".h"):
            continue
        cmd = ["gcc", "-std=gnu11", "-fopenmp", "-D_GNU_SOURCE", "-I.", "-Wall", "-Wextra",
               "-Wno-unused-function", "-fsyntax-only", "-x", "c", h]
        if gen:
            cmd.insert(3, "-I" + gen)
        r = subprocess.run(cmd, capture_output=True, text=True)
        if r.returncode or r.stderr:
            first = (r.stderr.split("\n") or [""])[0]
            found.append(f"{h}:1: alone: does not compile alone: {first}")


def symbol_is_named_after(symbol, stem, folder):
    prefixes = {stem, stem.split("_")[0], folder}
    return symbol == "main" or any(
        symbol == p or symbol.startswith(p + "_") for p in prefixes)


def check_symbols(build, found):
    for root, _, names in os.walk(build):
        for name in names:
            path = os.path.join(root, name)
            m = re.search(
                r"CMakeFiles/traind[^/]*\.dir/(.*)\.c\.o$", path)
            if not m or "/tests/" in path:
                continue
            stem = os.path.basename(m.group(1))
            folder = os.path.basename(os.path.dirname(m.group(1))) or \
                os.path.basename(path.split("/CMakeFiles/")[0])
            out = subprocess.run(["nm", "-g", "--defined-only", path],
                                 capture_output=True, text=True).stdout
            for line in out.split("\n"):
                part = line.split()
                if len(part) != 3 or part[1] not in "TDBRVWi":
                    continue
                symbol = part[2].split(".")[0]
                if symbol.startswith("__"):
                    continue
                if not symbol_is_named_after(symbol, stem, folder):
                    found.append(f"{m.group(1)}.c:1: symbol: {symbol} does "
                                 f"not begin with {stem}_ or "
                                 f"{stem.split('_')[0]}_")


def check_format(files, found):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        found.append("dev:1: format: clang-format is not installed")
        return
    version = subprocess.run([tool, "--version"], capture_output=True,
                             text=True).stdout
    if " 14." not in version:
        print(f"lint: format not checked: needs clang-format 14, have "
              f"{version.strip()}")
        return
    code = [f for f in files if f.endswith((".c", ".h"))]
    r = subprocess.run([tool, "--dry-run", "-Werror", *code],
                       capture_output=True, text=True)
    for line in r.stderr.split("\n"):
        m = re.match(r"([^:]+):(\d+):\d+: error", line)
        if m:
            found.append(f"{m.group(1)}:{m.group(2)}: format: clang-format "
                         "would change it")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", help="build directory for symbol names")
    parser.add_argument("--no-format", action="store_true")
    args = parser.parse_args()
    found = []
    files = sources()
    for path in files:
        check_text(path, found)
        check_includes(path, found)
    check_headers_alone(files, found)
    if args.build:
        check_symbols(args.build, found)
    if not args.no_format:
        check_format(files, found)
    for line in found:
        print(line)
    print(f"lint: {len(files)} files, {len(found)} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
