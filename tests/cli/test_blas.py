"""Threads of NumPy's linear algebra: none, unless somebody asks for them or has them already."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_NAME = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize(
    ("first", "given", "found"), [("", None, "1"), ("", "3", "3"), ("import numpy", None, "None")]
)
def test_the_environment_and_who_came_first_decide(first, given, found):
    code = f"{first}\nfrom ddol.cli.flags import without_blas_threads as ask\nask()\nimport os\n"
    kept = {name: value for name, value in os.environ.items() if name != _NAME}
    said = subprocess.run(
        [sys.executable, "-c", f"{code}print(os.environ.get({_NAME!r}))"],
        env=kept if given is None else kept | {_NAME: given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == found
