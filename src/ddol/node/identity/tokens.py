"""Tokens of HTTP clients, of which a file keeps digests only."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from ddol.node.identity.private import read_private, write_private
from ddol.streams.errors import DataError

_KIND = "sha256:"
_SHORTEST = 16


def new_token(file: str | Path, name: str) -> str:
    """Make a token for a client, and add its digest to a file; the token is shown this once only.

    A token has 256 random bits, so a plain SHA-256 of it gives nothing away.
    """
    path, lines = Path(file), []
    if not name or any(c.isspace() or c == ":" for c in name) or len(name) > 64:
        raise DataError(f"name {name[:80]!r}: expected up to 64 letters without spaces and colons")
    if path.exists():
        lines = _lines(path)
        if any(line.split()[0] == name for line in lines if _KIND in line):
            raise DataError(f"{path}: there is a token of {name} already; remove its line first")
    token = "ddol-" + secrets.token_urlsafe(32)
    lines.append(f"{name} {_KIND}{_digest(token)}")
    write_private(path, "".join(f"{line}\n" for line in lines).encode())
    return token


def check_token(file: str | Path, presented: str) -> str | None:
    """The name of the client whose token this is, or None.

    The file has lines ``name sha256:…`` as `new_token` writes them. A line with nothing but a token in plain,
    of at least 16 letters, is accepted as well, for the name ``plain``.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "token"
    >>> token = new_token(file, "shop")
    >>> check_token(file, token), check_token(file, "guess"), token in file.read_text()
    ('shop', None, False)
    """
    found, digest = None, _digest(presented)
    for name, known in _entries(Path(file)):
        if hmac.compare_digest(known, digest):  # every line is compared: the time tells nothing
            found = name
    return found


def _entries(path: Path) -> list[tuple[str, str]]:
    entries = []
    for number, line in enumerate(_lines(path), 1):
        words = line.split()
        if len(words) == 2 and words[1].startswith(_KIND):
            entries.append((words[0], words[1].removeprefix(_KIND)))
        elif len(words) == 1 and len(words[0]) >= _SHORTEST:
            entries.append(("plain", _digest(words[0])))
        else:
            raise DataError(
                f"{path}:{number}: expected a name and {_KIND}…, or a token of at least {_SHORTEST} letters; "
                "make one with: ddol network token FILE"
            )
    if not entries:
        raise DataError(f"{path}: there is no token; make one with: ddol network token {path}")
    return entries


def _lines(path: Path) -> list[str]:
    text = read_private(path).decode("utf-8", "replace")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
