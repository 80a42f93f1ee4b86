"""Envelopes: what is taken, and all that is refused, by sender and reason."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ddol.node.identity import authority as authority_module
from ddol.node.identity import envelope as module
from ddol.node.identity.authority import Authority
from ddol.node.identity.envelope import (
    PURPOSE,
    REASONS,
    STRANGER,
    Body,
    Opener,
    RefusedError,
    Sealer,
)
from ddol.node.identity.member import Identity, ask_to_join, take_answer
from ddol.node.identity.signed import sign, unpacked
from ddol.streams.errors import DataError


@pytest.fixture
def pair(member):
    eu, us = member("eu"), member("us")
    return Sealer(eu), Opener(us)


def refused(opener: Opener, data: bytes, **wanted) -> tuple[str, str]:
    before = dict(opener.refused)
    with pytest.raises(RefusedError) as error:
        opener.open(data, **wanted)
    key = error.value.sender, error.value.reason
    assert key[1] in REASONS
    assert opener.refused[key] == before.get(key, 0) + 1, "counted by sender and reason"
    return key


def body_of(data: bytes) -> Body:
    frame = unpacked(data)
    assert frame is not None
    return msgspec.msgpack.decode(frame.body, type=Body)


def test_a_message_arrives(pair):
    sealer, opener = pair
    found = opener.open(
        sealer.seal("weights", b"numbers", b"a" * 32, b"e" * 32), "weights", b"a" * 32
    )
    assert (found.sender, found.payload) == ("eu", b"numbers")
    assert opener.taken == {"eu": 1}
    assert opener.circle.seen()["eu"] > 0


def test_replayed_and_reordered(pair):
    sealer, opener = pair
    first, second = (sealer.seal("weights", bytes([k])) for k in range(2))
    opener.open(second)
    assert refused(opener, second) == ("eu", "replayed")
    assert refused(opener, first) == ("eu", "replayed")
    opener.open(sealer.seal("weights", b""))


def test_replayed_after_a_restart(pair):
    sealer, opener = pair
    message = sealer.seal("weights", b"")
    opener.open(message)
    for again in (Opener(opener.circle), Opener(Identity(opener.circle.folder))):
        assert refused(again, message) == ("eu", "replayed")
    fresh = Opener(opener.circle)
    fresh.restore({key: {"weights": 2**62} for key in opener.state()})
    assert refused(fresh, sealer.seal("weights", b"")) == ("eu", "replayed")


def test_a_damaged_memory_of_numbers_is_named(pair):
    sealer, opener = pair
    opener.open(sealer.seal("weights", b""))
    (opener.circle.folder / "heard").write_bytes(b"{")
    with pytest.raises(DataError, match="heard: damaged"):
        Opener(opener.circle)


def test_numbers_rise_over_a_restart_with_the_clock_set_back(pair, monkeypatch):
    sealer, opener = pair
    opener.open(sealer.seal("weights", b""))
    monkeypatch.setattr(module.time, "time_ns", lambda: 10**9)
    opener.open(Sealer(sealer.identity).seal("weights", b""))


def test_a_damaged_number_of_the_last_message_is_named(pair):
    sealer, _ = pair
    sealer.seal("weights", b"")
    (sealer.identity.folder / "sent").write_bytes(b"many")
    with pytest.raises(DataError, match="sent: damaged"):
        Sealer(sealer.identity)


def test_a_number_is_of_one_topic(pair):
    sealer, opener = pair
    schema, weights = sealer.seal("schema", b""), sealer.seal("weights", b"")
    opener.open(weights)
    assert refused(opener, schema, topic="weights") == ("eu", "topic")
    opener.open(schema, topic="schema")


def test_forged(pair, member):
    sealer, opener = pair
    honest = sealer.seal("weights", b"numbers")
    body = body_of(honest)
    stranger = Ed25519PrivateKey.generate()
    ap = member("ap")
    forgeries = (
        sign(stranger, PURPOSE, msgspec.msgpack.encode(body)),
        # A member who says that it is another one, with the other's certificate or with its own.
        sign(ap.key, PURPOSE, msgspec.msgpack.encode(body)),
        sign(
            ap.key,
            PURPOSE,
            msgspec.msgpack.encode(msgspec.structs.replace(body, certificate=ap.der)),
        ),
        # The right key, for another purpose.
        sign(sealer.identity.key, "roster", msgspec.msgpack.encode(body)),
        # The authority's certificate is none of a member.
        sign(
            ap.key,
            PURPOSE,
            msgspec.msgpack.encode(
                msgspec.structs.replace(
                    body, certificate=opener.circle.authority.public_bytes(_der()), sender="trial"
                )
            ),
        ),
    )
    for forged in forgeries:
        assert refused(opener, forged) == (STRANGER, "forged")
    opener.open(honest)  # none of them has used up its number


def _der():
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.DER


def test_of_another_network(pair, tmp_path):
    _, opener = pair
    other = Authority.new(tmp_path / "other", "trial")
    folder = tmp_path / "eu-there"
    there = take_answer(folder, other.answer(ask_to_join(other.invite("eu"), folder)))
    message = Sealer(there).seal("weights", b"")
    assert refused(opener, message) == (STRANGER, "foreign")
    claimed = msgspec.structs.replace(body_of(message), network=opener.circle.network)
    assert refused(opener, sign(there.key, PURPOSE, msgspec.msgpack.encode(claimed))) == (
        STRANGER,
        "forged",
    )


def test_revoked(pair, authority):
    sealer, opener = pair
    opener.open(sealer.seal("weights", b""))
    authority.revoke("eu")
    opener.circle.look_for_roster()
    assert refused(opener, sealer.seal("weights", b"")) == ("eu", "revoked")


def test_expired(pair, member, monkeypatch):
    _, opener = pair
    monkeypatch.setattr(authority_module, "LIFE", timedelta(seconds=-60))
    late = member("late")
    assert refused(opener, Sealer(late).seal("weights", b"")) == ("late", "expired")


@pytest.mark.parametrize(("minutes", "taken"), ((55, True), (-55, True), (90, False)))
def test_clocks_may_differ_by_an_hour(pair, monkeypatch, minutes, taken):
    """The authority, whose clock made the certificates, is so far ahead of the site that opens."""
    sealer, opener = pair
    sealed = sealer.seal("weights", b"")

    class Clock(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) - timedelta(minutes=minutes)

    monkeypatch.setattr(module, "datetime", Clock)
    if taken:
        assert opener.open(sealed).sender == "eu"
    else:
        with pytest.raises(RefusedError, match=r"valid from .* here it is") as error:
            opener.open(sealed)
        assert error.value.reason == "expired"


def test_oversized_is_refused_unread(pair, monkeypatch):
    sealer, _ = pair
    opener = Opener(pair[1].circle, most=1000)
    monkeypatch.setattr(module, "unpacked", lambda data: pytest.fail("it was read"))
    assert refused(opener, sealer.seal("weights", bytes(1000))) == (STRANGER, "oversized")


def test_malformed(pair):
    sealer, opener = pair
    whole = sealer.seal("weights", b"numbers")
    nested = b"\x91" * 100_000
    huge = b"\x92\xc6\xff\xff\xff\xff"  # says that four gigabytes follow
    for data in (b"", b"\x00", whole[:-1], whole + b"\x00", whole[1:], nested, huge, b"\xc1" * 99):
        assert refused(opener, data) == (STRANGER, "malformed")


def test_another_algorithm_or_encoding(pair):
    sealer, opener = pair
    message = sealer.seal("weights", b"", b"a" * 32, b"e" * 32)
    assert refused(opener, message, algorithm=b"b" * 32) == ("eu", "algorithm")
    assert refused(opener, message, encoding=b"b" * 32) == ("eu", "encoding")


def test_a_member_cannot_fill_memory_with_topics(pair):
    sealer, opener = pair
    assert refused(opener, sealer.seal("t" * 201, b"")) == ("eu", "topic")
    for k in range(1000):
        opener.open(sealer.seal(str(k), b""))
    assert refused(opener, sealer.seal("one more", b"")) == ("eu", "topic")
    only = Opener(opener.circle, topics={"weights"})
    assert refused(only, sealer.seal("other", b"")) == ("eu", "topic")
