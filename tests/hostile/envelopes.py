"""Messages between nodes, and letters between a site and its authority, damaged in every way."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from cryptography import x509
from tests.hostile.mutations import damaged

from ddol.node.identity.authority import Authority
from ddol.node.identity.envelope import Opener, RefusedError, Sealer
from ddol.node.identity.letters import (
    Invitation,
    JoinAnswer,
    JoinRequest,
    read_letter,
    written,
)
from ddol.node.identity.member import Identity, ask_to_join, take_answer
from ddol.node.transport.seals import SignedSeals
from ddol.streams.errors import DataError

PAYLOAD = np.random.default_rng(0).standard_normal(40).tobytes()


def mutated_envelopes(first: int, tries: int) -> dict[str, str]:
    """None is taken; each is refused with a reason, and an untouched one is taken afterwards."""
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.new(Path(folder, "net"), "trial")
        sealer, opener = Sealer(_member(authority, "eu")), Opener(_member(authority, "us"))
        sealed = [sealer.seal("weights", PAYLOAD, b"a" * 32, b"e" * 32) for _ in range(4)]
        for number in range(first, first + tries):
            whole = sealed[number % len(sealed)]
            how, data = damaged(whole, number) if number % 2 else _rebuilt(sealed, number)
            if data in sealed:
                continue
            try:
                opener.open(data)
                wrong[str(number)] = f"{how}: taken"
            except RefusedError:
                pass
            except Exception as error:
                wrong[str(number)] = f"{how}: {type(error).__name__}: {error}"
        if opener.taken or sum(opener.refused.values()) + len(wrong) > tries:
            wrong["counts"] = f"{opener.taken}, {opener.refused}"
        for each in sealed:
            opener.open(each)
    return wrong


def mutated_ciphertexts(first: int, tries: int) -> dict[str, str]:
    """A member signs damaged ciphertexts: what was encrypted comes out, or nothing."""
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.new(Path(folder, "net"), "trial")
        _member(authority, "ap")
        us, eu = _member(authority, "us"), _member(authority, "eu")
        seals, sealer, topic = SignedSeals(us), Sealer(eu), "m/weights"
        seals.within_limit = lambda *_: True  # type: ignore[method-assign]
        whole = eu.encrypt(topic, PAYLOAD)
        for number in range(first, first + tries):
            how, data = damaged(whole, number) if number % 2 else _misfit(whole, number)
            try:
                found = seals.open(topic, "eu", sealer.seal(topic, data))
            except Exception as error:
                wrong[str(number)] = f"{how}: {type(error).__name__}: {error}"
                continue
            if found not in (None, ("eu", PAYLOAD)):
                wrong[str(number)] = f"{how}: taken"
        if seals.open(topic, "eu", sealer.seal(topic, whole)) != ("eu", PAYLOAD):
            wrong["whole"] = "refused"
    return wrong


def _misfit(whole: bytes, number: int) -> tuple[str, bytes]:
    """A ciphertext with a part of another type, another size, or another place."""
    rng = np.random.default_rng(number)
    keys, text = msgspec.msgpack.decode(whole)
    place = int(rng.integers(4))
    if place == 0:
        keys = dict(zip(keys, reversed(list(keys.values())), strict=True))
    elif place == 1:
        keys["us"] = damaged(keys["us"], number)[1]
    elif place == 2:
        keys = _anything(rng)
    else:
        text = _anything(rng)
    return f"part {place}", msgspec.msgpack.encode([keys, text])


def _rebuilt(sealed: list[bytes], number: int) -> tuple[str, bytes]:
    """A whole frame with one field of another envelope, of another type, or of another size."""
    rng = np.random.default_rng(number)
    frame = msgspec.msgpack.decode(sealed[number % len(sealed)])
    other = msgspec.msgpack.decode(sealed[int(rng.integers(len(sealed)))])
    if rng.random() < 0.2:
        place = int(rng.integers(2))
        frame[place] = other[place] if rng.random() < 0.5 else _anything(rng)
        return f"frame {place}", msgspec.msgpack.encode(frame)
    body = msgspec.msgpack.decode(frame[0])
    place = int(rng.integers(len(body)))
    if isinstance(body[place], bytes) and rng.random() < 0.5:
        body[place] = damaged(body[place] or b"\0", number)[1]
    elif isinstance(body[place], int) and rng.random() < 0.5:
        body[place] += int(rng.integers(1, 1000))
    else:
        body[place] = _anything(rng)
    return f"body {place}", msgspec.msgpack.encode([msgspec.msgpack.encode(body), frame[1]])


def _anything(rng: np.random.Generator) -> Any:
    values: tuple[Any, ...] = (
        None, -1, 2**63, 1.5, float("nan"), "", "us", b"", [], {}, {"a": [1]}, True,
        rng.bytes(int(rng.integers(1, 300))), "x" * 10_000,
    )  # fmt: skip
    return values[int(rng.integers(len(values)))]


def mutated_letters(first: int, tries: int) -> dict[str, str]:
    """A damaged request is not signed, and no damaged answer, roster or invitation is taken."""
    wrong: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority.new(Path(folder, "net"), "trial")
        eu = _member(authority, "eu")
        waiting = Path(folder, "us")
        invitation = authority.invite("us")
        request = ask_to_join(invitation, waiting)
        answer = authority.answer(request)
        for number in range(first, first + tries):
            letter, where = ((request, authority), (answer, waiting), (invitation, eu))[number % 3]
            line = written(letter).encode()
            packed = bool(number % 2)
            how, data = _damaged_letter(letter, number) if packed else damaged(line, number)
            try:
                said = _taken(data, letter, where)
            except DataError:
                said = None
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            if said:
                wrong[str(number)] = f"{how}: {said}"
            how, data = damaged(eu.roster_bytes, number)
            if data != eu.roster_bytes and _heard(eu, data):
                wrong[str(number)] = f"{how}: a roster was taken"
    return wrong


def _damaged_letter(letter: Any, number: int) -> tuple[str, bytes]:
    """One field of a letter damaged, and written anew."""
    rng = np.random.default_rng(number)
    names = [n for n in letter.__struct_fields__ if isinstance(getattr(letter, n), bytes)]
    name = names[int(rng.integers(len(names)))]
    how, value = damaged(getattr(letter, name) or b"\0", number)
    return f"{name} {how}", written(msgspec.structs.replace(letter, **{name: value})).encode()


def _taken(data: bytes, letter: Any, where: Any) -> str | None:
    found = read_letter(type(letter), data.decode("ascii", "replace"))
    if found == letter:
        return None
    if isinstance(found, JoinRequest):
        where.answer(found)
        if not found.voucher and msgspec.structs.replace(found, voucher=letter.voucher) == letter:
            return None  # without a voucher it asks for a renewal of the key that is a member's already
        return "signed"
    if isinstance(found, JoinAnswer):
        take_answer(where, found)
        same = all(
            _said(getattr(found, n)) == _said(getattr(letter, n))
            for n in ("certificate", "authority")
        )
        return None if same else "taken"  # its roster and address are checked where they are used
    assert isinstance(found, Invitation)
    return None  # a damaged one leads to another authority, or vouches for nothing


def _said(certificate: bytes) -> bytes:
    """What is signed of a certificate: bits beside it may change, and mean nothing."""
    return x509.load_der_x509_certificate(certificate).tbs_certificate_bytes


def _heard(identity: Identity, data: bytes) -> bool:
    object.__setattr__(identity, "roster", msgspec.structs.replace(identity.roster, number=0))
    return identity.hear_roster(data)


def _member(authority: Authority, name: str) -> Identity:
    folder = authority.folder.parent / f"{name}-identity"
    return take_answer(folder, authority.answer(ask_to_join(authority.invite(name), folder)))
