import pytest

from ddol.estimators.arrival import AgentNames


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
