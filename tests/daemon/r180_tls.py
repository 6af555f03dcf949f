#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP beyond loopback: only with a certificate, and then really with it."""
import http.client
import os
import shutil
import ssl
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from http_door import HttpDaemon
from scenario import check, equal, main

CONFIG = 78  # exit code of a configuration that is none


def make_pair(folder, name):
    key, cert = (os.path.join(folder, f"{name}.{e}") for e in ("key", "pem"))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days",
         "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out",
         cert], check=True, capture_output=True)
    return cert, key


def refused(http, *words):
    """The daemon does not start, and says why."""
    d = HttpDaemon(http=http)
    with open(d.config, encoding="utf-8") as f:
        text = f.read()
    with open(d.config, "w", encoding="utf-8") as f:
        # What is given here comes instead of the usual.
        f.write(text.replace("listen = 127.0.0.1:0\n", "", 1)
                if "listen" in http else text)
    r = subprocess.run(d.command(), capture_output=True, text=True,
                       timeout=60, check=False, env=d.env)
    shutil.rmtree(d.dir)
    equal(r.returncode, CONFIG, f"{http}: {r.stderr}")
    for word in words:
        check(word in r.stderr, f"{http}: {word} is not in {r.stderr}")


def no_listening_beyond_loopback_without_it():
    """0.0.0.0, half a pair, files that are none: exit 78 and a sentence"""
    refused("listen = 0.0.0.0:0\n", "http.tls_cert", "other machines")
    refused("listen = [::]:0\n", "http.tls_cert")
    refused("listen = here\n", "ADDRESS:PORT")
    refused("listen = example.org:80\n", "http.listen")
    refused("tls_cert = /etc/hostname\n", "come together")
    refused("tls_cert = /nonexistent\ntls_key = /nonexistent\n",
            "/nonexistent", "tls_cert")
    refused("tls_cert = /etc/hostname\ntls_key = /etc/hostname\n", "PEM")


def it_is_spoken_with_the_right_pair():
    """the answer comes over TLS, and nothing comes without"""
    with HttpDaemon() as d:
        cert, key = make_pair(d.dir, "a")
        _, other = make_pair(d.dir, "b")
        d.stop()
        with open(d.config, "a", encoding="utf-8") as f:
            f.write(f"tls_cert = {cert}\ntls_key = {key}\n")
        d.start()
        url = d.json("ping")["http"]
        check(url.startswith("https://"), url)
        port = int(url.rsplit(":", 1)[1].strip("/"))
        secret = d.ctl("token", "create").strip()
        context = ssl.create_default_context(cafile=cert)
        c = http.client.HTTPSConnection("localhost", port, context=context)
        c.request("GET", "/v1/whoami",
                  headers={"Authorization": f"Bearer {secret}"})
        equal(c.getresponse().status, 200, "over TLS")
        c.close()
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            c.request("GET", "/livez")
            status = c.getresponse().status
        except (OSError, http.client.HTTPException):
            status = 0
        equal(status, 0, "in clear")
        d.stop()
        refused(f"tls_cert = {cert}\ntls_key = {other}\n", "pair")
        d.start()


main(no_listening_beyond_loopback_without_it, it_is_spoken_with_the_right_pair)
