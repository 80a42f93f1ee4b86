"""How many examples lie between two messages, by node.toml."""

from __future__ import annotations

import pytest

from ddol.node.config import NetworkConfig, read_config
from ddol.streams.errors import DataError


def test_others_hear_sums_of_a_hundred_examples_at_least():
    assert NetworkConfig(identity="eu-identity").fewest == 100
    assert NetworkConfig(identity="eu-identity", least=500).fewest == 500
    assert NetworkConfig(identity="eu-identity", least=10).fewest == 10
    assert NetworkConfig().fewest == 1  # nodes of one machine


def test_fewer_than_one_is_refused():
    model = {"algorithm": "adaptive", "loss": "logistic"}
    with pytest.raises(DataError, match="least"):
        read_config({"name": "eu", "model": model, "network": {"least": 0}})
