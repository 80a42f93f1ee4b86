"""``ddol network``: a private certificate authority, invitations, certificates, tokens."""

from __future__ import annotations

import json as json_
import re
import shlex
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddol.cli.flags import Command, as_json, debug, flag
from ddol.streams.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddol.node.identity.authority import Authority
    from ddol.node.identity.letters import JoinAnswer
    from ddol.node.identity.member import Identity

_folder = flag(
    "--folder FOLDER", "The authority's folder.", show_default="the one here, or directly below"
)


@click.group()
def network() -> None:
    """Manage who may take part in a network of nodes.

    One organisation runs a private certificate authority: new, invite, serve, sign, show, revoke. Every site
    joins on its own machine: join, renew. For clients of a node over HTTP: token.
    """


@contextmanager
def _extra() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise DataError(f"ddol network needs {error.name}; pip install 'ddol[node]'") from None


def _authority(folder: str | None) -> Authority:
    with _extra():
        from ddol.node.identity.authority import find_authority
    return find_authority(folder)


@network.command(cls=Command)
@click.argument("folder", default="network")
@flag("--name NAME", "Name of the network.", show_default="the folder's")
@flag(
    "--address HOST:PORT",
    "Where sites will reach ddol network serve.",
    default="",
    show_default="none",
)
@debug
def new(folder: str, name: str | None, address: str) -> None:
    """Make a certificate authority in FOLDER.

    Keep this folder secret and back it up: its key decides who is a member.
    """
    with _extra():
        from ddol.node.identity.asking import host_and_port
        from ddol.node.identity.authority import Authority
    if address:
        host_and_port(address)
    name = name or re.sub(r"[^A-Za-z0-9-]+", "-", Path(folder).resolve().name).strip("-")
    authority = Authority.new(folder, name, address)
    click.echo(f"{folder}: authority of the network {name}, fingerprint {authority.network.hex()}")
    click.echo(
        f"keep this folder secret, and invite sites: ddol network invite NAME --folder {shlex.quote(folder)}"
    )


@network.command(cls=Command)
@click.argument("name")
@_folder
@flag(
    "--hours h", "How long the invitation is valid.", type=click.FloatRange(0.01, 720), default=24
)
@flag("--relay", "Invite a relay, which forwards messages and cannot read them.", is_flag=True)
@flag(
    "--files", "For a site that cannot reach the authority and will exchange files.", is_flag=True
)
@debug
def invite(name: str, folder: str | None, hours: float, relay: bool, files: bool) -> None:
    """Print an invitation for the site NAME, valid once, for a day.

    It is a secret: send it over a channel that only the site reads.
    """
    authority = _authority(folder)
    from ddol.node.identity.certificates import MEMBER, RELAY
    from ddol.node.identity.letters import is_folder, written

    role = RELAY if relay else MEMBER
    found = authority.invite(name, role, timedelta(hours=hours))
    if files:
        import msgspec

        found = msgspec.structs.replace(found, address="")
    click.echo(written(found))
    if is_folder(found.address):
        click.echo(
            "this invitation works on this machine only; for other machines run ddol network serve --address "
            "HOST:PORT first, or use --files",
            err=True,
        )


@network.command(cls=Command)
@click.argument("invitation", required=False)
@flag("--folder DIR", "Where the identity will be.", show_default="NAME-identity")
@flag(
    "--request FILE", "Write the request to FILE (- prints it) instead of reaching the authority."
)
@flag("--answer FILE", "Finish with the authority's answer to that request.")
@flag(
    "--config FILE",
    "Write the identity into this node.toml.",
    show_default="node.toml, if it is NAME's",
)
@debug
def join(
    invitation: str | None,
    folder: str | None,
    request: str | None,
    answer: str | None,
    config: str | None,
) -> None:
    """Join a network: make a key on this machine and have it signed. The key never leaves the machine.

    INVITATION: the line that ddol network invite printed, or - to read it from standard input. If the
    authority cannot be reached: write a request (--request FILE), have it signed at the authority (ddol
    network sign FILE --out ANSWER), and finish here with --answer ANSWER.
    """
    with _extra():
        from ddol.node.identity import member
        from ddol.node.identity.asking import ask_authority
        from ddol.node.identity.letters import Invitation, JoinAnswer, read_letter, written
    if (invitation is None) == (answer is None):
        raise DataError("give either an invitation or --answer FILE")
    if answer is not None:
        reply = read_letter(JoinAnswer, _text(answer), answer)
        place = Path(folder or _pending(reply))
    else:
        assert invitation is not None
        invited = read_letter(Invitation, _text("-") if invitation == "-" else invitation)
        place = Path(folder or f"{invited.name}-identity")
        letter = member.ask_to_join(invited, place)
        if request is not None:
            _write(request, written(letter))
            if request != "-":
                click.echo(f"{request}: have it signed by the authority (ddol network sign), then run: "
                           f"ddol network join --folder {place} --answer FILE")  # fmt: skip
            return
        reply = ask_authority(invited.address, invited.network, letter)
    identity = member.take_answer(place, reply)
    click.echo(f"{place}: identity of {identity.name}, valid until {identity.expires:%Y-%m-%d}")
    _tell_config(config, identity.name, place)


def _pending(answer: JoinAnswer) -> Path:
    """The folder here whose request this is the answer to."""
    from ddol.node.identity.member import is_answered_by

    for each in sorted(Path().glob("*/settings.json")):
        if is_answered_by(each.parent, answer):
            return each.parent
    raise DataError(
        "found no folder with a request for this answer; name the one that join --request made: --folder DIR"
    )


def _text(place: str) -> str:
    try:
        return (
            sys.stdin.read(1 << 20) if place == "-" else Path(place).read_text("ascii", "replace")
        )
    except OSError as error:
        raise DataError(f"{place}: cannot be read ({error.strerror})") from None


def _write(place: str, line: str) -> None:
    if place == "-":
        click.echo(line)
        return
    try:
        Path(place).write_text(line + "\n", encoding="ascii")
    except OSError as error:
        raise DataError(f"{place}: cannot be written ({error.strerror})") from None


def _tell_config(config: str | None, name: str, identity: Path) -> None:
    """Write the identity into a node.toml, or say which line it needs."""
    import tomllib

    path, line = Path(config or "node.toml"), f'identity = "{identity}"'
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: {error}; correct it, and put {line} into [network]") from None
    if config is None and found.get("name") != name:
        click.echo(f"put this into its node.toml:\n[network]\n{line}")
        return
    if found.get("name", name) != name:
        raise DataError(f"{path}: it is of node {found['name']!r}, the identity is of {name!r}")
    path.write_text(_with_identity(text, found, name, line), encoding="utf-8")
    click.echo(f"{path}: {line}")


def _with_identity(text: str, found: dict[str, Any], name: str, line: str) -> str:
    if "name" not in found:
        text = f'name = "{name}"\n{text}'
    table = found.get("network")
    if table is None:
        return f"{text.rstrip()}\n\n[network]\n{line}\n".lstrip()
    lines, inside = [], False
    for each in text.splitlines():
        if each.strip().startswith("["):
            inside = each.split("#")[0].strip() == "[network]"
        if not (inside and re.match(r"\s*identity\s*=", each)):
            lines.append(each)
        if inside and each.strip().startswith("["):
            lines.append(line)
    return "\n".join(lines) + "\n"


@network.command(cls=Command)
@click.argument("request")
@_folder
@flag("--out FILE", "Where to write the answer.", default="-", show_default="standard output")
@debug
def sign(request: str, folder: str | None, out: str) -> None:
    """Sign the request of a site: the file that ddol network join --request or renew --request wrote."""
    authority = _authority(folder)
    from ddol.node.identity.letters import JoinRequest, read_letter, written

    _write(out, written(authority.answer(read_letter(JoinRequest, _text(request), request))))


@network.command(cls=Command)
@click.argument("name")
@_folder
@debug
def revoke(name: str, folder: str | None) -> None:
    """Revoke the site NAME, or its invitation. Other members exclude it within seconds, without a restart."""
    authority = _authority(folder)
    before = authority.book.number
    authority.revoke(name)
    after = authority.book.number
    if after == before:
        click.echo(f"the invitation for {name} is revoked")
        return
    click.echo(f"{name} is revoked, in roster {after}")
    if not authority.book.address:
        click.echo(
            f"members on this machine read it; for others copy {authority.folder / 'roster'} over the file "
            "roster in the identity folder of any one member, whose node passes it on"
        )


@network.command(cls=Command)
@flag("--folder FOLDER", "An authority's folder, or an identity's.", show_default="the one here")
@as_json
@debug
def show(folder: str | None, json: bool) -> None:
    """List members, when they were last seen, and when their certificates expire."""
    with _extra():
        from ddol.node.identity.member import CERTIFICATE, Identity
    if folder is not None and (Path(folder) / CERTIFICATE).exists():
        title, facts, rows = _as_member(Identity(folder))
    else:
        title, facts, rows = _as_authority(_authority(folder))
    if json:
        click.echo(json_.dumps(facts | {"members": rows}, indent=2))
        return
    click.echo(f"{title}, fingerprint {facts['fingerprint']}, roster {facts['roster']}")
    width = max([4, *(len(row["name"]) for row in rows)])
    click.echo(f"{'name':{width}}  role    state    last seen         expires")
    for row in rows:
        seen, expires = (
            _day(row[key], clock) for key, clock in (("seen", True), ("expires", False))
        )
        click.echo(
            f"{row['name']:{width}}  {row['role']:6}  {row['state']:7}  {seen:16}  {expires}"
        )


def _as_authority(authority: Authority) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    book, at, rows = authority.book, time.time(), []
    for name, entry in sorted(book.members.items()):
        state = "member" if entry.expires > at else "expired"
        if not entry.key:
            state = "invited" if entry.invited_until > at else "lapsed"
        state = "revoked" if entry.revoked else state
        expires = entry.expires or entry.invited_until
        rows.append(_row(name, entry.role, state, entry.seen, expires))
    facts = {"network": book.network, "fingerprint": authority.network.hex(), "roster": book.number}
    return f"network {book.network}", facts, rows


def _as_member(identity: Identity) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    seen, rows = identity.seen(), []
    for name, role in identity.roster.members.items():
        own = name == identity.name
        expires = int(identity.expires.timestamp()) if own else 0
        rows.append(_row(name, role, "self" if own else "member", seen.get(name, 0), expires))
    state = "REVOKED" if identity.is_revoked else "in force"
    facts = {
        "name": identity.name,
        "revoked": identity.is_revoked,
        "fingerprint": identity.network.hex(),
        "roster": identity.roster.number,
    }
    return f"{identity.name} ({state})", facts, rows


def _row(name: str, role: str, state: str, seen: int, expires: int) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "state": state,
        "seen": seen or None,
        "expires": expires or None,
    }


def _day(at: int | None, clock: bool) -> str:
    if at is None:
        return "-"
    return f"{datetime.fromtimestamp(at, UTC):{'%Y-%m-%d %H:%M' if clock else '%Y-%m-%d'}}"


@network.command(cls=Command)
@flag("--folder DIR", "The identity's folder.", required=True)
@flag("--request FILE", "Write a request for ddol network sign instead (- prints it).")
@flag("--answer FILE", "Take the authority's answer to it.")
@debug
def renew(folder: str, request: str | None, answer: str | None) -> None:
    """Renew a certificate now. A running node renews it by itself when 30 of its 90 days are left."""
    with _extra():
        from ddol.node.identity.letters import JoinAnswer, read_letter, written
        from ddol.node.identity.member import Identity, take_answer
    identity = Identity(folder)
    if request is not None:
        _write(request, written(identity.request_renewal()))
        return
    if answer is not None:
        identity = take_answer(Path(folder), read_letter(JoinAnswer, _text(answer), answer))
    else:
        identity.renew()
    click.echo(f"{identity.name}: valid until {identity.expires:%Y-%m-%d}")


@network.command(cls=Command)
@_folder
@flag("--listen HOST:PORT", "Where to listen.", default="127.0.0.1:7443")
@flag(
    "--address HOST:PORT",
    "How sites reach it; kept for later invitations.",
    show_default="--listen",
)
@debug
def serve(folder: str | None, listen: str, address: str | None) -> None:
    """Run the authority over HTTPS: sites join, renew and ask for the list of members there."""
    authority = _authority(folder)
    with _extra():
        from ddol.node.identity.endpoint import serve as run_endpoint

    def ready(place: str) -> None:
        authority.set_address(address or place)
        click.echo(f"serving {authority.folder} at {place}", err=True)

    run_endpoint(authority, listen, ready)


@network.command(cls=Command)
@click.argument("file")
@flag("--name NAME", "Name of the client that will use it.", default="client")
@debug
def token(file: str, name: str) -> None:
    """Print a new token for an HTTP client, and add its SHA-256 to FILE.

    FILE: the token_file of node.toml.
    """
    with _extra():
        from ddol.node.identity.tokens import new_token
    click.echo(new_token(file, name))
