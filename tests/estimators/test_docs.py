"""The page about the estimators says what happens."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"


def test_the_page_runs():
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted > 15
    assert found.failed == 0
