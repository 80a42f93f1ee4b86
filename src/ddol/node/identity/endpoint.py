"""The authority's HTTPS endpoint: sites join and renew there, and members ask for the roster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from ddol.node.identity import certificates as crt
from ddol.node.identity.asking import host_and_port
from ddol.node.identity.authority import Authority
from ddol.node.identity.envelope import Opener, RefusedError
from ddol.node.identity.letters import JoinRequest, read_letter, written
from ddol.node.identity.roster import TOPIC as ROSTER
from ddol.node.identity.roster import Roster, read_roster
from ddol.streams.errors import DataError

_MOST = 1 << 14
"""Bytes of a request."""


def application(authority: Authority) -> Any:
    """The endpoint as an ASGI application.

    GET /authority: the authority's certificate. POST /sign: a request, its answer. POST /roster: an
    envelope of a member, which says the number of the roster that it has; a newer one, or nothing.
    """
    members = _Members(authority)
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    async def show_authority(request: Request) -> Response:
        return Response(authority.certificate.public_bytes(Encoding.DER))

    async def read(request: Request) -> bytes:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST:
                raise HTTPException(413, f"a request has at most {_MOST} bytes")
        return bytes(body)

    async def sign(request: Request) -> Response:
        body = await read(request)
        try:
            letter = read_letter(JoinRequest, body.decode("ascii", "replace"))
            answer = await run_in_threadpool(authority.answer, letter)
        except DataError as error:
            return PlainTextResponse(str(error), 403)
        return PlainTextResponse(written(answer))

    async def tell_roster(request: Request) -> Response:
        envelope = await read(request)
        try:
            return Response(await run_in_threadpool(members.roster_for, envelope))
        except RefusedError as error:
            return PlainTextResponse(str(error), 403)

    return Starlette(
        routes=[
            Route("/authority", show_authority),
            Route("/sign", sign, methods=["POST"]),
            Route("/roster", tell_roster, methods=["POST"]),
        ]
    )


class _Members:
    """Members as the endpoint hears them."""

    def __init__(self, authority: Authority) -> None:
        self.network, self.authority = authority.network, authority.certificate
        self.saw = authority.saw
        self._authority, self._opener = authority, Opener(self, _MOST, {ROSTER})

    @property
    def roster(self) -> Roster:
        """The roster of now."""
        key = self.authority.public_key()
        assert isinstance(key, Ed25519PublicKey)
        found = read_roster(key, self.network.hex(), self._authority.roster)
        if found is None:
            raise DataError(
                f"{self._authority.folder}: the list of members is damaged; restore the folder from a backup"
            )
        return found

    def roster_for(self, envelope: bytes) -> bytes:
        """The roster of now, for a member that has an older one; else nothing."""
        known = self._opener.open(envelope, ROSTER).payload
        new = not known.isdigit() or len(known) > 20 or int(known) < self.roster.number
        return self._authority.roster if new else b""


def serve(authority: Authority, listen: str, ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; `ready` is called with the address once connections are taken.

    The endpoint's key lives as long as the process, and its certificate names the endpoint only.
    """
    import uvicorn

    host, port = host_and_port(listen)

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            taken = self.servers[0].sockets[0].getsockname()[1] if self.servers else port
            ready(f"{host}:{taken}")

    with tempfile.TemporaryDirectory(prefix="ddol-") as folder:  # ssl reads keys from files only
        key, certificate = _pair(authority, Path(folder))
        config = uvicorn.Config(
            application(authority),
            host=host,
            port=port,
            log_level="warning",
            limit_concurrency=64,
            timeout_keep_alive=5,
            server_header=False,
            ssl_keyfile=str(key),
            ssl_certfile=str(certificate),
        )
        config.load()
    Server(config).run()


def _pair(authority: Authority, folder: Path) -> tuple[Path, Path]:
    """A key of the endpoint's own, and its certificate."""
    key = Ed25519PrivateKey.generate()
    certificate = authority.sign(key.public_key(), crt.ENDPOINT, "endpoint")
    paths = folder / "key", folder / "certificate"
    crt.save_key(paths[0], key)
    paths[1].write_bytes(certificate.public_bytes(Encoding.PEM))
    return paths
