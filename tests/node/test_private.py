"""A node with a privacy budget: what is fixed beforehand, what survives a restart, what is shown."""

from __future__ import annotations

import numpy as np
import pytest

import ddol
from ddol.node.config import read_config
from ddol.node.errors import NodeError
from ddol.node.messages import read_message
from ddol.node.metrics import Latency, exposition
from ddol.node.replay import replay_store

ALGORITHM = ddol.private(ddol.adaptive(), "epsilon:4,every:20,releases:3")
FIXED = {"columns": ["age", "bp", "country=fr"], "classes": ["no", "yes"]}


def learn(node: ddol.Node, count: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for age, bp in rng.standard_normal((count, 2)):
        country = "fr" if bp > 0 else "Planted"
        x = {"age": age, "bp": bp, "country": country, "planted name": 17.25}
        node.learn(x, "yes" if age > bp else "no")


def node_in(folder, **more) -> ddol.Node:
    return ddol.Node("eu", ALGORITHM, store=folder / "eu", **{**FIXED, **more})


def test_messages_have_no_name_that_was_not_fixed(tmp_path):
    with node_in(tmp_path) as node:
        learn(node, 30)
        blob = node.message()
    said = read_message(blob)
    assert said.schema["names"] == FIXED["columns"] and said.schema["kinds"] == {}
    assert b"lanted" not in blob and said.columns.tolist() == [0, 1, 2, 3]


def test_which_columns_a_node_has_met_is_not_told(tmp_path):
    with node_in(tmp_path) as node:
        for k in range(30):
            node.learn({"age": k}, "yes" if k % 2 else "no")
        said = read_message(node.message())
    assert said.columns.tolist() == [0, 1, 2, 3] and (said.numbers[0][:4] != 0.0).all()


def test_what_is_spent_and_the_noise_survive_a_node_that_is_killed(tmp_path):
    node = node_in(tmp_path)
    learn(node, 50)
    before, said = node.state()["privacy"], read_message(node.message()).numbers
    node.flush()
    node.journal.close()  # killed: no snapshot
    with node_in(tmp_path) as again:
        assert again.state()["privacy"] == before and 0.0 < before["spent"] < 4.0
        assert (read_message(again.message()).numbers == said).all()
        learn(again, 50, seed=1)
        ended = again.state()["privacy"]
        assert ended["used_up"] and ended["spent"] <= 4.0
        last = read_message(again.message()).numbers
        learn(again, 50, seed=2)  # it goes on learning alone
        assert (read_message(again.message()).numbers == last).all()
        assert again.predict({"age": 2.0, "bp": -2.0}).label == "yes"
    assert (tmp_path / "eu/privacy.json").stat().st_mode & 0o777 == 0o600
    assert replay_store(tmp_path / "eu").wrong == []


def test_the_budget_is_shown(tmp_path):
    with node_in(tmp_path) as node:
        learn(node, 50)
        text = exposition({"default": node.state()}, {}, Latency())
        spent = node.state()["privacy"]["spent"]
    assert f'ddol_privacy_epsilon_spent{{model="default"}} {spent:.10g}' in text


def test_a_store_keeps_its_budget(tmp_path):
    with node_in(tmp_path) as node:
        learn(node, 50)
    other = ddol.private(ddol.adaptive(), "epsilon:8,every:20,releases:3")
    with pytest.raises(NodeError, match=r"found the privacy budget epsilon 8.*expected epsilon 4"):
        ddol.Node("eu", other, store=tmp_path / "eu", **FIXED)


def test_noise_is_not_drawn_again_for_what_was_sent(tmp_path):
    """A journal without its end would release other examples with the same noise."""
    node = node_in(tmp_path)
    learn(node, 30)
    node.message()
    node.flush()
    whole = {path: path.read_bytes() for path in (tmp_path / "eu").glob("*.log")}
    learn(node, 30, seed=1)
    node.message()  # two releases
    node.flush()
    node.journal.close()
    assert whole
    for path, text in whole.items():
        path.write_bytes(text)
    with pytest.raises(NodeError, match=r"1 releases, but 2 were sent"):
        node_in(tmp_path)


def test_nothing_in_a_message_moves_until_the_next_release(tmp_path):
    """Neither numbers nor columns nor the header tell of an example before, and labels do not matter."""
    import shutil

    with node_in(tmp_path) as node:
        learn(node, 25)
    messages = []
    for k in range(2):
        place = tmp_path / f"copy{k}"
        shutil.copytree(tmp_path / "eu", place / "eu")
        with node_in(place) as node:
            for j in range(10):
                node.learn({"age": (-1e6) ** k * j, "country": "fr"}, "no" if k else "yes")
            messages.append(read_message(node.message())._asdict())
    one, two = messages
    assert (one.pop("numbers") == two.pop("numbers")).all()
    assert (one.pop("columns") == two.pop("columns")).all()
    assert {k: v for k, v in one.items() if k != "number"} == {
        k: v for k, v in two.items() if k != "number"
    }


@pytest.mark.parametrize("name", ("store", "classes", "columns"))
def test_what_must_be_fixed_beforehand_is_asked_for(name, tmp_path):
    options = {"store": tmp_path / "eu", **FIXED, name: None}
    with pytest.raises(NodeError, match=f"needs `{name}`"):
        ddol.Node("eu", ALGORITHM, **options)


def test_node_toml_has_a_budget():
    told = {"name": "eu", "store": "s", "privacy": "epsilon:4", **FIXED}
    algorithm = read_config(told).models["default"].algorithm
    assert algorithm.privacy.epsilon == 4.0 and algorithm.safe and algorithm.trust == "all"
    wrong = {"privacy": "epsilon:0"}, {"safe": False}, {"initial": "m.ddol"}
    for table in wrong:
        with pytest.raises(NodeError, match=r"\[model\] "):
            read_config({**told, "model": table})
    with pytest.raises(NodeError, match="drift"):
        read_config({**told, "network": {"exchange": "drift:0.1"}})


def test_private_and_other_nodes_do_not_average(tmp_path):
    plain = ddol.Node("us", ddol.safe(ddol.adaptive()), **FIXED)
    with node_in(tmp_path) as node:
        learn(node, 30)
        with pytest.raises(NodeError, match="another algorithm"):
            plain.receive(node.message())
