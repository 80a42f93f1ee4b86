"""The node in process: predictions, labels that come late or twice, messages."""

from __future__ import annotations

import contextlib
import math
import threading
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import ddol
from ddol.node.errors import NodeError, RefusedMessageError
from ddol.node.messages import algorithm_digest, read_message
from small_nodes import examples, make, taught


def test_a_node_learns_what_a_run_learns():
    """One row at a time through a node is one pass of `ddol.run`, to rounding."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 5))
    y = np.sign(X @ [1, -1, 0.5, 0, 2] + 0.1)
    node = make(n_features=5, classes=[-1.0, 1.0])
    node.learn_many(X, y)
    with_ones = np.hstack([np.ones((400, 1)), X])
    trace = ddol.run(ddol.adaptive("logistic"), (with_ones, y))
    np.testing.assert_allclose(node.weights()[0], trace.weights[0, 0], rtol=1e-9)
    assert node.state()["error"] == trace.error


@pytest.mark.parametrize("preset", ["adaptive", "coin", "dogd", "newton", "dual_averaging"])
def test_arrays_and_names_learn_the_same(preset):
    rows, labels = examples()
    named, arrays = (ddol.Node("n", getattr(ddol, preset)("logistic")) for _ in range(2))
    for x, y in zip(rows, labels, strict=True):
        named.learn(x, y)
        arrays.learn(list(x.values()), y)
    p, q = named.predict(rows[0]), arrays.predict(list(rows[0].values()))
    assert p.label == q.label and math.isclose(p.scores[0], q.scores[0], rel_tol=1e-6)


def test_a_line_and_a_row_of_a_frame_are_dictionaries():
    node = taught()
    x = {"a": 0.5, "b": -1.0, "c": 2.0}
    frame = pd.DataFrame([x])
    scores = [node.predict(given).scores for given in (x, "1 | a:0.5 b:-1 c:2", frame.iloc[0])]
    assert scores[0] == scores[1] == scores[2] == node.predict_many(frame)[0].scores


def test_text_is_a_feature_of_its_own():
    node = make()
    for _ in range(20):
        node.learn({"country": "fr", "n": 1}, "yes")
        node.learn({"country": "de", "n": 1}, "no")
    assert node.predict({"n": 1, "country": "de"}).label == "no"
    assert node.predict({"country": "fr", "n": 1}).label == "yes"
    assert node.classes == ["yes", "no"]


def test_hashed_columns_that_fall_together_add_up():
    node = make(hash_bits=2, classes=[0, 1])
    x = {f"f{k}": float(k) for k in range(12)}
    node.learn(x, 1)
    row = node.read(lambda agent: agent.features.row(x))
    assert (np.diff(row.columns.astype(int)) > 0).all() and len(row.columns) <= 5
    assert math.isclose(abs(row.values[1:]).sum() % 1.0, 0.0)


def test_answers_are_told_apart():
    node = make(waiting=2)
    for name in "abc":
        node.predict({"x": 1.0}, id=name)
    became = [node.answer(n, True) for n in ("a", "b", "b", "z")]
    assert became == ["expired", "accepted", "duplicate", "unknown"]
    assert node.state()["examples"] == 1


def test_an_answered_identifier_does_not_wait_again():
    node = make()
    node.predict({"x": 1.0}, id="a")
    node.answer("a", True)
    node.predict({"x": 1.0}, id="a")
    assert node.answer("a", True) == "duplicate" and node.state()["examples"] == 1


def test_predictions_expire(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("ddol.node.waiting.time.monotonic", lambda: now[0])
    node = make(expire="10s")
    node.predict({"x": 1.0}, id="a")
    now[0] += 11.0
    assert node.answer("a", True) == "expired"


def test_what_cannot_be_learned_is_not_in_the_journal(tmp_path):
    """Else the node could not be started again."""
    node = make(store=tmp_path / "a")
    for k in range(1024):
        node.learn({"x": 1.0}, f"c{k}")
    with pytest.raises(NodeError, match="after 1,024 others"):
        node.learn({"x": 1.0}, "one more")
    node.journal.close()
    assert make(store=tmp_path / "a").state()["examples"] == 1024
    squared = {"algorithm": ddol.adaptive("squared"), "store": tmp_path / "b"}
    node = ddol.Node("n", **squared)
    with pytest.raises(NodeError, match="below 1e100"):
        node.learn({"x": 1.0}, 1e300)
    node.journal.close()
    assert ddol.Node("n", **squared).state()["examples"] == 0


@pytest.mark.parametrize(
    "label", [float("inf"), float("nan"), 10**30, None, [1], "\ud800", "x" * 1001]
)
def test_labels_that_could_not_be_told_are_refused(label):
    node = make()
    with pytest.raises(NodeError, match="label"):
        node.learn({"x": 1.0}, label)
    assert node.classes == []


def test_values_of_other_types():
    node = make()
    node.learn({"a": np.str_("fr"), "b": Decimal("1.5"), "c": np.float32(2.0), "d": True}, True)
    assert node.read(lambda agent: agent.features.names) == ["a=fr", "b", "c", "d"]
    for strange in (b"12", 1e200, [1.0], "\ud800"):
        with pytest.raises(NodeError, match="feature"):
            node.learn({"x": strange}, True)
    with pytest.raises(NodeError, match="`id`"):
        node.predict({"x": 1.0}, id="\ud800")


def test_a_refused_example_decides_nothing():
    """Neither that features are text, nor that examples are arrays."""
    node = make()
    for x in ({"a": "text", "b": float("nan")}, [1.0, float("nan")], {"a": 1.0, "\ud800": 1.0}):
        with pytest.raises(NodeError):
            node.predict(x)
    node.learn({"a": 1.0, "b": "text"}, True)
    with pytest.raises(NodeError, match="'b': found a number"):
        node.learn({"c": 1.0, "b": 1.0}, True)
    node.learn({"c": "text"}, True)


def test_labels_that_come_before_a_message_is_averaged():
    """They may contradict its labels: it is refused, and the node goes on."""
    node, other = make(), ddol.Node("other", ddol.adaptive("logistic"), classes=["no", "yes"])
    other.learn({"x": 1.0}, "yes")
    node.receive(other.message(), mix=False)
    node.learn({"x": 1.0}, "maybe")
    assert not node.mix() and node.classes == ["maybe"]
    [peer] = node.state()["peers"]
    assert peer["reasons"] == {"schema": 1}


def test_an_answer_learns_the_row_that_was_predicted():
    rows, labels = examples()
    late, at_once = make(), make()
    for k, x in enumerate(rows):
        late.predict(x, id=str(k))
    for k, (x, y) in enumerate(zip(rows, labels, strict=True)):
        assert late.answer(str(k), y) == "accepted"
        at_once.learn(x, y)
    assert np.array_equal(late.weights(), at_once.weights())


@pytest.mark.parametrize(("first", "other"), [("yes", True), ("yes", 1), (1, "yes"), (2.5, "1")])
def test_texts_and_numbers_are_not_classes_of_one_node(first, other):
    node, peer = make(), make("us")
    with pytest.raises(NodeError, match="found the label"):
        node.answer_many([("a", first), ("b", other)])
    node.learn({"x": 1.0}, first)
    with pytest.raises(NodeError, match=f"beside {first}, expected"):
        node.learn({"x": 1.0}, other)
    assert node.classes == [first]
    peer.learn({"x": 1.0}, other)
    with pytest.raises(RefusedMessageError):
        node.receive(peer.message())


def test_a_label_is_known_by_its_text():
    """As in a file, and where `classes` are given."""
    node = make()
    node.learn({"x": 1.0}, "1")
    node.learn({"x": 1.0}, 1)
    assert node.classes == ["1"]


def test_an_algorithm_is_not_given_by_its_name():
    with pytest.raises(NodeError, match="`algorithm`: found 'adaptive', expected one such as"):
        ddol.Node("eu", "adaptive")
    with pytest.raises(TypeError, match="safe: found 'adaptive', expected an algorithm such as"):
        ddol.safe("adaptive")


def test_several_labels_are_checked_before_any_is_learned():
    node = make(classes=["no", "yes"])
    node.predict({"x": 1.0}, id="a")
    with pytest.raises(NodeError, match="found the label 'maybe', expected one of no, yes"):
        node.answer_many([("a", "yes"), ("b", "maybe")])
    assert node.answer("a", "yes") == "accepted"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"x": math.nan}, "feature 'x': found nan, expected a finite number"),
        ({"x": -1e200}, "feature 'x': found -1e\\+200, expected a finite number below 8e"),
        ({"x": [1]}, "feature 'x': found"),
        ([1.0], "found an array of 1 numbers, expected features by name"),
        ({"a": "text"}, "feature 'a': found a text, expected a number"),
        (3, "expected one row of numbers"),
        (np.ones((2, 3)), "found an array of shape .2, 3., expected one row"),
        (pd.DataFrame({"a": [1.0, 2.0]}), "found a frame of shape .2, 1.*predict_many"),
        ("no bar", "expected a line"),
    ],
)
def test_bad_examples_are_refused(x, message):
    node = taught(n=3)
    with pytest.raises(NodeError, match=message):
        node.predict(x)


def test_several_classes_grow_one_after_the_other():
    node = make()
    for _ in range(30):
        for k, label in enumerate(["low", "mid", "high"]):
            node.learn({"bias": 1.0, f"is{k}": 1.0}, label)
    p = node.predict({"bias": 1.0, "is2": 1.0})
    assert p.label == "high" and len(p.proba) == 3 and math.isclose(sum(p.proba), 1.0)


def test_a_regression_predicts_numbers():
    node = ddol.Node("n", ddol.adaptive("squared"))
    for k in range(300):
        node.learn({"x": float(k % 10)}, 2.0 * (k % 10) + 1.0)
    p = node.predict({"x": 4.0})
    assert abs(p.label - 9.0) < 1.0 and p.proba == []


def test_threads_lose_nothing():
    node = make(waiting=10_000)
    rows, labels = examples(400)

    def work(first):
        for k in range(first, 400, 4):
            node.predict(rows[k], id=str(k))
            assert node.answer(str(k), labels[k]) == "accepted"

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert node.state()["examples"] == 400 and node.state()["error_window"] < 0.2


# --- messages ---------------------------------------------------------------------------------------


def said_by_name(node):
    """What a node says of every feature."""
    columns, numbers = node.read(lambda agent: agent.learning.message())
    names = ["", *node.read(lambda agent: agent.features.names)]
    rows = node.read(lambda agent: agent.learning.message_rows())
    n = len(columns)
    body = numbers[0, : rows * n].reshape(rows, n)
    return {names[c]: body[:, k] for k, c in enumerate(columns)}, numbers[0, rows * n :]


def test_two_nodes_that_have_averaged_say_the_same_by_name():
    """Columns stand in another order at the other node, which has one more."""
    one, two = taught("one"), make("two")
    rows, labels = examples(300, seed=5)
    for x, y in zip(rows, labels, strict=True):
        two.learn({"extra": y * 1.0, **dict(reversed(x.items()))}, y)
    first, second = one.message(), two.message()
    one.receive(second)
    two.receive(first)
    (a, scalars), (b, others) = said_by_name(one), said_by_name(two)
    assert a.keys() == b.keys() == {"", "a", "b", "c", "extra"}
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scalars, others, rtol=1e-9)


def test_labels_and_columns_come_with_a_message():
    one, two = make("one"), make("two")
    for _ in range(30):
        one.learn({"price": 1.0, "country": "fr"}, "cheap")
        one.learn({"price": 9.0, "country": "fr"}, "dear")
    two.receive(one.message())
    assert two.predict({"price": 9.0, "country": "fr"}).label == "dear"
    two.learn({"price": 5.0, "country": "ch"}, "mid")
    one.receive(two.message())
    assert one.classes == ["cheap", "dear", "mid"]


def test_sites_of_other_units_of_offset_pool_their_spread():
    """A feature whose mean differs between two sites is not taken for a constant."""
    one, two = make("one"), make("two")
    rng = np.random.default_rng(0)
    for k in range(300):
        y = bool(k % 2)
        one.learn({"x": 100.0 + y + 0.1 * rng.standard_normal()}, y)
        two.learn({"x": -100.0 - y + 0.1 * rng.standard_normal()}, y)
    one.receive(two.message())
    squares = one.read(lambda agent: agent.learning.player.message(None))[0]
    count, spread = squares[1], squares[2 * 32 + 1]
    assert spread / count > 9000.0


@pytest.mark.parametrize("preset", ["adaptive", "coin", "newton", "dogd", "dual_averaging"])
def test_every_algorithm_averages_arrays(preset):
    one, two, new = (ddol.Node(n, getattr(ddol, preset)("logistic")) for n in ("a", "b", "c"))
    rows, labels = examples()
    for x, y in zip(rows, labels, strict=True):
        one.learn(list(x.values()), y)
        two.learn([-v for v in x.values()], not y)
    new.receive(one.message())
    two.receive(one.message())
    x = list(rows[0].values())
    a, b = one.predict(x).scores[0], new.predict(x).scores[0]
    assert math.isclose(a, b, rel_tol=0.3) and two.predict(x).label == labels[0]


def test_a_message_is_mixed_once():
    one, two = taught("one"), taught("two", seed=3)
    two.receive(one.message())
    before = two.weights()
    assert not two.mix()
    assert np.array_equal(before, two.weights())


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (lambda: ddol.Node("us", ddol.adaptive("hinge")), "algorithm"),
        (lambda: make("us", hash_bits=8), "encoding"),
        (lambda: make("us", classes=["a", "b"]), "schema"),
        (lambda: make("eu"), "own name"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(other, reason):
    node, peer = taught(), other()
    label = "a" if peer.classes else True
    peer.learn({"a": 1.0}, label)
    with pytest.raises(RefusedMessageError) as error:
        node.receive(peer.message())
    assert error.value.reason == reason
    [shown] = node.state()["peers"]
    assert shown["reasons"] == {reason: 1} and shown["messages"] == 0


def test_a_column_of_another_kind_is_refused_by_name():
    one, two = make("one"), make("two")
    one.learn({"age": 3.0}, True)
    two.learn({"age": "young"}, True)
    with pytest.raises(
        RefusedMessageError, match="feature 'age': found a text, here it is a number"
    ):
        one.receive(two.message())


def test_an_older_message_is_not_taken_after_a_newer_one():
    one, two = taught("one"), taught("two")
    old, new = one.message(), one.message()
    two.receive(new)
    with pytest.raises(RefusedMessageError, match="after"):
        two.receive(old)


def test_rubbish_is_refused_and_nothing_changes():
    one, two = taught("one", n=50), taught("two", n=50)
    blob, rng = one.message(), np.random.default_rng(0)
    before = two.weights()
    for _ in range(2000):
        bad = bytearray(blob)
        for _ in range(int(rng.integers(1, 4))):
            bad[int(rng.integers(0, len(bad) - 8 * 40))] = int(rng.integers(0, 256))
        try:
            message = read_message(bytes(bad))
            two.read(lambda agent, m=message: agent.check(m))
        except RefusedMessageError:
            pass
    assert np.array_equal(before, two.weights())
    numbers = blob[:-8] + np.array([np.nan]).tobytes()
    with pytest.raises(RefusedMessageError, match="not finite"):
        two.receive(numbers)


@pytest.mark.parametrize("algorithm", [ddol.newton(rank=2), ddol.coin()])
def test_whatever_numbers_come_predictions_stay_numbers(algorithm):
    one, two = (ddol.Node(name, algorithm, classes=["a", "b", "c"]) for name in ("one", "two"))
    for node in (one, two):
        for k in range(40):
            node.learn({"x": float(k % 5), "z": float(k % 3)}, "abc"[k % 3])
    message = read_message(one.message())
    places = [(k, number) for k in range(message.numbers.size) for number in (1e300, 1e140, -1.0)]
    for count, (k, number) in enumerate(places, start=1):
        bad = message.numbers.copy()
        bad.flat[k] = number
        sent = message._replace(numbers=bad, number=message.number + count)
        with contextlib.suppress(RefusedMessageError), np.errstate(all="ignore"):
            two.receive(sent.write())
    assert np.isfinite(two.predict({"x": 3.0, "z": 2.0}).scores).all()


def test_a_message_without_a_schema_is_refused():
    sent = read_message(taught("one").message())
    for schema in ([], 1, "x", None):
        with pytest.raises(RefusedMessageError, match="without a schema"):
            taught("two").receive(sent._replace(schema=schema).write())


def test_a_later_version_with_another_parameter_is_the_same_algorithm():
    now = ddol.safe(ddol.adaptive("logistic"))
    before = {name: value for name, value in now.recipe.items() if name != "l1"}
    assert algorithm_digest(replace(now, recipe=before)) == algorithm_digest(now)
    other = ddol.safe(ddol.adaptive("logistic", l1=0.1))
    assert algorithm_digest(other) != algorithm_digest(now)


def test_messages_of_half_the_size_are_nearly_the_same():
    one = taught("one", compress="float32")
    two, three = make("two"), make("three")
    two.receive(one.message())
    plain = one.read(lambda agent: agent.message(1).write())
    assert len(one.message()) < 0.8 * len(plain)
    three.receive(plain)
    x = {"a": 1.0, "b": 1.0, "c": 1.0}
    assert math.isclose(two.predict(x).scores[0], three.predict(x).scores[0], rel_tol=1e-4)


def test_two_nodes_do_better_than_one_alone():
    wrong = {}
    for sharing in (False, True):
        nodes = [make(f"n{k}") for k in range(4)]
        for k in range(100):
            for j, node in enumerate(nodes):
                rng = np.random.default_rng(100 * k + j)
                x = rng.standard_normal(20)
                node.learn(x, bool(x.sum() + 0.5 * rng.standard_normal() > 0))
            for message in [node.message() for node in nodes] if sharing else []:
                for node in nodes:
                    if read_message(message).sender != node.name:
                        node.receive(message, mix=False)
            for node in nodes if sharing else []:
                node.tell_network(4)
                node.mix()
        wrong[sharing] = sum(node.state()["error"] for node in nodes)
    assert wrong[True] < wrong[False]
