"""The command line in this process, and small files to feed it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ddol.cli.app import app

DATA = Path(os.environ.get("DDOL_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture
def ddol() -> Callable[..., Result]:
    """Call ``ddol`` with arguments; the result has ``exit_code``, ``stdout`` and ``stderr``."""

    def call(*arguments: object, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments], input=stdin)

    return call


def libsvm_text(n: int = 300, d: int = 4, seed: int = 0, labels: tuple = (-1, 1)) -> str:
    """Examples of a linear rule with a little noise, as LIBSVM text."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, d)), 3)
    scores = X @ np.linspace(-1, 1, d) + 0.1 * rng.standard_normal(n)
    place = np.searchsorted(np.quantile(scores, np.linspace(0, 1, len(labels) + 1)[1:-1]), scores)
    lines = []
    for row, k in zip(X, place, strict=True):
        cells = " ".join(f"{j + 1}:{x:g}" for j, x in enumerate(row) if x)
        lines.append(f"{labels[k]} {cells}\n")
    return "".join(lines)


@pytest.fixture
def text_of() -> Callable[..., str]:
    """`libsvm_text`, for tests that need other sizes or labels."""
    return libsvm_text


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A file of 300 examples in two classes."""
    path = tmp_path / "examples.libsvm"
    path.write_text(libsvm_text())
    return path


@pytest.fixture
def svmguide1() -> Path:
    path = DATA / "svmguide1"
    if not path.exists():
        pytest.skip(f"{path} is missing; set DDOL_DATA to the folder that has it")
    return path
