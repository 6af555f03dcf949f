# SPDX-License-Identifier: Apache-2.0
"""A daemon's HTTP door, by Python's own client: TCP with a token, or the Unix
socket."""
import http.client
import json
import socket

from scenario import DEADLINE_S, Daemon, check


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class HttpDaemon(Daemon):
    """A private traind with both doors open."""

    def __init__(self, config="", http=""):
        super().__init__(config)
        with open(self.config, "a", encoding="utf-8") as f:
            f.write(f"\n[http]\nlisten = 127.0.0.1:0\n"
                    f"socket = {self.dir}/http.sock\n{http}")


class Http:
    """One door of a daemon. token None: the Unix socket."""

    def __init__(self, daemon, token=None):
        self.daemon, self.token = daemon, token
        pong = daemon.json("ping")
        self.url, self.socket = pong["http"], pong["http_socket"]
        self.port = int(self.url.rsplit(":", 1)[1].strip("/")) \
            if self.url else 0

    def connection(self):
        if self.token is None:
            return UnixConnection(self.socket)
        return http.client.HTTPConnection("127.0.0.1", self.port,
                                          timeout=DEADLINE_S)

    def headers(self, more=None):
        out = dict(more or {})
        if self.token:
            out["Authorization"] = f"Bearer {self.token}"
        return out

    def try_ask(self, method, path, body=None, headers=None):
        c = self.connection()
        try:
            more = self.headers(headers)
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            if body is not None:
                more.setdefault("Content-Type", "application/json")
            c.request(method, path, body, more)
            return Answer(c.getresponse())
        finally:
            c.close()

    def ask(self, method, path, body=None, status=200, headers=None):
        a = self.try_ask(method, path, body, headers)
        check(status in (None, a.status),
              f"{method} {path}: {a}, want {status}")
        return a

    def get(self, path, status=200, **headers):
        return self.ask("GET", path, None, status,
                        {k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path, body=None, status=200, **headers):
        return self.ask("POST", path, body, status,
                        {k.replace("_", "-"): v for k, v in headers.items()})

    def stream(self, path="/v1/events", **headers):
        """Server-sent events as (name, id, data), for ever."""
        c = self.connection()
        c.request("GET", path, headers=self.headers(
            {"Accept": "text/event-stream",
             **{k.replace("_", "-"): v for k, v in headers.items()}}))
        r = c.getresponse()
        check(r.status == 200, f"stream: {r.status}")
        return read_stream(c, r)


def read_stream(connection, response):
    name, number, data = "", "", ""
    try:
        while True:
            line = response.readline()
            check(line, "the stream ended")
            line = line.decode().rstrip("\n")
            if line == "":
                if data:
                    yield name, number, json.loads(data)
                name, number, data = "", "", ""
            elif line.startswith("event: "):
                name = line[7:]
            elif line.startswith("id: "):
                number = line[4:]
            elif line.startswith("data: "):
                data = line[6:]
    finally:
        connection.close()
