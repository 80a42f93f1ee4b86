"""The server of the page: on this machine only, for readers with the token.

A page that is open in the same browser could ask this server, too, or pretend to be it by its name (DNS
rebinding). So every request needs the token of the printed address, must name a host of this machine,
and must not come from another site.
"""

from __future__ import annotations

import hmac
import json
import math
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ddol.algorithm import Algorithm
from ddol.engines.feed import Feed
from ddol.engines.news import heard_by
from ddol.engines.setup import Setup
from ddol.lab.live.page import parts, whole_page
from ddol.lab.live.watched import WatchedRun
from ddol.streams.stream import described
from ddol.version import __version__

HOSTS = ("127.0.0.1", "localhost", "[::1]")
_BETWEEN = 0.5
_QUIET = 10.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class LiveServer:
    """Serves a run while it goes on.

    Parameters
    ----------
    watched : WatchedRun
    port : int
        0 for any that is free.

    Examples
    --------
    >>> import ddol, urllib.request
    >>> with LiveServer(WatchedRun(ddol.dogd())) as server:
    ...     text = urllib.request.urlopen(server.address).read().decode()
    >>> "Nothing has been learned yet" in text
    True
    """

    def __init__(self, watched: WatchedRun, port: int = 0) -> None:
        self.watched = watched
        self.token = secrets.token_urlsafe(16)
        try:
            self._server = _Server((HOSTS[0], port), _Requests)
        except OSError as error:
            raise OSError(
                f"--live: port {port} cannot be used ({error.strerror}); give another"
            ) from None
        self._server.live = self
        self.port = int(self._server.server_address[1])
        self._drawn: tuple[int, dict[str, str]] = (-1, {})
        self._drawing = threading.Lock()
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="ddol-live", daemon=True
        )

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOSTS[0]}:{self.port}/?token={self.token}"

    def __enter__(self) -> LiveServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.watched.ended:
            self.watched.end("the run has ended" if error[0] is None else "the run was stopped")
        # Open pages get the end of the run before the process exits.
        self._server.wait_for_readers(seconds=2.0)
        self._server.shutdown()
        self._server.server_close()

    def parts(self) -> dict[str, str]:
        """The page's parts, drawn once for all who look."""
        with self._drawing:
            if self._drawn[0] != self.watched.version:
                version = self.watched.version
                self._drawn = version, parts(self.watched)
            return self._drawn[1]


@contextmanager
def served(
    algorithm: Algorithm,
    feed: Feed,
    setup: Setup,
    port: int = 0,
    data: str | None = None,
    sites: tuple[str, ...] = (),
) -> Iterator[WatchedRun]:
    """Serve a run that follows a feed; its address is printed on standard error."""
    name = described(feed.streams) if data is None else data
    width = max(setup.n_features or 0, feed.n_features)
    engine, here = setup.engine_name, setup.can.in_process
    watched = WatchedRun(algorithm, width, name, engine, feed, here, sites)
    with LiveServer(watched, port) as server, heard_by(watched.note):
        print(f"live: {server.address}", file=sys.stderr, flush=True)
        yield watched


class _Server(ThreadingHTTPServer):
    live: LiveServer
    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.readers: set[int] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away is no error."""

    def wait_for_readers(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.readers and time.monotonic() < until:
            time.sleep(0.01)


class _Requests(BaseHTTPRequestHandler):
    server: _Server
    server_version = "ddol"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Serve the page, its news or its figures."""
        url = urlsplit(self.path)
        refused = self._refused(url.query)
        if refused is not None:
            self._send(*refused)
        elif url.path == "/":
            self._send_page()
        elif url.path == "/events":
            self._send_events()
        elif url.path == "/metrics":
            self._send(
                200, metrics(self.server.live.watched), "text/plain; version=0.0.4; charset=utf-8"
            )
        else:
            self._send(404, "there is /, /events and /metrics\n")

    def parse_request(self) -> bool:
        """Refuse everything but GET."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            self._send(405, "GET only\n", more={"Allow": "GET"})
            return False
        return True

    def _refused(self, query: str) -> tuple[int, str] | None:
        """Status and reason, unless it comes from this machine, with the token, from no other site."""
        host = self.headers.get("Host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name.lower() not in HOSTS:
            return 421, "this server answers to localhost only\n"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return 403, "not from another site\n"
        origin = self.headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host}".lower():
            return 403, "not from another site\n"
        given = parse_qs(query).get("token", [""])[0]
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest((given or bearer).encode(), self.server.live.token.encode()):
            return 403, "open the address that was printed, with its token\n"
        return None

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(12)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        text = whole_page(self.server.live.watched, nonce)
        self._send(200, text, "text/html; charset=utf-8", {"Content-Security-Policy": policy})

    def _send_events(self) -> None:
        """Parts of the page that have changed, about twice a second, until the end."""
        self._begin(200, "text/event-stream; charset=utf-8")
        self.end_headers()
        self.server.readers.add(id(self))
        try:
            shown: dict[str, str] = {}
            watched, version = self.server.live.watched, -1
            while True:
                ended = watched.ended
                if watched.version != version:
                    version = watched.version
                    now = self.server.live.parts()
                    changed = {name: html for name, html in now.items() if shown.get(name) != html}
                    shown = now
                    self._write(f"data: {json.dumps(changed)}\n\n")
                if ended:
                    self._write("event: end\ndata: {}\n\n")
                    return
                if not watched.wait(version, _QUIET):
                    self._write(": still here\n\n")
                elif not watched.ended:
                    time.sleep(_BETWEEN)
        except OSError:
            pass  # the browser was closed
        finally:
            self.server.readers.discard(id(self))
            self.close_connection = True

    def _begin(self, status: int, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **(more or {}), "Content-Type": kind}.items():
            self.send_header(name, value)

    def _send(
        self,
        status: int,
        text: str,
        kind: str = "text/plain; charset=utf-8",
        more: dict[str, str] | None = None,
    ) -> None:
        body = text.encode()
        self._begin(status, kind, {**(more or {}), "Content-Length": str(len(body))})
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode())
        self.wfile.flush()

    def log_message(self, *args: Any) -> None:
        """The terminal belongs to the run."""

    def setup(self) -> None:
        """Send small pieces at once."""
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


_MOST_AGENTS = 1024


def metrics(watched: WatchedRun) -> str:
    """All figures, as ``/metrics`` serves them.

    Examples
    --------
    >>> import ddol
    >>> print(metrics(WatchedRun(ddol.dogd(), data="points.csv")))  # doctest: +ELLIPSIS
    # HELP ddol_run_info What is run.
    # TYPE ddol_run_info gauge
    ddol_run_info{algorithm="dogd",data="points.csv",version="..."} 1
    <BLANKLINE>
    """
    about = {"algorithm": watched.algorithm.name, "data": watched.data, "version": __version__}
    lines = [*_metric("run_info", "gauge", "What is run.", [(about, 1)])]
    last, trace = watched.last, watched.trace()
    if last is None or trace is None:
        return "\n".join(lines) + "\n"
    single = [
        ("rounds_total", "counter", "Rounds played.", last.rounds),
        ("messages_total", "counter", "Messages between agents.", last.messages),
        ("sent_bytes_total", "counter", "Bytes between agents.", last.bytes_sent),
        ("run_seconds", "gauge", "Time since the beginning.", last.seconds),
        ("consensus_distance", "gauge", "Distance from the mean weights.", last.consensus),
        ("ended", "gauge", "Whether the run has ended.", int(watched.ended)),
    ]
    if watched.share is not None:
        single.append(("done_ratio", "gauge", "Share of the data that was read.", watched.share))
    for name, kind, words, value in single:
        lines += _metric(name, kind, words, [({}, value)])
    for name, words, values in (
        ("examples_total", "Examples seen.", last.agent_examples),
        ("mistakes_total", "Wrong predictions.", last.mistakes),
        ("loss_total", "Objective, added up.", last.loss),
    ):
        each = [({"agent": str(i)}, value) for i, value in enumerate(values[:_MOST_AGENTS])]
        lines += _metric(name, "counter", words, each)
    bounds = [({"theorem": name}, facts["value"]) for name, facts in trace.bounds.items()]
    lines += _metric("mistakes_bound", "gauge", "Mistakes that a theorem allows.", bounds)
    made = trace.binding_certificate
    if made is not None:
        allowed: list = [({}, made.total)]
        lines += _metric("regret_bound", "gauge", "Regret that the certificate allows.", allowed)
    return "\n".join(lines) + "\n"


def _metric(name: str, kind: str, words: str, values: list) -> Iterator[str]:
    if values:
        yield f"# HELP ddol_{name} {words}"
        yield f"# TYPE ddol_{name} {kind}"
    for labels, value in values:
        facts = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"ddol_{name}{f'{{{facts}}}' if facts else ''} {_number(value)}"


def _number(value: float) -> str:
    """As the format has it.

    Examples
    --------
    >>> _number(3), _number(0.1), _number(float("nan")), _number(float("-inf"))
    ('3', '0.1', 'NaN', '-Inf')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
