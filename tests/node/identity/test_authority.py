"""Joining, renewing and revoking, as members and as others would try it."""

from __future__ import annotations

import stat
from datetime import timedelta

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ddol.node.identity import authority as authority_module
from ddol.node.identity import certificates as crt
from ddol.node.identity.authority import Authority
from ddol.node.identity.envelope import Sealer
from ddol.node.identity.letters import JoinRequest, vouch, voucher_key
from ddol.node.identity.member import Identity, ask_to_join, take_answer
from ddol.node.identity.roster import signed_roster
from ddol.node.identity.upkeep import Upkeep
from ddol.streams.errors import DataError


def test_a_site_joins_and_its_key_stays(authority, tmp_path):
    letter = ask_to_join(authority.invite("eu"), tmp_path / "eu")
    key = (tmp_path / "eu" / "member.key").read_bytes()
    identity = take_answer(tmp_path / "eu", authority.answer(letter))
    assert (identity.name, identity.role) == ("eu", "member")
    assert identity.roster.members == {"eu": "member"}
    assert crt.issued_by(identity.certificate, authority.certificate)
    raw = crt.load_key(tmp_path / "eu" / "member.key").private_bytes_raw()
    assert raw not in letter.request and key not in msgspec.msgpack.encode(letter)
    for file in (tmp_path / "net").iterdir():
        assert raw not in file.read_bytes(), "the authority has the site's key"


def test_files_are_for_their_owner_only(authority, member, tmp_path):
    identity = member("eu")
    Sealer(identity).seal("weights", b"")
    for folder in (authority.folder, identity.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("mode", (0o640, 0o604, 0o620))
def test_a_key_that_others_can_read_is_refused(member, mode):
    identity = member("eu")
    (identity.folder / "member.key").chmod(mode)
    with pytest.raises(DataError, match=r"others may read or change this file.*chmod 600"):
        Identity(identity.folder)


def test_a_folder_that_others_can_enter_is_refused(authority):
    authority.folder.chmod(0o755)
    with pytest.raises(DataError, match="chmod 700"):
        Authority(authority.folder)


def test_an_invitation_is_valid_once(authority, tmp_path):
    invitation = authority.invite("eu")
    first = ask_to_join(invitation, tmp_path / "one")
    authority.answer(first)
    with pytest.raises(DataError, match="has been used already"):
        authority.answer(ask_to_join(invitation, tmp_path / "other"))
    # The same site may ask again: the answer could have been lost on its way.
    assert take_answer(tmp_path / "one", authority.answer(first)).name == "eu"


def test_an_invitation_expires(authority, tmp_path):
    invitation = authority.invite("eu", valid=timedelta(seconds=-2))
    with pytest.raises(DataError, match="has expired"):
        authority.answer(ask_to_join(invitation, tmp_path / "eu"))


def test_a_new_invitation_takes_the_place_of_the_old_one(authority, tmp_path):
    old = authority.invite("eu")
    authority.invite("eu")
    with pytest.raises(DataError, match="no invitation"):
        authority.answer(ask_to_join(old, tmp_path / "eu"))


def test_nobody_puts_another_key_into_a_request(authority, tmp_path):
    letter = ask_to_join(authority.invite("eu"), tmp_path / "eu")
    own = crt.signing_request(Ed25519PrivateKey.generate(), "eu")
    guess = vouch(voucher_key(b"guess"), "eu", own)
    for forged in (
        JoinRequest("eu", own, letter.voucher),
        JoinRequest("eu", own, guess),
        JoinRequest("eu", own),
        JoinRequest("us", letter.request, letter.voucher),
    ):
        with pytest.raises(DataError):
            authority.answer(forged)


def test_a_request_without_its_key_is_refused(authority, tmp_path):
    invitation = authority.invite("eu")
    letter = ask_to_join(invitation, tmp_path / "eu")
    broken = bytearray(letter.request)
    broken[-1] ^= 1
    key = voucher_key(invitation.secret)
    with pytest.raises(DataError, match="not valid"):
        authority.answer(JoinRequest("eu", bytes(broken), vouch(key, "eu", bytes(broken))))


def test_an_answer_of_another_authority_is_refused(authority, tmp_path):
    other = Authority.new(tmp_path / "other", "trial")
    ask_to_join(authority.invite("eu"), tmp_path / "eu")
    theirs = ask_to_join(other.invite("eu"), tmp_path / "x")
    with pytest.raises(DataError, match="another authority"):
        take_answer(tmp_path / "eu", other.answer(theirs))


def test_an_answer_for_another_key_is_refused(authority, tmp_path):
    stolen = authority.answer(ask_to_join(authority.invite("us"), tmp_path / "us"))
    ask_to_join(authority.invite("eu"), tmp_path / "eu")
    with pytest.raises(DataError, match="'eu'"):
        take_answer(tmp_path / "eu", stolen)


def test_a_name_that_means_several_is_refused(authority):
    for name in ("*", "eu/**", "", "eu ", "authority", "a" * 65, "eu\n", ".."):
        with pytest.raises(DataError):
            authority.invite(name)


def test_a_name_is_taken_once(authority, member):
    member("eu")
    for name in ("eu", "EU"):
        with pytest.raises(DataError, match="is a member already"):
            authority.invite(name)


def test_a_revoked_site_is_replaced_on_new_hardware(authority, member, tmp_path):
    old = member("eu")
    authority.revoke("eu")
    folder = tmp_path / "new"
    fresh = take_answer(folder, authority.answer(ask_to_join(authority.invite("eu"), folder)))
    assert old.look_for_roster() and old.is_revoked
    assert not fresh.is_revoked
    with pytest.raises(DataError, match=r"not the one of member|revoked"):
        authority.answer(old.request_renewal())


def test_a_revoked_key_never_joins_again(authority, member):
    identity = member("eu")
    authority.revoke("eu")
    (identity.folder / "member.pem").unlink()
    with pytest.raises(DataError, match="this key has been revoked"):
        authority.answer(ask_to_join(authority.invite("eu"), identity.folder))


def test_a_certificate_is_renewed_by_itself(authority, member, monkeypatch):
    monkeypatch.setattr(authority_module, "LIFE", timedelta(seconds=20))
    identity = member("eu")  # valid from five minutes ago on: more than two thirds have passed
    monkeypatch.setattr(authority_module, "LIFE", timedelta(days=90))
    before, version = identity.expires, identity.version
    news = Upkeep(identity, Sealer(identity))()
    assert any("is renewed until" in line for line in news)
    assert identity.expires > before and identity.version > version
    assert identity.renew_if_due() is None


def test_a_renewal_that_fails_is_told_and_tried_again(authority, member, monkeypatch):
    monkeypatch.setattr(authority_module, "LIFE", timedelta(seconds=20))
    identity = member("eu")
    authority.folder.rename(authority.folder.with_name("away"))
    assert "cannot be renewed" in (identity.renew_if_due() or "")


def test_a_roster_goes_from_member_to_member_and_never_back(authority, member):
    eu, us = member("eu"), member("us")
    eu.look_for_roster()
    first = eu.roster_bytes
    authority.revoke("us")
    newest = authority.roster
    assert eu.hear_roster(newest) and us.hear_roster(newest)
    assert us.is_revoked and "us" not in eu.roster.members
    assert not eu.hear_roster(first), "an older roster"
    assert Identity(eu.folder).roster.number == eu.roster.number


def test_a_roster_of_a_stranger_is_refused(authority, member):
    eu = member("eu")
    better = msgspec.structs.replace(eu.roster, number=99, revoked={})
    assert not eu.hear_roster(signed_roster(Ed25519PrivateKey.generate(), better))
    assert not eu.hear_roster(b"")
    # Signed by the authority, for another purpose.
    sealed = Sealer(eu).seal("roster", b"")
    assert not eu.hear_roster(sealed)


def test_members_on_this_machine_hear_of_a_revocation_by_themselves(authority, member):
    eu, us = member("eu"), member("us")
    upkeep = Upkeep(eu, Sealer(eu))
    upkeep()
    authority.revoke("us")
    version = eu.version
    assert "us is no longer a member" in upkeep()
    assert eu.version == version + 1
    assert any("has been revoked" in line for line in Upkeep(us, Sealer(us))())


def test_news_that_another_member_brought_are_told_too(authority, member):
    eu, us = member("eu"), member("us")
    upkeep, theirs = (Upkeep(each, Sealer(each)) for each in (eu, us))
    upkeep(), theirs()
    authority.revoke("us")
    for each in (eu, us):
        assert each.hear_roster(authority.roster)
    assert upkeep() == ["us is no longer a member"]
    assert "us has been revoked: its peers take nothing from it any more" in theirs()
    assert theirs() == []
