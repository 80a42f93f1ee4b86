"""Labels as they stand in the data, numbers or text, and the numbers that the algorithms learn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import entry, floats, inner
from ddol.streams.errors import DataError
from ddol.streams.raw import Text
from ddol.streams.rows import Floats

Label: TypeAlias = float | str


@inner
def _encode_two(n, given, codes, known, coded):  # type: ignore[no-untyped-def]
    """The same for two labels, by vectors: which comes next cannot be guessed. False if one is unknown."""
    low, high, strange = known[0], known[1], 0
    for row in range(n):
        label = given[row]
        strange += (label != low) & (label != high) & (label == label)
    if strange == 0 and codes != 0:
        for row in range(n):
            label = given[row]
            code = coded[0] if label == low else coded[1]
            floats(codes)[row] = code if label == label else label
    return strange == 0


@entry("int64(int64, int64, int64, int64, int64, int64)")
def _encode(n, labels, codes, values, numbers, n_values):  # type: ignore[no-untyped-def]
    """Write the number of every label into `codes`; -1, or the first row with an unknown label."""
    if n_values == 2 and _encode_two(n, floats(labels), codes, floats(values), floats(numbers)):
        return -1
    given, known, coded, k = floats(labels), floats(values), floats(numbers), 0
    for row in range(n):
        label = given[row]
        if known[k] != label:
            k = 0
            while k < n_values - 1 and known[k] < label:
                k += 1
        missing = label != label
        if known[k] != label and not missing:
            return row
        if codes != 0:
            floats(codes)[row] = label if missing else coded[k]
    return -1


_LARGEST_WHOLE = 2.0**53
"""From it on two whole numbers may be one float64."""


def mapped_label(label: Label, aliases: Mapping[str, str]) -> Label:
    """The label of which a text is another spelling, or the text itself.

    Examples
    --------
    >>> mapped_label("No", {"No": "no", "0": "no"}), mapped_label(0.0, {"0": "no"}), mapped_label(1.0, {})
    ('no', 'no', 1.0)
    """
    return aliases.get(_as_text(label), label)


def as_mapped(y: Any, aliases: Mapping[str, str]) -> Text:
    """Labels as text, with other spellings replaced."""
    if not isinstance(y, Text):
        given = np.asarray(y)
        y = Text.of([None if label != label else _as_text(label) for label in given.tolist()])
    values = [str(mapped_label(value, aliases)) for value in y.values]
    distinct = {value: place for place, value in enumerate(dict.fromkeys(values))}
    places = np.array([distinct[value] for value in values] + [-1], np.int64)
    return Text(places[y.codes], tuple(distinct))


def answers(
    classes: Sequence[Label],
    y: Any,
    numbered: bool = False,
    where: Callable[[int], str] = "row {}".format,
) -> Floats:
    """Numbers to learn from: −1 and +1 for two classes, class numbers 0, 1, 2, … for more.

    Parameters
    ----------
    classes
        All labels in rising order, numbers or text.
    y
        Labels: an array of numbers or text, or `Text`. A number that is NaN stays so.
    numbered
        Class numbers even for two classes.
    where
        Names the place of a row, for the message about a label that is none of the classes.

    Examples
    --------
    >>> answers((1.0, 2.0), [2, 1, 2])
    array([ 1., -1.,  1.])
    >>> answers(("hi", "lo", "mid"), ["mid", "hi"])
    array([2., 0.])
    """
    codes = np.arange(len(classes), dtype=np.float64)
    if len(classes) == 2 and not numbered:
        codes = np.array([-1.0, 1.0])
    if isinstance(y, Text):
        return _text_answers(classes, y, codes, where)
    given = np.asarray(y)
    if not _are_floats(classes):
        classes = tuple(map(_as_text, classes))
        words = _words_of(given, classes)
        return _text_answers(classes, Text.of(words), codes, where)
    numbers = np.ascontiguousarray(given, np.float64)
    known = np.array(classes, np.float64)
    # Labels are often the numbers to learn from already, and then are only looked at.
    same = np.array_equal(known, codes)
    found = np.empty(0 if same else len(numbers))
    places = numbers.ctypes.data, 0 if same else found.ctypes.data
    bad = _encode(len(numbers), *places, known.ctypes.data, codes.ctypes.data, len(known))
    if bad >= 0:
        raise DataError(f"{where(bad)}: {_strange(classes, float(numbers[bad]))}")
    return numbers if same else found


def _are_floats(classes: Sequence[Any]) -> bool:
    """Whether a float64 tells the classes apart: they are no text, no dates, no identifiers of 60 bits."""
    return all(isinstance(label, float | int) and float(label) == label for label in classes)


def _words_of(labels: NDArray[Any], classes: Sequence[Label]) -> list[str | None]:
    """Labels as text: truth values may be numbers in one file, and words in the one learned from."""
    truths = {str(label).lower(): str(label) for label in classes}
    found = [None if label != label else _as_text(label) for label in labels.tolist()]
    if set(truths) != {"false", "true"}:
        return found
    known = {"0": truths["false"], "1": truths["true"]}
    known |= {"False": known["0"], "True": known["1"]}
    return [None if word is None else known.get(word, word) for word in found]


def _text_answers(
    classes: Sequence[Label], y: Text, codes: Floats, where: Callable[[int], str]
) -> Floats:
    known = {_as_text(label): code for label, code in zip(classes, codes, strict=True)}
    # The last place is that of a missing label, whose code is -1.
    of_value = np.array([known.get(_plain(v, classes), np.inf) for v in y.values] + [np.nan])
    found = of_value[y.codes]
    if np.isinf(found).any():
        row = int(np.isinf(found).argmax())
        raise DataError(f"{where(row)}: {_strange(classes, y.cell(row) or '')}")
    return found


def _plain(value: str, classes: Sequence[Label]) -> str:
    """A label's text as that of a class: 1.0 and 1 are the same number."""
    if isinstance(classes[0], str):
        return value
    try:
        return _as_text(float(value))
    except ValueError:
        return value


def _as_text(label: Any) -> str:
    """The text of a label; whole numbers have no point."""
    if isinstance(label, float | np.floating):
        whole = label == np.rint(label) and abs(float(label)) <= _LARGEST_WHOLE
        return str(int(label)) if whole else repr(float(label))
    return str(label)


def targets(y: Any, where: Callable[[int], str] = "row {}".format) -> Floats:
    """Numbers of a regression; text is refused.

    Examples
    --------
    >>> targets([1, 2.5])
    array([1. , 2.5])
    """
    if isinstance(y, Text):
        for row in range(len(y)):
            cell = y.cell(row)
            try:
                float(cell or "nan")
            except ValueError:
                raise DataError(
                    f"{where(row)}: found the label {cell!r}, expected a number; for classes use a "
                    "loss such as hinge or logistic, or name another column"
                ) from None
        return np.array([float(y.cell(row) or "nan") for row in range(len(y))])
    return np.ascontiguousarray(y, np.float64)


def class_numbers(scores: Floats, tie: float = 0.0) -> NDArray[np.intp]:
    """Numbers of the classes that scores (n,), (n, 1) or (n, classes) predict: by their sign, or the largest.

    Score 0 is the second of two classes. Of more classes the lowest wins a tie.

    Parameters
    ----------
    scores : array
    tie : float
        Scores of classes that differ by no more are tied.

    Examples
    --------
    >>> class_numbers(np.array([0.3, -2.0])), class_numbers(np.array([[0.2, 0.4, 0.4]]))
    (array([1, 0]), array([1]))
    """
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1) >= 0.0).astype(np.intp)
    if tie == 0.0:
        return scores.argmax(axis=1)
    best, rows = np.zeros(len(scores), np.intp), np.arange(len(scores))
    for k in range(1, scores.shape[1]):
        best[scores[:, k] > scores[rows, best] + tie] = k
    return best


def shown_labels(classes: Sequence[Label]) -> NDArray[Any]:
    """The labels as users see them: text, or numbers that are whole where all are.

    Examples
    --------
    >>> shown_labels((0.0, 1.0)), shown_labels((0.5, 1.0)), shown_labels((-1e300, 1e300))
    (array([0, 1]), array([0.5, 1. ]), array([-1.e+300,  1.e+300]))
    """
    if isinstance(classes[0], str):
        return np.array(classes, dtype=object)
    values = np.array(classes, np.float64)
    whole = (values == np.rint(values)) & (np.abs(values) <= _LARGEST_WHOLE)
    return values.astype(np.int64) if whole.all() else values


def listed(labels: Sequence[Label], most: int = 6) -> str:
    """The first labels, for messages.

    Examples
    --------
    >>> listed((0.0, 1.5, 2.0)), listed(("a", "b"), most=1)
    ('0, 1.5, 2', 'a, …')
    """
    shown = ", ".join(map(_as_text, labels[:most]))
    return shown if len(labels) <= most else f"{shown}, …"


def _strange(classes: Sequence[Label], label: Label) -> str:
    return (
        f"found label {_as_text(label)}, expected one of {listed(classes)}; "
        "correct it or learn with all labels known"
    )


def checked_classes(found: Sequence[Label] | None, where: str = "y") -> tuple[Label, ...]:
    """Distinct labels in rising order, or `DataError` when they are no classes.

    Parameters
    ----------
    found
        Labels as a scan returns them; None for very many.
    where
        What messages call the data.

    Examples
    --------
    >>> checked_classes((3.0, 5.0, 4.0))
    (3.0, 4.0, 5.0)
    >>> checked_classes(["a"], "a.csv")
    Traceback (most recent call last):
    ...
    ddol.streams.errors.DataError: a.csv: found one class only (label a), expected two; ...
    """
    if found is None:
        raise DataError(
            f"{where}: found more than 1,024 labels, expected classes; "
            "use a regression loss for quantities, or name the label's column"
        )
    mixed = {isinstance(label, str) for label in found}
    values = sorted(set(map(_as_text, found))) if len(mixed) > 1 else sorted(set(found))
    if not values:
        raise DataError(f"{where}: found no example; expected at least one")
    if not isinstance(values[0], str) and np.isinf(values).any():
        raise DataError(f"{where}: found an infinite label, expected finite ones; correct it")
    long = [v for v in values if isinstance(v, float) and _LARGEST_WHOLE <= abs(v) < 2.0**64]
    if long:
        raise DataError(
            f"{where}: found the label {long[0]:.0f}, expected numbers of at most 15 digits, as longer ones "
            "cannot be told apart; write such classes as text, with a letter in front"
        )
    if len(values) == 1:
        words = ", and that no class is called None, NA or such, which are missing labels"
        raise DataError(
            f"{where}: found one class only (label {_as_text(values[0])}), expected two; "
            f"check that the data are complete{words if isinstance(values[0], str) else ''}"
        )
    return tuple(values)


def distinct(y: np.ndarray) -> np.ndarray:
    """Different labels in rising order; two numbers, the usual case, are found without sorting all.

    Examples
    --------
    >>> distinct(np.array([1.0, -1.0, 1.0])), distinct(np.array(["b", "a"]))
    (array([-1.,  1.]), array(['a', 'b'], dtype='<U1'))
    """
    if y.dtype == np.float64 and len(y):
        numbers = np.ascontiguousarray(y)
        other = _other(numbers.ctypes.data, len(numbers))
        return np.unique(numbers if other < 0 else numbers[[0, other]])
    if y.dtype.kind in "iu" and len(y):
        low, high = y.min(), y.max()
        if np.count_nonzero(y == low) + np.count_nonzero(y == high) == len(y):
            return np.array([low, high], y.dtype)
    return np.unique(y)


@entry("int64(int64, int64)")
def _other(labels, n):  # type: ignore[no-untyped-def]
    """Place of a label that is not the first one, if there is any; -1 where there are more than two."""
    y = floats(labels)
    place = 0
    while place < n - 1 and y[place] == y[0]:
        place += 1
    first, second, strange = y[0], y[place], 0
    for k in range(place, n):
        strange += y[k] != first and y[k] != second
    return place if strange == 0 else -1
