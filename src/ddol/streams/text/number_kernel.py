"""Compiled reading of decimal numbers, correctly rounded.

Every text ends with a newline, so that the loops need no check for its end, and bytes after it may be
read (`ddol.streams.store.chunks.MARGIN`), so that they look at eight at a time.
"""

# Numba infers the types here.
# mypy: disable-error-code=no-untyped-def

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddol.compiled import address_of, from_bits, inner, trailing_zeros, word_at

# How a number was read.
DONE, NO_NUMBER, TOO_BIG, UNDECIDED = range(4)

POINT, PLUS, MINUS = 46, 43, 45
_LOWER_E = 101

_ZERO, _ONE, _THREE, _TEN = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64(10)
_DIGITS = np.uint64(0x3030303030303030)
_SEVEN_BITS, _TOP_BITS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)
_TO_TOP_BIT = np.uint64(0x7676767676767676)  # what brings a byte above 9 there
_TENS = np.array([10**k for k in range(8)], dtype=np.uint64)
_LOW_HALF, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_EXACT = np.uint64(1 << 53)
_HIDDEN = np.uint64(1 << 52)
_FRACTION = np.uint64(52)
_LEAST, _MOST = -342, 308
_POWERS = np.array([10.0**k for k in range(23)])
_MOST_POWER = 1 << 50  # beyond the digits of any file, so that a mantissa cannot make up for it
_TOO_LARGE_DIGITS = np.array([int(d) for d in str(2**1024 - 2**970)], dtype=np.int64)
"""From here on the nearest double is infinity."""


def _five_to_the(q: int) -> int:
    """The 128 leading bits of 5**q, as the method of Eisel and Lemire wants them rounded."""
    if q >= 0:
        power = 5**q
        return (
            power << 128 - power.bit_length()
            if power < 1 << 128
            else power >> (power.bit_length() - 128)
        )
    power = 5**-q
    width = (power - 1).bit_length()
    if q >= -27:
        return (1 << width + 127) // power + 1
    reciprocal = (1 << 2 * width + 128) // power + 1
    return reciprocal >> reciprocal.bit_length() - 128


_FIVES = [_five_to_the(q) for q in range(_LEAST, _MOST + 1)]
_FIVES_HIGH = np.array([five >> 64 for five in _FIVES], dtype=np.uint64)
_FIVES_LOW = np.array([five & (1 << 64) - 1 for five in _FIVES], dtype=np.uint64)


@inner
def _multiply(a, b):
    """Both halves of the 128-bit product of two 64-bit numbers."""
    a_high, a_low = a >> _HALF, a & _LOW_HALF
    b_high, b_low = b >> _HALF, b & _LOW_HALF
    low = a_low * b_low
    cross = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (cross & _LOW_HALF)
    high = a_high * b_high + (cross >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW_HALF)


@inner
def _leading_zeros(w):
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == _ZERO:
            w <<= np.uint64(step)
            zeros += step
    return zeros


@inner
def round_decimal(w, q):
    """The double nearest to w * 10**q (ties to even), infinity when it is too large.

    Lemire, Number parsing at a gigabyte per second, 2021; that no case is left over is
    shown by Mushtak and Lemire, Fast number parsing without fallback, 2023.
    """
    if w == _ZERO or q < _LEAST:
        return 0.0
    if q > _MOST:
        return np.inf
    zeros = _leading_zeros(w)
    w <<= np.uint64(zeros)
    high, low = _multiply(w, _FIVES_HIGH[q - _LEAST])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _multiply(w, _FIVES_LOW[q - _LEAST])
        low += more
        if more > low:
            high += _ONE
    upper = np.int64(high >> np.uint64(63))
    shift = np.uint64(upper + 9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + upper - zeros + 1023
    if exponent <= 0:
        if exponent <= -63:
            return 0.0
        mantissa >>= np.uint64(1 - exponent)
        mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
        return from_bits(mantissa)
    halfway = low <= _ONE and -4 <= q <= 23 and mantissa & _THREE == _ONE
    if halfway and mantissa << shift == high:
        mantissa -= _ONE
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa == _EXACT:
        mantissa = _HIDDEN
        exponent += 1
    if exponent >= 2047:
        return np.inf
    return from_bits((np.uint64(exponent) << _FRACTION) | (mantissa & (_HIDDEN - _ONE)))


@inner
def _eight_digits(word):
    """The number whose digits are the bytes of `word`, the first of them the lowest byte."""
    word = (word * _TEN + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return (word * np.uint64(10_000) + (word >> np.uint64(32))) & _LOW_HALF


@inner
def _digits_at(text, at):
    """The eight bytes at `at` less "0" each, and where those that are no digits have a bit."""
    word = word_at(address_of(text, at)) ^ _DIGITS
    # The lowest bit is that of the first byte above 9.
    return word, (((word & _SEVEN_BITS) + _TO_TOP_BIT) | word) & _TOP_BITS


@inner
def _first_digits(word, n):
    """The number of the first `n` digits, fewer than eight, of what `_digits_at` gives."""
    return _eight_digits((word << np.uint64(56 - 8 * n)) << np.uint64(8))


@inner
def read_digits(text, at, w):
    """Append the digits at `at` to `w`; also where they end."""
    word, others = _digits_at(text, at)
    while others == _ZERO:
        w = w * np.uint64(100_000_000) + _eight_digits(word)
        at += 8
        word, others = _digits_at(text, at)
    n = trailing_zeros(others) >> 3
    return w * _TENS[n] + _first_digits(word, n), at + n


@inner
def _read_exponent(text, p):
    """Power of ten after the letter at `p`, and where it ends; no digits give the same place."""
    letter = p
    p += 1
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += 1
    exponent, first = 0, p
    while 48 <= text[p] <= 57:
        exponent = min(_MOST_POWER, exponent * 10 + (text[p] - 48))
        p += 1
    if p == first:
        return 0, letter
    return -exponent if negative else exponent, p


@inner
def _round_long(text, p, exponent):
    """Value of a mantissa of more than 19 digits at `p`, from the first 19 that count.

    The digits left out move the number by less than one unit of the last kept. Where that
    unit decides the rounding, the caller has to look at all of them.
    """
    w, kept, point, first, cut = _ZERO, 0, False, p, False
    while 48 <= text[p] <= 57 or text[p] == POINT:
        if text[p] == POINT:
            point = True
        elif kept == 19:
            exponent += not point
            cut = cut or text[p] != 48
        else:
            w = w * _TEN + np.uint64(text[p] - 48)
            kept += w != _ZERO
            exponent -= point
        p += 1
    value = round_decimal(w, exponent)
    if not cut:
        return value, DONE
    above = round_decimal(w + _ONE, exponent)
    if value == above:
        return value, DONE
    if above == np.inf:
        return (np.inf if _is_too_large(text, first) else value), DONE
    return value, UNDECIDED


@inner
def _is_too_large(text, p):
    """Whether the digits at `p` are at or above those of the first number that has no double."""
    place = 0
    while 48 <= text[p] <= 57 or text[p] == POINT:
        if text[p] != POINT and (place > 0 or text[p] != 48):
            limit = _TOO_LARGE_DIGITS[place] if place < len(_TOO_LARGE_DIGITS) else 0
            if text[p] - 48 != limit:
                return text[p] - 48 > limit
            place += 1
        p += 1
    return place >= len(_TOO_LARGE_DIGITS)


@inner(inlined=True)
def read_number(text, p):
    """Value of the decimal number at `p`, where it ends, and how reading it went."""
    digit = np.int64(text[p]) - 48
    if 0 <= digit <= 9 and text[p + 1] == POINT:
        word, others = _digits_at(text, p + 2)
        n = trailing_zeros(others) >> 3
        end = p + 2 + n
        if others != _ZERO and n > 0 and text[end] | 32 != _LOWER_E:
            w = np.uint64(digit) * _TENS[n] + _first_digits(word, n)
            return np.float64(np.int64(w)) / _POWERS[n], end, DONE
    elif 0 <= digit <= 9 and text[p + 1] < POINT:
        return np.float64(digit), p + 1, DONE
    return _read_any(text, p)


@inner
def _read_any(text, p):
    """Value of any number; see `read_number`."""
    negative = text[p] == MINUS
    if negative or text[p] == PLUS:
        p += 1
    first = p
    w, p = read_digits(text, p, _ZERO)
    digits, decimals = p - first, 0
    if text[p] == POINT:
        point = p + 1
        w, p = read_digits(text, point, w)
        decimals = p - point
        digits += decimals
    if digits == 0:
        return 0.0, p, NO_NUMBER
    power = 0
    if text[p] | 32 == _LOWER_E:
        power, p = _read_exponent(text, p)
    exponent, how = power - decimals, DONE
    if digits > 19:
        value, how = _round_long(text, first, power)
    elif w <= _EXACT and -22 <= exponent <= 0:
        value = np.float64(w) / _POWERS[-exponent]
    elif w <= _EXACT and 0 < exponent <= 22:
        value = np.float64(w) * _POWERS[exponent]
    else:
        value = round_decimal(w, exponent)
    if value == np.inf:
        how = TOO_BIG
    return -value if negative else value, p, how


def exact_number(text: NDArray[np.uint8], at: int) -> float:
    """Value of a number at `at` whose rounding depends on more than 19 digits (`UNDECIDED`)."""
    end = at
    while end < len(text) and chr(text[end]) in "+-.0123456789eE":
        end += 1
    return float(text[at:end].tobytes())
