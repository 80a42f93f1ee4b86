"""Compiled counting of words: every distinct one of a text gets a number."""

# Numba infers the types here.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import inner, integers


class Words(NamedTuple):
    """Distinct words of a text, by address."""

    slots: int
    """int64 (mask + 1,): an open table of hashes, 1 + the number of a word, 0 where there is none"""
    mask: int
    keys: int
    first: int
    end: int
    owner: int
    """int64: hash of each word, where it is first found, and whose it is"""
    most_words: int
    n_words: int
    """int64 (1,): how many there are"""


@inner
def word_number(words, h, owner, first, end):
    """Number of the word ``text[first:end]`` of an owner, whose hash is `h`; −1 where all are taken."""
    slots, keys, owners = integers(words.slots), integers(words.keys), integers(words.owner)
    key = np.int64(h)
    slot = (key ^ owner) & words.mask
    while slots[slot] != 0:
        number = slots[slot] - 1
        if keys[number] == key and owners[number] == owner:
            return number
        slot = (slot + 1) & words.mask
    number = integers(words.n_words)[0]
    if number == words.most_words:
        return -1
    integers(words.n_words)[0] = number + 1
    slots[slot] = number + 1
    keys[number], owners[number] = key, owner
    integers(words.first)[number], integers(words.end)[number] = first, end
    return number


@inner
def _lower(byte):
    return byte + 32 if 65 <= byte <= 90 else byte


@inner
def _folded(text, first, end):
    """Up to eight letters as one number, in lower case; 0 for a longer word."""
    if end - first > 8:
        return 0
    word = 0
    for k in range(first, end):
        word = (word << 8) | np.int64(_lower(text[k]))
    return word


def _number_of(word: str) -> int:
    return int.from_bytes(word.encode(), "big")


_NA, _N_A, _NAN, _NULL, _NONE, _ASKED = map(_number_of, ("na", "n/a", "nan", "null", "none", "?"))
_TRUE, _FALSE = map(_number_of, ("true", "false"))
_INF, _PLUS_INF, _MINUS_INF, _INFINITY = map(_number_of, ("inf", "+inf", "-inf", "infinity"))


@inner
def is_missing(text, first, end):
    """Whether a cell is a missing value: one of `ddol.streams.raw.MISSING_WORDS`."""
    if end - first > 4:
        return False
    word = _folded(text, first, end)
    return word in (0, _NA, _N_A, _NAN, _NULL, _NONE, _ASKED)


@inner
def word_value(text, first, end):
    """Value of the words true, false and infinity; NaN for others."""
    word = _folded(text, first, end)
    if word == _TRUE:
        return 1.0
    if word == _FALSE:
        return 0.0
    if word in (_INF, _PLUS_INF, _INFINITY):
        return np.inf
    return -np.inf if word == _MINUS_INF else np.nan


@dataclass
class WordRoom:
    """Room for how many words the chunks of a file were found to need; it only grows."""

    words: int = 4096

    def grow(self) -> None:
        """Make room for more."""
        self.words *= 4


@dataclass(frozen=True)
class WordTable:
    """Room for the words of one text.

    Parameters
    ----------
    text
        Bytes that end with a newline.
    most
        Words there can be.
    """

    text: NDArray[np.uint8]
    most: int

    @cached_property
    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Memory that the words are written to."""
        size = 1 << max(4, (2 * self.most).bit_length())
        rows = np.empty((4, self.most), dtype=np.int64)
        return {
            "slots": np.zeros(size, dtype=np.int64),
            **dict(zip(("keys", "first", "end", "owner"), rows, strict=True)),
            "n_words": np.zeros(1, dtype=np.int64),
        }

    @property
    def places(self) -> Words:
        """Where they are."""
        addresses = {name: array.ctypes.data for name, array in self.arrays.items()}
        return Words(mask=len(self.arrays["slots"]) - 1, most_words=self.most, **addresses)

    def __len__(self) -> int:
        return int(self.arrays["n_words"][0])

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Hash of every word."""
        return self.arrays["keys"][: len(self)].view(np.uint64)

    @property
    def owners(self) -> NDArray[np.int64]:
        """Whose each word is."""
        return self.arrays["owner"][: len(self)]

    def word(self, number: int) -> str:
        """A word as text."""
        first, end = int(self.arrays["first"][number]), int(self.arrays["end"][number])
        return self.text[first:end].tobytes().decode("utf-8", "replace")


class LazyNames(Sequence[str]):
    """Names that are decoded when first used.

    Parameters
    ----------
    n
        How many there are.
    name
        Gives one of them.

    Examples
    --------
    >>> LazyNames(3, "word {}".format)[-1]
    'word 2'
    """

    def __init__(self, n: int, name: Callable[[int], str]) -> None:
        self._n, self._name = n, name

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._name(k) for k in range(*place.indices(self._n))]
        return self._name(range(self._n)[place])

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(self._n))
