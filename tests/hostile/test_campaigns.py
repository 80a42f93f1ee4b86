"""Every campaign, in short: `make hostile` has them at length."""

from __future__ import annotations

import pytest
from tests.hostile.campaigns import CAMPAIGNS, survey

LONG = ("processes", "ray_actors")
SHORT = [campaign for campaign in CAMPAIGNS if campaign.module not in LONG]


@pytest.mark.parametrize("campaign", SHORT, ids=lambda campaign: campaign.function)
def test_no_crash_and_nothing_wrong(campaign):
    wrong, crashes = survey(campaign, max(120 // campaign.every, 1))
    assert (wrong, crashes) == ({}, 0)
