"""What only members can read, and what a member can do to the others by saying too much."""

from __future__ import annotations

import logging

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ddol.node.identity.envelope import STRANGER, Sealer
from ddol.node.identity.letters import JoinRequest
from ddol.node.identity.member import ask_to_join
from ddol.node.identity.signed import sign, unpacked
from ddol.node.transport import seals as module
from ddol.node.transport.seals import SignedSeals
from ddol.streams.errors import DataError

SECRET = np.random.default_rng(0).standard_normal(500).tobytes()


@pytest.fixture
def seals(member):
    """Those of three members and a relay, who all know the newest roster."""
    identities = [member(name) for name in ("eu", "us", "ap")] + [member("relay", "relay")]
    for identity in identities:
        identity.look_for_roster()
    return {identity.name: SignedSeals(identity) for identity in identities}


def test_members_read_and_relays_do_not(seals):
    sealed = seals["eu"].seal("m/weights", SECRET)
    assert SECRET[:8] not in sealed and len(sealed) < len(SECRET) + 2048
    for name in ("us", "ap"):
        assert seals[name].open("m/weights", "eu", sealed) == ("eu", SECRET)
    assert seals["relay"].open("m/weights", "eu", sealed) is None
    assert seals["relay"].refused == {("eu", "unreadable"): 1}
    body = msgspec.msgpack.decode(unpacked(sealed).body)
    assert set(msgspec.msgpack.decode(body[-1])[0]) == {"us", "ap"}


def test_a_revoked_member_reads_nothing_of_what_comes_later(seals, authority):
    authority.revoke("ap")
    seals["eu"].identity.look_for_roster()
    sealed = seals["eu"].seal("m/weights", SECRET)
    assert seals["ap"].open("m/weights", "eu", sealed) is None
    assert seals["us"].open("m/weights", "eu", sealed) == ("eu", SECRET)


def test_a_ciphertext_is_of_its_sender_and_topic(seals):
    """A member that signs what another one has encrypted is not taken for its author."""
    eu, us, ap = (seals[name].identity for name in ("eu", "us", "ap"))
    stolen = eu.encrypt("m/weights", SECRET)
    for sealer, topic in ((Sealer(us), "m/weights"), (Sealer(eu), "other/weights")):
        sealed = sealer.seal(topic, stolen)
        assert seals["ap"].open(topic, sealer.identity.name, sealed) is None
    assert ap.decrypt("eu", "m/weights", stolen) == SECRET


def test_a_message_that_comes_by_the_key_of_another_is_refused(seals):
    assert seals["ap"].open("m/weights", "us", seals["eu"].seal("m/weights", SECRET)) is None
    assert seals["ap"].refused == {("eu", "forged"): 1}


def test_a_relay_says_nothing_on_its_own_account(seals):
    assert seals["ap"].open("m/weights", "relay", seals["relay"].seal("m/weights", SECRET)) is None
    assert seals["ap"].refused == {("relay", "role"): 1}
    assert not seals["ap"].knows("relay") and seals["ap"].knows("us")


def test_a_member_that_floods_is_limited_and_the_others_are_heard(seals, monkeypatch, caplog):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    flood = [seals["us"].seal("m/weights", b"%d" % k) for k in range(300)]
    with caplog.at_level(logging.WARNING, "ddol.node"):
        taken = sum(seals["ap"].open("m/weights", "us", each) is not None for each in flood)
    assert taken == 100 and seals["ap"].refused == {("us", "too many"): 200}
    assert len(caplog.records) == 3  # the first, the tenth and the hundredth
    assert seals["ap"].open("m/weights", "eu", seals["eu"].seal("m/weights", SECRET))
    now[0] += 1.0  # it is heard again, twenty times a second
    later = [seals["us"].seal("m/weights", b"%d" % k) for k in range(50)]
    assert sum(seals["ap"].open("m/weights", "us", each) is not None for each in later) == 20


def test_names_that_a_relay_makes_up_take_no_memory(seals, monkeypatch):
    monkeypatch.setattr(module.time, "monotonic", lambda: 100.0)
    for k in range(500):
        assert seals["ap"].open("m/weights", f"made-up-{k}", b"rubbish") is None
    assert set(seals["ap"].refused) == {(STRANGER, "malformed"), (STRANGER, "too many")}


def test_large_messages_count_as_many(seals, monkeypatch):
    monkeypatch.setattr(module.time, "monotonic", lambda: 100.0)
    assert [seals["ap"].within_limit("us", "m", 60 << 20) for _ in range(3)] == [True, False, False]
    assert seals["ap"].within_limit("us", "m", 1000)


def test_keys_that_nothing_can_be_encrypted_for_are_not_signed(authority, tmp_path):
    letter = ask_to_join(authority.invite("eu"), tmp_path / "eu")
    fresh = X25519PrivateKey.generate().public_key().public_bytes_raw()
    own = Ed25519PrivateKey.generate()
    damaged = letter.sealing[:-1] + bytes([letter.sealing[-1] ^ 1])
    wrong = b"", b"x", sign(own, "sealing", fresh), damaged
    for sealing in wrong:
        with pytest.raises(DataError, match="encrypted messages"):
            authority.answer(JoinRequest("eu", letter.request, letter.voucher, sealing))
    weak = msgspec.structs.replace(letter, sealing=_signed_by_site(tmp_path / "eu", bytes(32)))
    with pytest.raises(DataError, match="encrypted messages"):
        authority.answer(weak)
    assert authority.answer(letter).certificate


def _signed_by_site(folder, public: bytes) -> bytes:
    from ddol.node.identity.certificates import load_key

    return sign(load_key(folder / "member.key"), "sealing", public)
