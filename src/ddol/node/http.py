"""HTTP for nodes: predictions and labels by the Open Inference Protocol, metrics, and the live page."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from zlib import crc32

import numpy as np

from ddol.node.asgi import (
    HTML,
    TEXT,
    Application,
    HttpReply,
    HttpRequest,
    Rejected,
    encode,
    guarded,
)
from ddol.node.config import HttpConfig, is_loopback
from ddol.node.errors import NodeError
from ddol.node.inference import (
    Feedback,
    chosen_outputs,
    decode_binary,
    decode_feedback,
    decode_request,
    examples_of,
    response,
    tickets,
)
from ddol.node.metrics import Latency, exposition
from ddol.node.node import Node
from ddol.node.page import PAGE
from ddol.node.waiting import UNKNOWN, WAITING
from ddol.streams.errors import DataError
from ddol.version import __version__

_log = logging.getLogger("ddol.node")

_SAFE = (
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
)


@dataclass
class Served:
    """The models that a server has, and what it counts.

    Parameters
    ----------
    name : str
    nodes : dict of Node
        By the name of their models.
    config : HttpConfig
    shares : dict
        Share of the requests to the first model that others answer.
    export : function of a Node that returns the bytes of a model file
    connections : function that returns how many connections are open
    """

    name: str
    nodes: Mapping[str, Node]
    config: HttpConfig = field(default_factory=HttpConfig)
    shares: Mapping[str, float] = field(default_factory=dict)
    export: Callable[[Node], bytes] | None = None
    connections: Callable[[], int] = int
    ready: bool = True
    codes: Counter = field(default_factory=Counter)
    latency: Latency = field(default_factory=Latency)
    rates: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """Of each address: requests that it may make now, and when that was."""

    def node(self, name: str) -> Node:
        """The node of a model."""
        found = self.nodes.get(name)
        if found is None:
            known = ", ".join(self.nodes)
            raise Rejected(404, f"found no model {name!r}, expected {known}")
        return found

    def chosen(self, name: str, identifier: str | None) -> str:
        """The model that answers: others have shares of the first one's requests, by their identifiers."""
        if not self.shares or name != next(iter(self.nodes)):
            return name
        place = _share_of(identifier)
        for other, share in self.shares.items():
            if place < share:
                return other
            place -= share
        return name

    def asked(self, name: str, identifier: str) -> str:
        """The model that has made a prediction which was asked of the first one."""
        if not self.shares or name != next(iter(self.nodes)):
            return name
        known = {each: self.nodes[each].status(identifier) for each in (name, *self.shares)}
        for model, status in known.items():
            if status == WAITING:
                return model
        return next((model for model, status in known.items() if status != UNKNOWN), name)


def _share_of(identifier: str | None) -> float:
    """A number from 0 to 1 that an identifier always has."""
    if identifier is None:
        return float(np.random.default_rng().random())
    return crc32(identifier.encode()) / 2**32


def application(served: Served) -> Application:
    """The server as an ASGI application."""
    routes = [
        ("/v2/models/{name}/infer", _infer, "POST", True),
        ("/v2/models/{name}/feedback", _feedback, "POST", True),
        ("/v2/health/live", _live, "GET", False),
        ("/v2/health/ready", _ready, "GET", False),
        ("/v2", _server, "GET", True),
        ("/v2/models/{name}", _metadata, "GET", True),
        ("/v2/models/{name}/ready", _model_ready, "GET", True),
        ("/v2/models/{name}/model", _model, "GET", True),
        ("/openapi.json", _described, "GET", False),
        ("/metrics", _metrics, "GET", True),
        ("/live.json", _figures, "GET", True),
        ("/", _page, "GET", True),
    ]
    checks = {True: _check_client, False: _check_place}
    return Application(
        (path, guarded(checks[private], served.codes, served, answer), method)
        for path, answer, method, private in routes
    )


# --- who may ask, and how much ---------------------------------------------------------------------


def _check_client(served: Served, asked: HttpRequest) -> None:
    _check_place(served, asked)
    _check_token(served, asked)
    _check_rate(served, asked)


def _check_place(served: Served, asked: HttpRequest) -> None:
    """Pages of other sites, open in a browser on this machine, must not use a server without a token."""
    if served.connections() > served.config.connections:
        most = served.config.connections
        raise Rejected(503, f"found more than {most:,} connections; try again later", close=True)
    if served.config.token_file is not None or served.config.clients is not None:
        return
    host = asked.header(b"host") or ""
    if host and not _is_here(host):
        raise Rejected(403, f"found the host {host[:100]!r}, expected this machine's own name")
    origin = asked.header(b"origin")
    if origin is not None and origin.partition("//")[2] != host:
        raise Rejected(403, "requests of other web pages are refused")


@functools.lru_cache(maxsize=256)
def _is_here(host: str) -> bool:
    try:
        return is_loopback(host if ":" in host.rpartition("]")[2] else f"{host}:80")
    except NodeError:
        return False


def _check_token(served: Served, asked: HttpRequest) -> None:
    file = served.config.token_file
    if file is None:
        return
    kind, _, token = (asked.header(b"authorization") or "").partition(" ")
    if kind.lower() == "basic":  # what browsers ask for
        try:
            token = base64.b64decode(token).decode().partition(":")[2]
        except ValueError:
            token = ""
    if not token or _client(file, token) is None:
        raise Rejected(401, "found no token that is known, expected Authorization: Bearer TOKEN")


def _client(file: str, token: str) -> str | None:
    from ddol.node.identity.tokens import check_token

    return _remembered(check_token, file, token, int(time.monotonic()) // 5)


@functools.lru_cache(maxsize=1024)
def _remembered(check: Callable, file: str, token: str, now: int) -> str | None:
    """Look a token up in its file every five seconds; a file that cannot be read lets no client in."""
    try:
        found: str | None = check(file, token)
    except DataError as error:
        _tell_of_tokens(str(error), now)
        return None
    return found


@functools.lru_cache(maxsize=1)
def _tell_of_tokens(line: str, now: int) -> None:
    """Log what is wrong with a file of tokens, once in five seconds."""
    _log.error("%s; no client is let in", line)


def _check_rate(served: Served, asked: HttpRequest) -> None:
    most = served.config.rate
    if most is None:
        return
    who, now = asked.address, time.monotonic()
    burst = max(most, 1.0)
    left, before = served.rates.pop(who, (burst, now))
    left = min(left + (now - before) * most, burst)
    served.rates[who] = left - 1.0 if left >= 1.0 else left, now
    if len(served.rates) > 10_000:
        served.rates.popitem(last=False)
    if left < 1.0:
        raise Rejected(
            429, f"found more than {most:g} requests a second, expected fewer; wait a little"
        )


# --- what is asked ---------------------------------------------------------------------------------


async def _live(served: Served, asked: HttpRequest) -> HttpReply:
    return HttpReply(b'{"live":true}')


async def _ready(served: Served, asked: HttpRequest) -> HttpReply:
    if not served.ready:
        raise Rejected(503, "the server is ending")
    return HttpReply(b'{"ready":true}')


async def _server(served: Served, asked: HttpRequest) -> HttpReply:
    return _json(
        {
            "name": served.name,
            "version": __version__,
            "extensions": ["binary_tensor_data", "feedback"],
        }
    )


async def _model_ready(served: Served, asked: HttpRequest) -> HttpReply:
    served.node(asked.name)
    return _json({"ready": served.ready})


async def _metadata(served: Served, asked: HttpRequest) -> HttpReply:
    name = asked.name
    state = served.node(name).state()
    told = {
        "name": name,
        "versions": [__version__],
        "platform": "ddol",
        "inputs": [],
        "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [-1]},
            {"name": "probability", "datatype": "FP64", "shape": [-1, len(state["classes"])]},
        ],
    }
    return _json({**state, **told, "node": served.name})


async def _infer(served: Served, asked: HttpRequest) -> HttpReply:
    begun = time.perf_counter()
    body = await asked.body(served.config.most_body)
    header = asked.header(b"inference-header-content-length")
    told = decode_request(body) if header is None else decode_binary(body, header)
    name = asked.name
    served.node(name)
    name = served.chosen(name, told.id)
    node = served.nodes[name]
    given = examples_of(told, node.takes_arrays)
    found = node.predict_many(given, tickets(told.id, len(given)))
    reply = HttpReply(encode(chosen_outputs(told, response(name, told.id, found))))
    served.latency.add(time.perf_counter() - begun)
    return reply


async def _feedback(served: Served, asked: HttpRequest) -> HttpReply:
    told = decode_feedback(await asked.body(served.config.most_body))
    name = asked.name
    served.node(name)
    by_model: dict[str, list[tuple[str, Any]]] = {}
    for each in [told] if isinstance(told, Feedback) else told:
        by_model.setdefault(served.asked(name, each.id), []).append((each.id, each.label))
    for model, answers in by_model.items():
        served.nodes[model].check_answers(answers)
    total: Counter = Counter({"accepted": 0, "duplicate": 0, "unknown": 0, "expired": 0})
    for model, answers in by_model.items():
        found, place = served.nodes[model].answer_many(answers)
        await _flushed(served.nodes[model], place)
        total.update(found)
    return _json(dict(total))


async def _flushed(node: Node, place: int) -> None:
    """Return when the answers are on the disk; other requests go on meanwhile."""
    journal = node.journal
    if journal is None or journal.every is None or journal.flushed >= place:
        return
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    journal.when_flushed(place, lambda: loop.call_soon_threadsafe(_finish, done))
    await done
    journal.check_flushed(place)


def _finish(done: asyncio.Future) -> None:
    if not done.done():
        done.set_result(None)


async def _model(served: Served, asked: HttpRequest) -> HttpReply:
    node = served.node(asked.name)
    if served.export is None:
        raise Rejected(404, "this server does not give its models away")
    loop = asyncio.get_running_loop()
    written = await loop.run_in_executor(None, served.export, node)
    name = f'attachment; filename="{asked.name}.ddol"'
    headers = (("content-disposition", name),)
    return HttpReply(written, 200, "application/octet-stream", headers)


async def _metrics(served: Served, asked: HttpRequest) -> HttpReply:
    states = {name: node.state() for name, node in served.nodes.items()}
    return HttpReply(exposition(states, served.codes, served.latency).encode(), 200, TEXT)


async def _figures(served: Served, asked: HttpRequest) -> HttpReply:
    models = {name: node.state() for name, node in served.nodes.items()}
    return _json({"name": served.name, "models": models})


async def _described(served: Served, asked: HttpRequest) -> HttpReply:
    return HttpReply(files("ddol.node").joinpath("openapi.json").read_bytes())


async def _page(served: Served, asked: HttpRequest) -> HttpReply:
    return HttpReply(PAGE.encode(), 200, HTML, _SAFE)


def _json(told: Any) -> HttpReply:
    return HttpReply(encode(told))
