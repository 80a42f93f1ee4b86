"""Every campaign, in short: `make hostile` has them at length."""

from __future__ import annotations

import pytest
from tests.hostile.campaigns import CAMPAIGNS, survey


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_no_crash_and_no_other_result(name):
    wrong, crashes = survey(name, 150)
    assert (wrong, crashes) == ({}, 0)
