# SPDX-License-Identifier: Apache-2.0
"""A strict reader of what Prometheus scrapes, in both formats."""
import re
import shutil
import subprocess

from scenario import check, equal

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(,|$)')
PARTS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",),
         "info": ("_info",), "gauge": ("",)}


def read_labels(text):
    out, at = {}, 0
    while at < len(text):
        m = LABEL.match(text, at)
        check(m, f"labels: {text!r} at {at}")
        check(m[1] not in out, f"label {m[1]} twice: {text!r}")
        out[m[1]] = re.sub(r"\\(.)", lambda e: {"n": "\n"}.get(e[1], e[1]),
                           m[2])
        at = m.end()
    return out


def read_number(text):
    check(re.fullmatch(r"[+-]Inf|-?\d+(\.\d+)?(e[+-]\d+)?", text),
          f"no number of the formats: {text!r}")
    return float(text)


def bound(labels):
    return float(labels["le"].replace("+Inf", "inf"))


def check_histogram(name, rows):
    """Buckets ascend, +Inf is the count; per set of other labels."""
    groups = {}
    for part, labels, value in rows:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        groups.setdefault(key, []).append((part, labels, value))
    for key, group in groups.items():
        buckets = [(bound(labels), value) for part, labels, value in group
                   if part == "_bucket"]
        rest = {part: value for part, _, value in group if part != "_bucket"}
        what = f"{name}{dict(key)}"
        equal(buckets, sorted(buckets), f"{what}: ascends")
        equal(len({le for le, _ in buckets}), len(buckets), f"{what}: once")
        equal(buckets[-1], (float("inf"), rest["_count"]), f"{what}: count")
        check("_sum" in rest, f"{what}: sum")


class Scrape:
    """samples: {(name, (label, value), ...): number}; types: {family: type}"""

    def __init__(self, text, openmetrics=False):
        self.samples, self.types, self.units = {}, {}, {}
        self.openmetrics = openmetrics
        check(text.endswith("\n"), "the last line ends")
        lines = text[:-1].split("\n")
        if openmetrics:
            equal(lines.pop(), "# EOF", "the last line")
        self.family, self.helped, self.rows = None, set(), []
        for line in lines:
            self.read(line)
        self.close()

    def close(self):
        if self.family is None:
            return
        check(self.rows, f"{self.family} has no samples")
        if self.types[self.family] == "histogram":
            check_histogram(self.family, self.rows)
        self.rows = []

    def read(self, line):
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            self.read_header(word, name, rest)
            return
        m = SAMPLE.fullmatch(line)
        check(m, f"no sample: {line!r}")
        labels = read_labels(m[2] or "")
        part = self.part_of(m[1])
        key = (m[1], *sorted(labels.items()))
        check(key not in self.samples, f"twice: {line!r}")
        self.samples[key] = read_number(m[3])
        self.rows.append((part, labels, self.samples[key]))
        if self.types[self.family] == "counter":
            check(self.samples[key] >= 0, f"a counter below 0: {line!r}")

    def read_header(self, word, name, rest):
        if word == "HELP":
            check(name not in self.helped, f"{name}: two places")
            self.helped.add(name)
            check(rest.endswith("."), f"{name}: help is a sentence")
        elif word == "TYPE":
            check(name in self.helped and name not in self.types,
                  f"{name}: HELP, then TYPE, once")
            self.close()
            self.family, self.types[name] = name, rest
        else:
            check(word == "UNIT" and self.openmetrics, f"# {word}")
            equal(name, self.family, "unit of")
            check(name.endswith("_" + rest), f"{name}: unit {rest}")
            self.units[name] = rest

    def part_of(self, name):
        kind = self.types.get(self.family)
        check(kind in PARTS, f"{name}: of no family, or of type {kind}")
        parts = PARTS[kind] if self.openmetrics or kind == "histogram" \
            else ("",)
        for part in parts:
            if name == self.family + part:
                return part
        raise AssertionError(f"{name} among samples of {self.family}")

    def get(self, name, **labels):
        """The number; None where there is none."""
        return self.samples.get((name, *sorted(labels.items())))

    def of(self, name):
        """{label values: number} of a family's samples."""
        out = {tuple(v for _, v in key[1:]): n
               for key, n in self.samples.items() if key[0] == name}
        return out

    def with_label(self, label):
        return sorted({key[0] for key in self.samples
                       if any(k == label for k, _ in key[1:])})


def promtool(*args, text=None):
    """What Prometheus itself thinks; its words."""
    tool = shutil.which("promtool")
    check(tool, "promtool is missing (Debian: prometheus)")
    r = subprocess.run([tool, *args], input=text, capture_output=True,
                       encoding="utf-8", check=False)
    equal((r.returncode, r.stdout + r.stderr if text is not None else ""),
          (0, ""), f"promtool {' '.join(args)}\n{r.stdout}{r.stderr}")
    return r.stdout
