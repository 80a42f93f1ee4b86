import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddol.estimators.arrival import AgentNames, table_by_arrival
from ddol.streams.dealing import table_round_robin


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 30))
def test_turns_by_arrival_are_round_robin(n_agents, batch, n_rows):
    agents = np.arange(n_rows) % n_agents
    expected = table_round_robin(n_rows, n_agents, batch)
    np.testing.assert_array_equal(table_by_arrival(agents, n_agents, batch), expected)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(1, 3))
def test_every_row_reaches_its_agent_once_and_in_order(agents, batch):
    table = table_by_arrival(agents, 3, batch)
    for agent in range(3):
        dealt = table[:, agent].ravel()
        expected = [k for k, a in enumerate(agents) if a == agent]
        assert dealt[dealt >= 0].tolist() == expected


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_rounds_depend_on_no_later_row(agents):
    whole = table_by_arrival(agents, 3, 1)
    part = table_by_arrival(agents[:-1], 3, 1)
    np.testing.assert_array_equal(whole[: len(part) - 1], part[:-1])


def test_names_keep_their_numbers_when_others_come():
    names = AgentNames()
    assert names.numbers(["b", "a"]).tolist() == [1, 0]
    assert names.numbers(["c", "a"]).tolist() == [2, 0]


def test_names_of_a_stream_are_numbered_as_they_come():
    names = AgentNames(by_arrival=True)
    assert names.numbers(["c", "a", "b", "a"]).tolist() == [0, 1, 2, 1]


def test_whole_numbers_are_themselves():
    assert AgentNames().numbers([3, 0], n_agents=4).tolist() == [3, 0]


def test_too_many_agents_are_refused_with_the_number_to_set():
    with pytest.raises(ValueError, match="names 3 agents, expected at most 2; set n_agents=3"):
        AgentNames().numbers(["a", "b", "c"], n_agents=2)


def test_negative_numbers_are_refused():
    with pytest.raises(ValueError, match="numbered from 0, found -1"):
        AgentNames().numbers([0, -1])
