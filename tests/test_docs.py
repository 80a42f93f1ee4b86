"""Every Python block and console line of the README and the docs runs, page by page, in its own folder."""

from __future__ import annotations

import gzip
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import ddol

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.M | re.S)
ELSEWHERE = {
    "estimators.md": "tests/estimators/test_docs.py",  # its blocks share their data
}
NOT_HERE = ("ddol launch", "ddol reproduce", "ddol plan --dim 54", "cat ")
"""Needs several hosts, minutes, or measures the machine for seconds; each has tests of its own."""


def pieces(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


WITH_EXAMPLES = [page for page in PAGES if pieces(page) and page.name not in ELSEWHERE]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that examples speak of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    mpl.use("Agg")
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((300, 4)), 3)
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0, 1, -1)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{x:g}" for j, x in enumerate(row))
        for label, row in zip(y, X, strict=True)
    ]
    text = "\n".join(lines) + "\n"
    for name in ("huge.libsvm", "new.libsvm", "more.libsvm", "held-out.libsvm"):
        (tmp_path / name).write_text(text)
    (tmp_path / "logs.gz").write_bytes(gzip.compress(text.encode()))
    for site in range(3):
        rows = [f"{label},{a},{b},{c},{d}" for label, (a, b, c, d) in zip(y, X, strict=True)]
        (tmp_path / f"site-{site}.csv").write_text(
            "\n".join(["label,a,b,c,d", *rows[site::3]]) + "\n"
        )
    return tmp_path


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_run(page, folder):
    for number, (kind, text) in enumerate(pieces(page)):
        if kind == "python":
            # A file of its own, as a user has it: functions in files are compiled and cached as such.
            path = folder / f"example_{number}.py"
            path.write_text(text)
            runpy.run_path(str(path), run_name="example")
        else:
            for line in text.splitlines():
                run_line(line)


def run_line(line: str) -> None:
    command = line.removeprefix("$ ").partition("  #")[0].strip()
    if not line.startswith("$ ") or command.startswith(NOT_HERE) or "…" in command:
        return
    assert command.startswith("ddol "), f"no test knows how to run {command!r}"
    words = [sys.executable, "-m", "ddol", *shlex.split(command)[1:]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, f"{command}\n{done.stderr}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        place = page if not name else page.parent / name
        assert place.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(place), f"{page.name}: {target}"


def test_the_reference_has_every_public_name():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^   ddol\.(\w+)$", text, re.M))
    assert named == {name for name in ddol.__all__ if not name.startswith("__")}


def test_the_site_has_every_page():
    contents = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or f'"{page.stem}"' in contents, page.name
