"""Examples that code makes: read once, or again by calling the function, and odd ones refused."""

import itertools

import numpy as np
import pytest

import ddol
from ddol.streams.errors import DataError
from ddol.streams.generated import GeneratedStream

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 3))
Y = np.sign(X @ [1.0, -2.0, 0.5])


def examples():
    yield from zip(X, Y, strict=True)


@pytest.mark.parametrize("source", [examples, examples()], ids=["function", "generator"])
def test_it_learns_as_from_arrays(source):
    trace = ddol.run(ddol.dogd(), source, 4)
    expected = ddol.run(ddol.dogd(), (X, Y), 4)
    assert trace.mistakes.tolist() == expected.mistakes.tolist()
    assert np.array_equal(trace.weights, expected.weights)


def test_a_function_is_called_for_every_pass():
    trace = ddol.run(ddol.dogd(), examples, 2, passes=3)
    assert trace.examples == 900


def test_one_for_each_agent():
    parts = [lambda k=k: zip(X[k::2], Y[k::2], strict=True) for k in range(2)]
    together = ddol.run(ddol.dogd(), parts, 2)
    assert together.mistakes.tolist() == ddol.run(ddol.dogd(), (X, Y), 2).mistakes.tolist()


def test_an_endless_one_is_cut():
    endless = ((X[k % 300], Y[k % 300]) for k in itertools.count())
    assert ddol.run(ddol.dogd(), itertools.islice(endless, 1000), 2).examples == 1000


def test_weights_count():
    heavy = ((x, y, 2.0) for x, y in zip(X, Y, strict=True))
    trace = ddol.run(ddol.dogd(C=1.0, l2=0.0), heavy, 2)
    assert np.array_equal(trace.weights, ddol.run(ddol.dogd(C=2.0, l2=0.0), (X, Y), 2).weights)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([([1.0], 1.0), 7], r"generator: example 1: found 7, expected \(x, y\)"),
        ([([1.0, 2.0], 1.0), ([1.0], -1.0)], "example 1: found 1 features, expected 2"),
        ([([1.0], 1.0), ([np.nan], -1.0)], "row 1"),
    ],
)
def test_odd_examples_are_named(made, message):
    with pytest.raises(DataError, match=message):
        list(GeneratedStream(iter(made)).read())


def test_an_iterator_cannot_go_back():
    stream = GeneratedStream(examples())
    with pytest.raises(DataError, match="can be read once only"):
        list(stream.read(pass_number=1))
