import numpy as np
import pytest

from ddol.estimators.agent_ids import AgentIds


def test_ids_keep_their_numbers_when_others_come():
    ids = AgentIds()
    assert ids.numbers(["b", "a"]).tolist() == [1, 0]
    assert ids.numbers(["c", "a"]).tolist() == [2, 0]


def test_ids_of_a_stream_are_numbered_as_they_come():
    ids = AgentIds(as_they_come=True)
    assert ids.numbers(["c", "a", "b", "a"]).tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("given", [[1001, 2002, 1001], [-5, 7, -5], ["a", "b", "a"], [0, 2, 0]])
def test_agents_are_the_distinct_ids_in_rising_order(given):
    ids = AgentIds()
    assert ids.numbers(given[::-1]).tolist() == [0, 1, 0]
    assert ids.known == sorted(set(given))


def test_whole_numbers_are_themselves_where_all_agents_are_known():
    assert AgentIds(n_agents=4).numbers([3, 0], n_agents=4).tolist() == [3, 0]
    assert AgentIds(n_agents=4).numbers([3, 9], n_agents=4).tolist() == [0, 1]


def test_too_many_agents_are_refused_with_the_number_to_set():
    with pytest.raises(ValueError, match="names 3 agents, expected at most 2; set n_agents=3"):
        AgentIds().numbers(["a", "b", "c"], n_agents=2)


def test_strangers_are_refused_by_name():
    ids = AgentIds()
    ids.numbers(np.array(["Bern", "Lyon"]))
    assert ids.known_numbers(["Lyon"], 2).tolist() == [1]
    with pytest.raises(ValueError, match="found the agent 'Rome', expected one of those learned"):
        ids.known_numbers(["Lyon", "Rome"], 2)


def test_agents_that_took_turns_have_their_numbers():
    assert AgentIds().known_numbers([2, 0], 3).tolist() == [2, 0]
    with pytest.raises(
        ValueError, match="found the agent 3, expected one of those learned from: 0, 1, 2"
    ):
        AgentIds().known_numbers([3], 3)


@pytest.mark.parametrize("given", [[1.0, np.nan], ["a", None], [1, float("nan")]])
def test_a_row_that_names_no_agent_is_refused(given):
    with pytest.raises(ValueError, match=r"`agents`: found (nan|None) in row 1"):
        AgentIds().numbers(given)
