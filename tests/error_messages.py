"""All error messages of ddol on one page, to be read aloud: `make messages > messages.md`.

Collected from the source: the text of every exception that a user may see, with … for what is filled in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "ddol"
SHOWN = (
    "ValueError", "TypeError", "DataError", "SetupError", "EngineError", "RunError", "ImportError",
    "UsageError", "BadParameter", "KeyError", "RefusedError", "MemoryError",
)  # fmt: skip
"""Exceptions whose text users read."""


class Message(NamedTuple):
    """A message, and where it is made."""

    where: str
    kind: str
    text: str


def messages() -> Iterator[Message]:
    """Every message of the source, in its order."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                made = node.exc
                kind = getattr(made.func, "id", getattr(made.func, "attr", ""))
                text = " ".join(filter(None, map(_text, made.args)))
                if kind in SHOWN and text:
                    yield Message(f"{path.relative_to(SOURCE)}:{node.lineno}", kind, text)


def _text(node: ast.expr) -> str:
    """A text with … for what is filled in."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _text(part) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def page() -> str:
    """The messages as Markdown, by file."""
    lines, last = ["# All error messages", ""], ""
    for message in messages():
        name = message.where.partition(":")[0]
        if name != last:
            lines += ["", f"## {name}", ""]
            last = name
        lines.append(f"- {message.text}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
