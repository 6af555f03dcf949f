#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document says what the daemon does: every operation is walked.

First with a job that is there, each answer held against its schema; then, if
the tests' environment has schemathesis, with what that one makes up.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from http_door import Http, HttpDaemon
from scenario import (SOURCE, blobs, check, equal, main, mlp_spec)

TYPES = {"integer": int, "string": str, "boolean": bool, "array": list,
         "object": dict, "number": (int, float)}


def fits(value, schema, doc):
    """The part of JSON Schema that the document uses."""
    if "$ref" in schema:
        return fits(value, doc["components"]["schemas"][
            schema["$ref"].rsplit("/", 1)[1]], doc)
    if "anyOf" in schema:
        return any(fits(value, s, doc) for s in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    want = TYPES.get(schema.get("type"), object)
    if not isinstance(value, want) or \
            (want is not bool and want is not object and
             isinstance(value, bool)):
        return False
    if isinstance(value, list):
        return all(fits(v, schema["items"], doc) for v in value)
    if isinstance(value, dict):
        named = schema.get("properties", {})
        return all(k in value for k in schema.get("required", ())) and \
            all(fits(v, named[k], doc) for k, v in value.items()
                if k in named)
    return True


def routes():
    """(method, pattern) of the table that makes router and document."""
    with open(os.path.join(SOURCE, "daemon/http_routes.def"),
              encoding="utf-8") as f:
        return set(re.findall(r'^(?:ASK|GIVE)\((\w+), "([^"]+)"', f.read(),
                              re.M))


def check_answer(operation, method, path, a, doc):
    says = operation["responses"]
    if a.status not in (200, 201, 202):
        check("default" in says, f"{method} {path}: {a} is not described")
        equal(a.headers["Content-Type"], "application/problem+json", path)
        check(fits(a.json, doc["components"]["schemas"]["problem"], doc),
              f"{method} {path}: {a} is no problem")
        return
    check(str(a.status) in says, f"{method} {path}: {a} is not described")
    kind = a.headers["Content-Type"].split(";")[0]
    content = says[str(a.status)]["content"]
    check(kind in content, f"{method} {path}: {kind} is not described")
    if "schema" in content[kind]:
        check(fits(a.json, content[kind]["schema"], doc),
              f"{method} {path}: {a} is not of its schema")


def every_operation_answers_as_described():
    """each operation once, on a job that is there"""
    with HttpDaemon() as d:
        h = Http(d)
        blobs(d.dir)
        spec = mlp_spec(d.dir)
        job = h.post("/v1/jobs", spec, 201).json["id"]
        h.get(f"/v1/jobs/{job}/wait?timeout=600")
        doc = h.get("/v1/openapi.json").json
        equal(doc["openapi"], "3.1.0", "its version")
        described = {(m.upper(), p) for p, ms in doc["paths"].items()
                     for m in ms}
        equal(described, routes(), "operations")
        d.ctl("token", "create")
        incidents = h.get(f"/v1/jobs/{job}/incidents").json["items"]
        ids = {"jobs": job, "incidents": incidents[0]["id"], "tokens": 1}
        refused = set()
        for method, pattern in sorted(described):
            path = pattern.replace("{id}", str(
                ids.get(pattern.split("/")[2] if "{" in pattern else "")))
            body = None
            if method == "POST":
                body = spec if path in ("/v1/jobs", "/v1/validate") else {}
            a = h.try_ask(method, path, body)
            check(a.status not in (405, 500, 501), f"{method} {path}: {a}")
            check_answer(doc["paths"][pattern][method.lower()], method, path,
                         a, doc)
            if a.status >= 300:
                refused.add((a.status, f"{method} {pattern}"))
        orders = {(409, f"POST /v1/jobs/{{id}}/{o}") for o in (
            "cancel", "checkpoint", "pause", "resume", "rollback")}
        equal(refused, orders | {(409, "PATCH /v1/jobs/{id}")},
              "what a job that is over refuses")


def nothing_made_up_breaks_it():
    """schemathesis: thousands of requests from the document"""
    program = os.path.join(os.environ.get("TRAIND_VENV", "/nonexistent"),
                           "bin/schemathesis")
    if not os.path.exists(program):
        print("   skipped: no schemathesis in the tests' environment")
        return
    with HttpDaemon() as d:
        blobs(d.dir)
        d.submit(mlp_spec(d.dir), "--wait")
        # One more token, for DELETE /v1/tokens/1 is among the requests.
        d.ctl("token", "create")
        secret = d.ctl("token", "create", "--scope", "submit").strip()
        h = Http(d)
        r = subprocess.run(
            [program, "run", f"{h.url}v1/openapi.json", "--checks", "all",
             # JSON Schema calls 1.0 an integer; we do not.
             "--exclude-checks", "positive_data_acceptance",
             "--phases", "coverage,fuzzing", "--max-examples", "20",
             "--seed", "1", "--generation-database", "none",
             "-H", f"Authorization: Bearer {secret}",
             # They wait, by design.
             "--exclude-path", "/v1/jobs/{id}/wait",
             "--exclude-path", "/v1/events",
             # What a spec must be is more than a schema says.
             "--exclude-path", "/v1/jobs",
             "--exclude-path-regex", "/v1/tokens.*"],
            capture_output=True, text=True, check=False, timeout=500,
            cwd=d.dir)
        check(r.returncode == 0, r.stdout[-6000:] + r.stderr[-2000:])
        h.get("/v1/jobs")


main(every_operation_answers_as_described, nothing_made_up_breaks_it)
