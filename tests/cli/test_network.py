"""``ddol network``, as an authority and as sites would use it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tomllib

import pytest

from ddol.node.identity.envelope import Sealer
from ddol.node.identity.member import Identity
from ddol.node.identity.upkeep import Upkeep


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_network_on_one_machine(ddol, here):
    assert ddol("network", "new", "net").exit_code == 0
    (here / "node.toml").write_text('name = "eu"\n\n[network]\nexchange = "1s"\n')
    for name in ("eu", "us"):
        invitation = ddol("network", "invite", name).stdout
        joined = ddol("network", "join", "-", stdin=invitation)
        assert joined.exit_code == 0, joined.stderr
    config = tomllib.loads((here / "node.toml").read_text())
    assert config == {"name": "eu", "network": {"identity": "eu-identity", "exchange": "1s"}}
    assert 'identity = "us-identity"' in joined.stdout

    assert ddol("network", "revoke", "us").exit_code == 0
    told = json.loads(ddol("network", "show", "--json").stdout)
    assert (told["network"], told["roster"], len(told["fingerprint"])) == ("net", 4, 64)
    shown = told["members"]
    assert {row["name"]: row["state"] for row in shown} == {"eu": "member", "us": "revoked"}
    assert all(row["seen"] and row["expires"] > row["seen"] for row in shown)
    assert "us (REVOKED)" in ddol("network", "show", "--folder", "us-identity").stdout


def test_a_site_that_reaches_nobody_joins_by_files(ddol, here):
    ddol("network", "new", "net", "--address", "authority.invalid:7443")
    invitation = ddol("network", "invite", "eu", "--files").stdout.strip()
    assert ddol("network", "join", invitation, "--request", "eu.request").exit_code == 0
    assert ddol("network", "sign", "eu.request", "--out", "eu.answer").exit_code == 0
    assert ddol("network", "join", "--answer", "eu.answer").exit_code == 0
    folder = "eu-identity"
    assert ddol("network", "renew", "--folder", folder, "--request", "again").exit_code == 0
    away = ddol("network", "renew", "--folder", folder)
    assert away.exit_code == 1 and "cannot be reached" in away.stderr
    answer = ddol("network", "sign", "again").stdout
    assert (
        ddol("network", "renew", "--folder", folder, "--answer", "-", stdin=answer).exit_code == 0
    )


def test_a_site_by_files_knows_no_path_of_the_authority(ddol, here):
    ddol("network", "new", "net")
    invitation = ddol("network", "invite", "eu", "--files").stdout.strip()
    ddol("network", "join", invitation, "--request", "eu.request")
    ddol("network", "sign", "eu.request", "--out", "eu.answer")
    assert ddol("network", "join", "--answer", "eu.answer").exit_code == 0
    assert str(here) not in (here / "eu-identity" / "settings.json").read_text()
    result = ddol("network", "renew", "--folder", "eu-identity")
    assert result.exit_code == 2 and "use files" in result.stderr


def test_an_answer_finds_its_folder(ddol, here):
    ddol("network", "new", "net")
    for name in ("eu", "us", "ap"):
        invitation = ddol("network", "invite", name, "--files").stdout.strip()
        ddol("network", "join", invitation, "--request", name)
    ddol("network", "sign", "us", "--out", "answer")
    assert "identity of us" in ddol("network", "join", "--answer", "answer").stdout
    again = ddol("network", "join", "--answer", "answer")
    assert again.exit_code == 2 and "found no folder with a request for this answer" in again.stderr


def test_an_invitation_by_a_folder_of_another_machine_says_what_to_do(ddol, here):
    ddol("network", "new", "net")
    invited = ddol("network", "invite", "eu")
    assert "on this machine only" in invited.stderr
    (here / "net").rename(here / "elsewhere")
    result = ddol("network", "join", invited.stdout.strip())
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "is not on this machine; join by files" in result.stderr
    assert ddol("network", "revoke", "eu").stdout == "the invitation for eu is revoked\n"
    again = ddol("network", "revoke", "eu")
    assert again.exit_code == 2 and "has been revoked already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("invite", "eu"), "which authority"),
        (("show", "--folder", "nothing"), "no authority in this folder"),
        (("join", "hello"), "expected a line that begins with ddol-invitation-"),
        (("join", "ddol-invitation-AAAA"), "damaged"),
        (("join",), "either an invitation or --answer"),
        (("join", "--answer", "nothing"), "cannot be read"),
        (("renew", "--folder", "nothing"), "no identity in this folder"),
        (("new", "x", "--address", "nowhere"), "expected host:port"),
        (("new", "x", "--name", "a b"), "expected 1 to 64"),
    ],
)
def test_what_cannot_be_is_one_line(ddol, here, arguments, said):
    result = ddol("network", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr and result.stderr.count("\n") == 1


def test_an_authority_that_is_away_is_one_line(ddol, here):
    ddol("network", "new", "net", "--address", "127.0.0.1:9")
    result = ddol("network", "join", ddol("network", "invite", "eu").stdout.strip())
    assert result.exit_code == 1
    assert "cannot be reached" in result.stderr and result.stderr.count("\n") == 1


@pytest.fixture
def endpoint(ddol, here):
    """An authority that serves, and its address."""
    ddol("network", "new", "net")
    words = [sys.executable, "-m", "ddol", "network", "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        found = re.search(r"at (127\.0\.0\.1:\d+)", process.stderr.readline())
        assert found, process.stderr.read()
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def test_sites_join_over_https_and_hear_of_revocations(ddol, here, endpoint):
    for name in ("eu", "us"):
        invitation = ddol("network", "invite", name).stdout.strip()
        joined = ddol("network", "join", invitation)
        assert joined.exit_code == 0, joined.stderr
    again = ddol("network", "join", invitation, "--folder", "thief")
    assert again.exit_code == 2 and "has been used already" in again.stderr

    eu = Identity("eu-identity")
    assert eu.settings.address == endpoint
    assert "us is a member now" in Upkeep(eu, Sealer(eu))()
    ddol("network", "revoke", "us")
    assert "us is no longer a member" in Upkeep(eu, Sealer(eu))()
    eu.renew()

    us = Identity("us-identity")
    told = Upkeep(us, Sealer(us))()
    assert any("revoked" in line for line in told), "a revoked member learns nothing more"


def test_an_endpoint_of_another_authority_is_not_joined(ddol, here, endpoint):
    ddol("network", "new", "other", "--address", endpoint)
    invitation = ddol("network", "invite", "eu", "--folder", "other").stdout.strip()
    result = ddol("network", "join", invitation)
    assert result.exit_code == 2 and "its fingerprint differs" in result.stderr


def test_a_token_is_printed_once(ddol, here):
    token = ddol("network", "token", "token", "--name", "shop").stdout.strip()
    assert token.startswith("ddol-") and token not in (here / "token").read_text()
