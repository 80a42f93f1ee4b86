"""The Python examples of pages whose examples are complete."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("your-own-parts", "algorithms", "index")]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    if page.exists()
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    )
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code, tmp_path, monkeypatch):
    # A file of its own, as a user has it: functions in files are compiled and cached as such.
    path = tmp_path / "example.py"
    path.write_text(code)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="example")
