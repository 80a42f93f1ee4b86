"""Labels of one node: declared beforehand, truth values, numbers of a regression, or as they come."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ddol.node.errors import NodeError, check_text
from ddol.streams.coding.labels import listed

LiveLabel: TypeAlias = Any
"""Text, a number or a truth value."""
_MOST_CLASSES, _MOST_LETTERS, _LARGEST = 1024, 1000, 1e100


class LiveLabels:
    """Labels and the numbers that are learned from.

    Two classes that are known from the start have one score; classes that come one after the other have one
    each. Truth values are two classes from the first one on.

    Parameters
    ----------
    classes : sequence, optional
        All labels.
    regression : bool
        Labels are numbers.
    renamed : mapping, optional
        Labels of this site by what all sites call them.

    Examples
    --------
    >>> labels = LiveLabels(["no", "yes"])
    >>> labels.number("yes"), labels.outputs
    (1.0, 1)
    """

    def __init__(
        self,
        classes: Sequence[LiveLabel] | None = None,
        regression: bool = False,
        renamed: Mapping[str, LiveLabel] | None = None,
    ) -> None:
        if regression and classes is not None:
            raise NodeError("`classes` is given, and the loss is for regression; leave one out")
        self.regression, self.renamed = regression, dict(renamed or {})
        self.fixed = classes is not None
        self.classes: list[LiveLabel] = []
        self._numbers: dict[LiveLabel, int] = {}
        if classes is not None:
            self.fix(classes)
        for label in self.renamed.values():
            self.checked(label)

    def fix(self, classes: Sequence[LiveLabel]) -> None:
        """Take these classes, and no others from now on."""
        for label in classes:
            _check_label(label)
        known = sorted(set(classes), key=lambda c: (isinstance(c, str), c))
        if not 2 <= len(known) <= _MOST_CLASSES or len(known) != len(classes):
            raise NodeError(
                f"`classes`: found {list(classes)!r}, expected from two to {_MOST_CLASSES:,} labels that "
                "differ"
            )
        self.fixed = True
        for label in known:
            self._add(label)

    @property
    def outputs(self) -> int:
        """Scores of an example."""
        if self.regression or (self.fixed and len(self.classes) == 2):
            return 1
        return max(len(self.classes), 2)

    @property
    def binary(self) -> bool:
        """Whether one score tells two classes apart."""
        return self.fixed and len(self.classes) == 2

    @property
    def known(self) -> bool:
        """Whether anything can be predicted."""
        return self.regression or bool(self.classes)

    def checked(self, label: LiveLabel) -> LiveLabel:
        """The label as all sites call it, or an error; nothing is learned from it yet.

        Examples
        --------
        >>> LiveLabels([0, 1], renamed={"ja": 1}).checked("ja")
        1
        """
        if self.regression:
            return _target(label)
        if type(label) is str and not self.renamed and label in self._numbers:
            return label
        if getattr(label, "shape", None) == ():
            label = label.item()
        if isinstance(label, str) and label in self.renamed:
            label = self.renamed[label]
        _check_label(label)
        if not self.fixed and len(self.classes) >= _MOST_CLASSES and label not in self._numbers:
            raise NodeError(
                f"found the label {label!r} after {_MOST_CLASSES:,} others, which are the most; for "
                "numbers give a loss for regression"
            )
        for same in (label, str(label)):
            if same in self._numbers:
                return self.classes[self._numbers[same]]
        if not self.fixed:
            _check_kind(label, self.classes)
            return label
        raise NodeError(f"found the label {label!r}, expected one of {listed(self.classes)}")

    def check_all(self, labels: Sequence[LiveLabel]) -> None:
        """Refuse several labels if one of them cannot be learned after the others."""
        found = [self.checked(label) for label in labels]
        if not self.fixed and not self.regression:
            for label in found:
                _check_kind(label, self.classes or found)

    def number(self, label: LiveLabel) -> float:
        """What is learned from a label that was checked; one that is new becomes a class."""
        if self.regression:
            return float(label)
        found = self._numbers.get(label)
        if found is None:
            if isinstance(label, bool) and not self.classes:
                self.fix([False, True])
            else:
                self._add(label)
            found = self._numbers[label]
        return (-1.0, 1.0)[found] if self.binary else float(found)

    def _add(self, label: LiveLabel) -> None:
        self._numbers[label] = len(self.classes)
        if self.fixed and not isinstance(label, str):
            self._numbers[str(label)] = len(self.classes)
        self.classes.append(label)

    def check_classes(self, classes: Sequence[LiveLabel], fixed: bool) -> None:
        """Refuse classes that come from elsewhere and contradict these; nothing is learned."""
        if fixed and not self.classes and not self.fixed:
            return LiveLabels().fix(classes)
        if fixed != self.fixed or (fixed and list(classes) != self.classes):
            own = f"{listed(self.classes)}{'' if self.fixed else ' as they come'}"
            raise NodeError(
                f"labels: found {listed(classes)}{'' if fixed else ' as they come'}, expected {own}; "
                "give both nodes the same `classes`, or map the labels"
            )
        for label in classes:
            _check_label(label)
            if label not in self._numbers:
                _check_kind(label, self.classes or classes)
        if len({*classes, *self.classes}) > _MOST_CLASSES:
            raise NodeError(f"labels: found more than {_MOST_CLASSES} together")
        return None

    def learn_classes(self, classes: Sequence[LiveLabel], fixed: bool) -> list[int]:
        """Places of classes that come from elsewhere and were checked."""
        if fixed and not self.fixed:
            self.fix(classes)
        for label in classes:
            if label not in self._numbers:
                self._add(label)
        return [self._numbers[label] for label in classes]


def _check_label(label: LiveLabel) -> None:
    """Refuse what cannot be a class."""
    if isinstance(label, str):
        check_text(label, "label")
        if len(label) > _MOST_LETTERS:
            raise NodeError(f"found a label of {len(label):,} letters, expected {_MOST_LETTERS:,}")
    elif not isinstance(label, int | float) or not abs(label) < 1 << 63:
        raise NodeError(
            f"found the label {repr(label)[:60]}, expected text, a truth value or a number of 64 bits"
        )


def _check_kind(label: LiveLabel, known: Sequence[LiveLabel]) -> None:
    """Refuse text among numbers, and a number or truth value among texts: it would be a class of its own."""
    if known and isinstance(label, str) != isinstance(known[0], str):
        expected = "text" if isinstance(known[0], str) else "a number"
        raise NodeError(
            f"found the label {label!r} beside {listed(known[:3])}, expected {expected}; for both give "
            "`classes`"
        )


def _target(label: LiveLabel) -> float:
    try:
        number = float(label)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) < _LARGEST:
        raise NodeError(f"found the label {label!r}, expected a finite number (below 1e100)")
    return number
