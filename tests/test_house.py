"""Order in the tree: one class for one name, private names at home, no circles, and a map that is true."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

HOME = Path(__file__).parents[1]
ROOT = HOME / "src" / "ddol"


@cache
def trees() -> dict[Path, ast.Module]:
    """Every file of the source, parsed when a test first asks: other workers need none of it."""
    return {
        path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))
    }


def imports() -> Iterator[tuple[Path, str, list[str]]]:
    """File, module and names of every import from ddol."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ddol":
                yield path, str(node.module), [alias.name for alias in node.names]


def test_every_class_name_stands_once():
    places = defaultdict(list)
    for path, tree in trees().items():
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


def test_no_private_attribute_crosses_a_module():
    own = {path: set(_private_names(tree)) for path, tree in trees().items()}
    anywhere = set().union(*own.values()) - {"_fields", "_replace"}  # public, of named tuples
    crossing = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in anywhere - own[path]
        and ast.unparse(node.value) not in ("self", "cls", "super()")
    }
    assert crossing == set()


def _private_names(tree: ast.Module) -> Iterator[str]:
    """Private functions, classes and attributes that a file defines."""
    for node in ast.walk(tree):
        name = getattr(node, "name", None) if isinstance(node, _NAMED) else None
        if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
        if name is not None and name.startswith("_") and not name.startswith("__"):
            yield name


_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def test_nobody_asks_which_update_it_is():
    """What the rest must know of an update, the update says: a user's own could say it as well."""
    known = {"Majority", "Adaptive", "Coin", "Newton", "DualAveraging", "Standardising"}
    asking = {
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().items()
        if path.relative_to(ROOT).parts[0] != "update"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and known & set(re.findall(r"\w+", ast.unparse(node.args[1])))
    }
    assert asking == set()


def test_a_file_reads_in_one_sitting_and_a_function_on_one_screen():
    long = [p.name for p in trees() if len(p.read_text(encoding="utf-8").splitlines()) > 560]
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                said = ast.get_docstring(node, clean=False) or ""
                lines = node.end_lineno - node.lineno - len(said.splitlines())
                long += [f"{path.name}: {node.name}"] if lines > 60 else []
    assert long == []


def test_names_say_what_things_are():
    vague = re.compile(r"(?i)utils?|helpers?|misc|common|.*(Base|Mixin|Manager|Handler)")
    named = [
        node.name
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, _NAMED)
    ]
    assert [name for name in named if vague.fullmatch(name)] == []
    assert [path.name for path in trees() if vague.fullmatch(path.stem)] == []


def test_the_map_is_the_contract():
    """`docs/inside.md` has every package, in the order in which they may import each other."""
    text = (HOME / "docs" / "inside.md").read_text(encoding="utf-8")
    rooms = text.partition("| package |")[2].partition("\n\n")[0]
    drawn = [set(re.findall(r"`(\w+)`", line.split("|")[1])) for line in rooms.splitlines()[2:]]
    settings = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    order = [set(re.findall(r"\w+", layer)) for layer in layers[1:]]  # commands stand above it
    at = {room: k for k, layer in enumerate(order) for room in layer}
    assert set().union(*drawn) == set(at)
    places = [sorted(at[room] for room in line) for line in drawn]
    assert all(high[-1] < low[0] for high, low in pairwise(places))
    for named in re.findall(r"`([\w/]+\.py)`", text):
        inside = [ROOT / named, ROOT / "engines" / named, ROOT / "engines" / "kernels" / named]
        assert any(path.is_file() for path in inside), named


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
