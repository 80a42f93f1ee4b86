"""Every promise of SECURITY.md names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text("utf-8"))


def test_promises_have_tests():
    promises = (ROOT / "SECURITY.md").read_text("utf-8").partition("## What we promise")[2]
    table = promises.partition("## What we do not promise")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 10
    assert [row for row in rows if "`tests/" not in row] == []


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_the_test_of_a_promise_is_there(file, name):
    text = (ROOT / file).read_text("utf-8")
    assert not name or f"def {name}(" in text
