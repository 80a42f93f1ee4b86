"""Schema files: columns, kinds and labels that several sites agree on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ddol.job.options import DataOptions
from ddol.storage import check_writable, write_text
from ddol.streams.coding.encoding import Encoding
from ddol.streams.errors import DataError

_KINDS = ("number", "text", "date")
_KEYS = ("label", "weight", "columns", "optional", "labels", "labels_map", "drop")


def with_schema(options: DataOptions) -> DataOptions:
    """Options completed by the file of ``--schema``, if it exists."""
    path = options.schema
    if path is None or not Path(path).exists():
        if path is not None:
            check_writable(path)
        return options
    said = _read(path)
    for name in ("label", "weight"):
        given = getattr(options, name)
        if given is not None and said[name] not in (None, given):
            raise DataError(
                f"--{name} {given}: the schema {path} has {said[name]!r}; leave one of them out"
            )
    columns = said["columns"]
    return replace(
        options,
        label=options.label if said["label"] is None else said["label"],
        weight=options.weight if said["weight"] is None else said["weight"],
        drop=tuple(dict.fromkeys([*said["drop"], *options.drop])),
        labels=options.labels or (None if said["labels"] is None else tuple(said["labels"])),
        labels_map=(
            *(f"{one}={other}" for other, one in said["labels_map"].items()),
            *options.labels_map,
        ),
        columns=None if columns is None else tuple(columns.items()),
        optional=tuple(said["optional"]),
    )


def write_schema(path: str, encoding: Encoding) -> None:
    """Write the schema of an encoding as JSON."""
    columns = None if encoding.columns is None else {c.name: c.kind for c in encoding.columns}
    said = {
        "label": encoding.label,
        "weight": encoding.weight,
        "columns": columns,
        "optional": list(encoding.optional),
        "labels": None if encoding.classes is None else list(encoding.classes),
        "labels_map": dict(encoding.aliases),
        "drop": list(encoding.dropped),
    }
    write_text(path, json.dumps(said, indent=2, ensure_ascii=False) + "\n")


def _read(path: str) -> dict[str, Any]:
    try:
        said = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"--schema {path}: cannot be read ({error}); expected JSON") from None
    if not isinstance(said, dict):
        raise DataError(f"--schema {path}: found {type(said).__name__}, expected an object")
    if strange := sorted(set(said) - set(_KEYS)):
        raise DataError(
            f"--schema {path}: found {strange[0]!r}, expected some of {', '.join(_KEYS)}"
        )
    found = {"label": None, "weight": None, "columns": None, "labels": None, **said}
    found = {"optional": [], "labels_map": {}, "drop": [], **found}
    for name, right, expected in _rules():
        if not right(found[name]):
            raise DataError(f"--schema {path}: found {name} = {found[name]!r}, expected {expected}")
    return found


def _rules() -> list[tuple[str, Any, str]]:
    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)

    def pairs(value: Any) -> bool:
        return isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())

    def labels(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(v, str | int | float) for v in value)

    def kinds(value: Any) -> bool:
        return pairs(value) and all(kind in _KINDS for kind in value.values())

    return [
        ("label", lambda v: v is None or isinstance(v, str), "a name"),
        ("weight", lambda v: v is None or isinstance(v, str), "a name"),
        ("columns", lambda v: v is None or kinds(v), "number, text or date by name"),
        ("optional", texts, "names"),
        ("labels", lambda v: v is None or labels(v), "labels"),
        ("labels_map", pairs, "a label by each other spelling"),
        ("drop", texts, "names"),
    ]
