"""How the data were understood: the first line of a run."""

from __future__ import annotations

from ddol.streams.coding.encoding import TEXT, Encoding
from ddol.streams.coding.labels import listed


def taken_for(encoding: Encoding, n_agents: int) -> str:
    """Label, columns and agents of a run in one line.

    Examples
    --------
    >>> from ddol.streams.coding.encoding import Column
    >>> columns = (Column("age"), Column("town", "text"))
    >>> taken_for(Encoding(columns, label="ill", classes=("no", "yes"), sites=("bern", "rome")), 2)
    'label: ill (2 classes: no, yes), 2 columns (1 of text), 2 agents: bern, rome'
    >>> taken_for(Encoding(classes=(-1.0, 1.0)), 4)
    'label: the number in front (2 classes: -1, 1), columns by number, 4 agents in turn'
    """
    parts = [f"label: {_label(encoding)}", _columns(encoding)]
    if encoding.weight is not None:
        parts.append(f"weight: {encoding.weight}")
    if encoding.stumps is not None:
        parts.append(f"{len(encoding.stumps)} experts")
    return ", ".join([*parts, _agents(encoding, n_agents)])


def _label(encoding: Encoding) -> str:
    in_front = "the number in front" if encoding.columns is None else "what stands in front"
    name = encoding.label or in_front
    if encoding.classes is None:
        return f"{name} (a number)"
    return f"{name} ({len(encoding.classes)} classes: {listed(encoding.classes)})"


def _columns(encoding: Encoding) -> str:
    if encoding.columns is None:
        found = "columns by number"
    elif not encoding.columns:
        found = "features by name"
    else:
        texts = sum(column.kind == TEXT for column in encoding.columns)
        noun = "column" if len(encoding.columns) == 1 else "columns"
        found = f"{len(encoding.columns)} {noun}{f' ({texts} of text)' if texts else ''}"
    return found if encoding.bits is None else f"{found} hashed to {1 << encoding.bits:,}"


def _agents(encoding: Encoding, n_agents: int) -> str:
    noun = "agent" if n_agents == 1 else "agents"
    if encoding.sites:
        return f"{n_agents} {noun}: {listed(encoding.sites, 5)}"
    return f"{n_agents} {noun}{' in turn' if n_agents > 1 else ''}"
