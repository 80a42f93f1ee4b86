"""The exception for bad data."""


class DataError(ValueError):
    """Data that cannot be read or learned from.

    Its text is one line: where it is, what was found, what was expected and what to do.

    Examples
    --------
    >>> raise DataError("train.libsvm:3:5: found 'abc', expected a number; correct the line")
    Traceback (most recent call last):
    ...
    ddol.streams.errors.DataError: train.libsvm:3:5: found 'abc', expected a number; ...
    """
