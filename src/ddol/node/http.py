"""HTTP for nodes: predictions and labels by the Open Inference Protocol, metrics, and the live page."""

from __future__ import annotations

import asyncio
import base64
import functools
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ddol.node.config import HttpConfig, is_loopback
from ddol.node.errors import NodeError, NotDurableError
from ddol.node.inference import (
    decode_feedback,
    decode_request,
    encode,
    examples_of,
    response,
    tickets,
)
from ddol.node.metrics import Latency, exposition
from ddol.node.node import Node
from ddol.node.page import PAGE
from ddol.version import __version__

_log = logging.getLogger("ddol.node")
_JSON = "application/json"
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
Answer = Callable[[Request], Awaitable[Response]]


class Rejected(Exception):  # noqa: N818
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


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
    """

    name: str
    nodes: Mapping[str, Node]
    config: HttpConfig = field(default_factory=HttpConfig)
    shares: Mapping[str, float] = field(default_factory=dict)
    export: Callable[[Node], bytes] | None = None
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


def _share_of(identifier: str | None) -> float:
    """A number from 0 to 1 that an identifier always has."""
    from zlib import crc32

    import numpy as np

    if identifier is None:
        return float(np.random.default_rng().random())
    return crc32(identifier.encode()) / 2**32


def application(served: Served) -> Starlette:
    """The server as an ASGI application."""
    guarded = functools.partial(_guarded, served)
    routes = [  # the most used first: they are looked through in this order
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
    found = [
        Route(path, guarded(answer, private), methods=[method])
        for path, answer, method, private in routes
    ]
    return Starlette(
        routes=found,
        exception_handlers={404: _no_such_place, 405: _no_such_method},
    )


# --- who may ask, and how much ---------------------------------------------------------------------


def _guarded(served: Served, answer: Callable, private: bool) -> Answer:
    """An answer behind its checks; whatever goes wrong is JSON with one sentence."""

    async def guarded(request: Request) -> Response:
        try:
            _check_place(served, request)
            if private:
                _check_token(served, request)
                _check_rate(served, request)
            found: Response = await answer(served, request)
        except Rejected as error:
            found = _error(error.status, str(error))
        except NotDurableError as error:
            found = _error(503, str(error))
        except msgspec.DecodeError as error:
            found = _error(400, f"the body cannot be read: {error}; see /openapi.json")
        except NodeError as error:
            found = _error(400, str(error))
        except Exception:
            _log.exception("%s %s failed", request.method, request.url.path)
            found = _error(500, "the server failed; its log says why")
        served.codes[found.status_code] += 1
        return found

    return guarded


def _error(status: int, sentence: str) -> Response:
    headers = {"WWW-Authenticate": 'Bearer, Basic realm="ddol"'} if status == 401 else None
    return Response(encode({"error": sentence}), status, headers, _JSON)


async def _no_such_place(request: Request, error: Exception) -> Response:
    return _error(404, f"found no {request.url.path}, expected /v2/models/NAME/infer or another")


async def _no_such_method(request: Request, error: Exception) -> Response:
    return _error(405, f"{request.url.path} does not take {request.method}")


def _check_place(served: Served, request: Request) -> None:
    """Pages of other sites, open in a browser on this machine, must not use a server without a token."""
    if served.config.token_file is not None or served.config.clients is not None:
        return
    host = request.headers.get("host", "")
    named = host if ":" in host.rpartition("]")[2] else f"{host}:80"
    if host and not _is_here(named):
        raise Rejected(403, f"found the host {host[:100]!r}, expected this machine's own name")
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("//")[2] != host:
        raise Rejected(403, "requests of other web pages are refused")


@functools.lru_cache(maxsize=256)
def _is_here(address: str) -> bool:
    return is_loopback(address)


def _check_token(served: Served, request: Request) -> None:
    file = served.config.token_file
    if file is None:
        return
    given = request.headers.get("authorization", "")
    kind, _, token = given.partition(" ")
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
    """A token is looked for in its file every five seconds."""
    found: str | None = check(file, token)
    return found


def _check_rate(served: Served, request: Request) -> None:
    most = served.config.rate
    if most is None:
        return
    who, now = request.client.host if request.client else "", time.monotonic()
    left, before = served.rates.pop(who, (most, now))
    left = min(left + (now - before) * most, max(most, 1.0))
    served.rates[who] = left - 1.0 if left >= 1.0 else left, now
    if len(served.rates) > 10_000:
        served.rates.popitem(last=False)
    if left < 1.0:
        raise Rejected(
            429, f"found more than {most:g} requests a second, expected fewer; wait a little"
        )


async def _body(served: Served, request: Request) -> bytes:
    most = served.config.most_body
    said = request.headers.get("content-length", "")
    too_large = f"found a body of more than {most:,} bytes, expected a smaller one"
    if said.isdigit() and int(said) > most:
        raise Rejected(413, too_large)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Rejected(413, too_large)
        parts.append(part)
    return b"".join(parts)


# --- what is asked ---------------------------------------------------------------------------------


async def _live(served: Served, request: Request) -> Response:
    return Response(b'{"live":true}', media_type=_JSON)


async def _ready(served: Served, request: Request) -> Response:
    if not served.ready:
        raise Rejected(503, "the server is ending")
    return Response(b'{"ready":true}', media_type=_JSON)


async def _server(served: Served, request: Request) -> Response:
    return _json({"name": served.name, "version": __version__, "extensions": ["feedback"]})


async def _model_ready(served: Served, request: Request) -> Response:
    served.node(request.path_params["name"])
    return _json({"ready": served.ready})


async def _metadata(served: Served, request: Request) -> Response:
    name = request.path_params["name"]
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


async def _infer(served: Served, request: Request) -> Response:
    begun = time.perf_counter()
    asked = decode_request(await _body(served, request))
    name = request.path_params["name"]
    served.node(name)
    name = served.chosen(name, asked.id)
    node = served.nodes[name]
    given = examples_of(asked, node.takes_arrays)
    found = node.predict_many(given, tickets(asked.id, len(given)))
    told = Response(encode(response(name, asked.id, found)), media_type=_JSON)
    served.latency.add(time.perf_counter() - begun)
    return told


async def _feedback(served: Served, request: Request) -> Response:
    told = decode_feedback(await _body(served, request))
    name = request.path_params["name"]
    served.node(name)
    by_model: dict[str, list[tuple[str, Any]]] = {}
    for each in told if isinstance(told, list) else [told]:
        asked = each.id.rpartition("/")[0] or each.id
        model = served.chosen(name, asked) if served.shares else name
        by_model.setdefault(model, []).append((each.id, each.label))
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


def _finish(done: asyncio.Future) -> None:
    if not done.done():
        done.set_result(None)


async def _model(served: Served, request: Request) -> Response:
    node = served.node(request.path_params["name"])
    if served.export is None:
        raise Rejected(404, "this server does not give its models away")
    loop = asyncio.get_running_loop()
    written = await loop.run_in_executor(None, served.export, node)
    name = f'attachment; filename="{request.path_params["name"]}.ddol"'
    headers = {"Content-Disposition": name}
    return Response(written, headers=headers, media_type="application/octet-stream")


async def _metrics(served: Served, request: Request) -> Response:
    states = {name: node.state() for name, node in served.nodes.items()}
    text = exposition(states, served.codes, served.latency)
    return Response(text, media_type="text/plain; version=0.0.4")


async def _figures(served: Served, request: Request) -> Response:
    models = {name: node.state() for name, node in served.nodes.items()}
    return _json({"name": served.name, "models": models})


async def _described(served: Served, request: Request) -> Response:
    return Response(files("ddol.node").joinpath("openapi.json").read_bytes(), media_type=_JSON)


async def _page(served: Served, request: Request) -> Response:
    return Response(PAGE, headers=_SAFE, media_type="text/html")


def _json(told: Any) -> Response:
    return Response(encode(told), media_type=_JSON)
