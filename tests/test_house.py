"""Order in the tree: one class for one name, private names at home, and no rooms in a circle."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "ddol"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


def imports() -> Iterator[tuple[Path, str, list[str]]]:
    """File, module and names of every import from ddol."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ddol":
                yield path, str(node.module), [alias.name for alias in node.names]


def test_every_class_name_stands_once():
    places = defaultdict(list)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_private_name_crosses_a_module():
    crossing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path, _, names in imports()
        for name in names
        if name.startswith("_") and not name.startswith("__")
    }
    assert crossing == set()


def test_no_two_rooms_import_each_other():
    edges = defaultdict(set)
    for path, module, _ in imports():
        room = path.relative_to(ROOT).with_suffix("").parts[0]
        target = module.partition(".")[2].split(".")[0]
        if room != "__init__" and target:
            edges[room].add(target)
    assert not _circle(edges)


def _circle(edges: dict[str, set[str]]) -> list[str]:
    """Rooms that can be reached from themselves; an import within a room is none."""
    found = []
    for start in sorted(edges):
        reached, ahead = set(), edges[start] - {start}
        while ahead:
            reached |= ahead
            ahead = set().union(*(edges.get(room, set()) - {room} for room in ahead)) - reached
        if start in reached:
            found.append(start)
    return found


def test_a_circle_is_found():
    assert _circle({"a": {"b", "a"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]
