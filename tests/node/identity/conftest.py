"""A network on this machine, in temporary folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ddol.node.identity.authority import Authority
from ddol.node.identity.member import Identity, ask_to_join, take_answer


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path / "net", "trial")


@pytest.fixture
def member(authority: Authority, tmp_path: Path) -> Callable[..., Identity]:
    """Have a site join the network, in a folder of its own."""

    def join(name: str, role: str = "member") -> Identity:
        folder = tmp_path / f"{name}-identity"
        invitation = authority.invite(name, role)
        return take_answer(folder, authority.answer(ask_to_join(invitation, folder)))

    return join
