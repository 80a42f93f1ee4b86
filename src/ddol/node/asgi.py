"""Requests and replies of a node's server, and the ASGI application that guards and routes them."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ddol.node.errors import DivergedError, NodeError, NotDurableError

_log = logging.getLogger("ddol.node")
JSON, TEXT, HTML = "application/json", "text/plain; version=0.0.4", "text/html; charset=utf-8"
encode = msgspec.json.Encoder().encode


class HttpReply(NamedTuple):
    """What a request is answered with."""

    body: bytes
    status: int = 200
    kind: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class Rejected(Exception):  # noqa: N818
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, sentence: str, close: bool = False) -> None:
        super().__init__(sentence)
        self.status, self.close = status, close


class HttpRequest:
    """A request.

    Parameters
    ----------
    scope, receive : of ASGI
    """

    __slots__ = ("_receive", "scope")

    def __init__(self, scope: Any, receive: Any) -> None:
        self.scope, self._receive = scope, receive

    @property
    def name(self) -> str:
        """The model that the path names."""
        found: str = self.scope["path_params"]["name"]
        return found

    @property
    def address(self) -> str:
        """Where the request comes from."""
        client = self.scope.get("client")
        return client[0] if client else ""

    def header(self, name: bytes) -> str | None:
        """The value of a header, whose name is in lower case."""
        for key, value in self.scope["headers"]:
            if key == name:
                found: str = value.decode("latin-1")
                return found
        return None

    async def body(self, most: int) -> bytes:
        """The body, which has at most so many bytes."""
        too_large = f"found a body of more than {most:,} bytes, expected a smaller one"
        said = self.header(b"content-length") or ""
        if said.isdigit() and int(said) > most:
            raise Rejected(413, too_large)
        parts, size, more = [], 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Rejected(400, "the client has gone before its request was complete")
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size > most:
                raise Rejected(413, too_large)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


Answer = Callable[[HttpRequest], Awaitable[HttpReply]]


class Guarded:
    """An answer behind its checks, as an ASGI application; all that goes wrong is JSON with one sentence.

    Parameters
    ----------
    answer : function of HttpRequest that returns a HttpReply
    check : function of HttpRequest that raises Rejected
    codes : Counter
        Replies by status.
    """

    def __init__(
        self, answer: Answer, check: Callable[[HttpRequest], None], codes: Counter
    ) -> None:
        self.answer, self.check, self.codes = answer, check, codes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        reply = await self._reply(HttpRequest(scope, receive))
        self.codes[reply.status] += 1
        headers = [
            (b"content-type", reply.kind.encode()),
            (b"content-length", b"%d" % len(reply.body)),
            *((name.encode(), value.encode()) for name, value in reply.headers),
        ]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})

    async def _reply(self, asked: HttpRequest) -> HttpReply:
        try:
            self.check(asked)
            return await self.answer(asked)
        except Rejected as error:
            return error_reply(error.status, str(error), error.close)
        except NotDurableError as error:
            return error_reply(503, str(error))
        except msgspec.DecodeError as error:
            return error_reply(400, f"the body cannot be read: {error}; see /openapi.json")
        except UnicodeDecodeError:
            return error_reply(400, "the body cannot be read: it is no UTF-8; see /openapi.json")
        except RecursionError:
            return error_reply(400, "the body is nested too deeply; see /openapi.json")
        except DivergedError as error:
            return error_reply(500, str(error))
        except NodeError as error:
            return error_reply(400, str(error))
        except Exception:
            _log.exception("%s %s failed", asked.scope["method"], asked.scope["path"])
            return error_reply(500, "the server failed; its log says why")


def error_reply(status: int, sentence: str, close: bool = False) -> HttpReply:
    """One sentence about what is wrong."""
    headers: tuple[tuple[str, str], ...] = (("connection", "close"),) if close else ()
    if status == 401:
        headers += (("www-authenticate", 'Bearer, Basic realm="ddol"'),)
    elif status in (429, 503):
        headers += (("retry-after", "1"),)
    return HttpReply(encode({"error": sentence}), status, JSON, headers)


class Application:
    """The server: labels and predictions are answered without a search, all else by Starlette's routes.

    Parameters
    ----------
    routes : (path, application, method)
    """

    def __init__(self, routes: Iterable[tuple[str, Guarded, str]]) -> None:
        self.routes = [Route(path, found, methods=[method]) for path, found, method in routes]
        self._often = {
            route.path.rpartition("/")[2]: route.app
            for route in self.routes
            if route.methods == {"POST"}
        }
        self._rest = Starlette(
            routes=self.routes,
            exception_handlers={404: _no_such_place, 405: _no_such_method},
        )
        self._rest.router.redirect_slashes = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["method"] == "POST":
            place, _, what = scope["path"].rpartition("/")
            start, _, name = place.rpartition("/")
            if start == "/v2/models" and what in self._often:
                scope["path_params"] = {"name": name}
                await self._often[what](scope, receive, send)
                return
        await self._rest(scope, receive, send)


def guarded(check: Callable, codes: Counter, served: Any, answer: Callable) -> Guarded:
    """An answer that is given what is served, too."""
    return Guarded(functools.partial(answer, served), functools.partial(check, served), codes)


async def _no_such_place(request: Request, error: Exception) -> Response:
    sentence = f"found no {request.url.path}, expected /v2/models/NAME/infer or another"
    return _refused(404, sentence)


async def _no_such_method(request: Request, error: Exception) -> Response:
    return _refused(405, f"{request.url.path} does not take {request.method}")


def _refused(status: int, sentence: str) -> Response:
    return Response(error_reply(status, sentence).body, status, media_type=JSON)
