"""How functions become parts of the kernel, and what is said when they do not."""

from __future__ import annotations

import ctypes
import math

import numpy as np
import pytest

import ddol
from ddol.compiled import (
    INTERPRETED,
    CompileError,
    address_of,
    check_arguments,
    column,
    first_of,
    scalar,
)
from ddol.update.losses import Loss, hinge

compiling = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
VALUE = "value(z, y, p)"


def call(function, *numbers, parameters=()):
    kind = ctypes.CFUNCTYPE(
        ctypes.c_double, *[ctypes.c_double] * len(numbers), ctypes.POINTER(ctypes.c_double)
    )
    array = (ctypes.c_double * max(len(parameters), 1))(*parameters)
    return kind(scalar(function, "f(" + ", ".join("z" for _ in numbers) + ", p)"))(*numbers, array)


def softplus(z, y, p):
    return p[0] * math.log1p(math.exp(-y * z))


def test_a_part_is_called_by_its_address():
    found = call(softplus, 0.5, -1.0, parameters=(2.0,))
    assert found == pytest.approx(2 * math.log1p(math.exp(0.5)), rel=1e-15)
    assert scalar(None, VALUE) == 0


@compiling
def test_a_function_is_compiled_once():
    assert scalar(softplus, VALUE) == scalar(softplus, VALUE)


@compiling
def test_two_lambdas_on_one_line_are_two_functions():
    up, down = lambda z, p: math.sinh(z), lambda z, p: math.asinh(z)
    assert call(up, 1.0) == pytest.approx(math.sinh(1.0))
    assert call(down, 1.0) == pytest.approx(math.asinh(1.0))


def test_closures_keep_their_values():
    def scaled(factor):
        def value(z, y, p):
            return factor * z

        return value

    assert [call(scaled(factor), 3.0, 1.0) for factor in (1.0, 2.0)] == [3.0, 6.0]


def test_columns_of_dense_and_sparse_rows():
    assert column(0, 3) == 3
    assert column(np.array([5, 9], np.uint32), 1) == 9


def find_newline(z, p):
    return float(first_of(address_of(p, 0), 10))


def test_the_first_of_64_bytes():
    for place in (0, 1, 63, 64):
        text = b"x" * place + b"\n" * (64 - place)
        numbers = np.frombuffer(text).tolist()
        assert call(find_newline, 0.0, parameters=numbers) == place


def asks_numpy(z, y, p):
    return np.linalg.eig(z)


def asks_nobody(z, y, p):
    return helper_that_does_not_exist(z)  # noqa: F821


def says_text(z, y, p):
    return "large"


def says_nothing(z, y, p):
    z + y


def plain_helper(z):
    return {"a": z}[z]


def asks_python(z, y, p):
    return plain_helper(z)


@compiling
@pytest.mark.parametrize(
    "function", [asks_numpy, asks_nobody, says_text, says_nothing, asks_python]
)
def test_what_does_not_compile_is_named_in_one_line(function):
    with pytest.raises(CompileError) as caught:
        scalar(function, VALUE)
    said = str(caught.value)
    assert said.startswith(f"`{function.__name__}` does not compile as {VALUE}: ")
    assert said.endswith("and put numba.njit on functions that it calls")
    assert "\n" not in said and len(said) < 450
    assert "Traceback" not in said and "nopython" not in said
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda z, y: z, r"`<lambda>\(z, y\)` takes 2 arguments, expected 3: value\(z, y, p\)"),
        (lambda *all: 0.0, r"takes 1 arguments, expected 3"),
        (max, r"found <built-in function max>, expected a Python function value\(z, y, p\)"),
        (3.0, r"found 3.0, expected a Python function"),
    ],
)
def test_a_wrong_signature_is_refused_when_the_loss_is_made(function, message):
    with pytest.raises(TypeError, match=message):
        check_arguments(function, VALUE)
    with pytest.raises(TypeError, match="expected"):
        Loss("own", function, hinge.derivative)


@compiling
def test_no_round_is_played_with_a_part_that_does_not_compile():
    algorithm = ddol.dogd(Loss("own", hinge.value, asks_numpy))
    with pytest.raises(CompileError, match="`asks_numpy` does not compile as derivative"):
        ddol.run(algorithm, (np.eye(2), [1.0, -1.0]), engine="local")
