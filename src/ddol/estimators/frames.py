"""Data frames in estimators: the label as a column or apart, and columns of text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ddol.streams.coding.discovery import refuse_no_words
from ddol.streams.coding.encoder import Encoder
from ddol.streams.coding.encoding import DATE, NUMBER, TEXT, Column, Encoding
from ddol.streams.errors import DataError
from ddol.streams.over.filling import RunningMeans, filled
from ddol.streams.raw import Text, table_of_frame
from ddol.streams.tables.frames import all_numbers, has_dates, in_memory, with_answers

_DATES = (
    "convert the column with pandas.to_datetime for features of month, weekday and hour, or drop it"
)


class TakesFrames:
    """A `score` that takes what `fit` does; before scikit-learn's own among the bases."""

    def score(self, X: Any, y: Any, sample_weight: Any = None, agents: Any = None) -> float:
        """Accuracy of classes, R² of numbers: see scikit-learn.

        Parameters
        ----------
        X : array, sparse matrix or data frame (n, n_features)
        y : (n,) of labels, or the name of a column of X
        sample_weight : (n,), optional
        agents : (n,) of ids, optional
            Score each row by the predictions of its agent, and not by those of their mean.
        """
        X, y = with_answers(X, y)
        if agents is None:
            found: float = super().score(X, y, sample_weight)  # type: ignore[misc]
            return found
        from sklearn.base import is_classifier
        from sklearn.metrics import accuracy_score, r2_score

        said = self.predict(X, agents=agents)  # type: ignore[attr-defined]
        of = accuracy_score if is_classifier(self) else r2_score
        return float(of(y, said, sample_weight=sample_weight))


class FrameColumns:
    """The columns of a frame of which some are text or dates, as features: one for each value of a text.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30, 40], "town": ["Rome", "Bern"]})
    >>> columns = FrameColumns(frame)
    >>> columns.matrix(frame, learning=True).shape, columns.names
    ((2, 3), ['age', 'town=Bern', 'town=Rome'])
    >>> columns.matrix(pd.DataFrame({"town": ["Bern", "Oslo"], "age": [50, 60]})).toarray()
    array([[50.,  1.,  0.],
           [60.,  0.,  0.]])
    """

    def __init__(self, frame: Any, missing: str = "error") -> None:
        table = table_of_frame(frame)
        columns = []
        for name, cells in table.columns.items():
            text = isinstance(cells, Text) and not all_numbers(cells)
            if isinstance(cells, Text) and text:
                if has_dates(frame[name]):
                    columns.append(Column(name, DATE))
                    continue
                refuse_no_words(name, cells, "X", _DATES)
            columns.append(Column(name, TEXT if text else NUMBER))
        self.encoder = Encoder(Encoding(tuple(columns), missing=missing), labelled=False)
        self.means = RunningMeans.of(None, len(self.encoder.start.numbers))

    @property
    def names(self) -> list[str]:
        """Names of the features, such as ``town=Rome``."""
        known = self.encoder.encoding
        return [*known.numbers, *known.names]

    def matrix(self, frame: Any, learning: bool = False) -> Any:
        """The features of a frame's rows, a sparse matrix.

        Parameters
        ----------
        frame : data frame
        learning : bool
            Whether values that were not seen before become features.
        """
        encoder = self.encoder
        if not learning:
            known = replace(self.encoder.encoding, means=tuple(self.means.means))
            encoder = Encoder(known, learning=False, labelled=False)
        missing = [c.name for c in encoder.start.columns or () if c.name not in frame.columns]
        if missing:
            raise DataError(f"X: found no column {missing[0]!r}, expected those of fit")
        table = table_of_frame(frame)
        if learning and encoder.start.missing == "mean":
            table = filled(table, encoder.start.numbers, self.means)
        rows = encoder.rows(table, "X: row {}".format)
        return rows.widen(len(self.names)).to_scipy()


def without_label(X: Any, label: str | None) -> Any:
    """A frame without the column of labels, which was given to `fit` by name."""
    X = in_memory(X)
    if label is None or label not in getattr(X, "columns", ()):
        return X
    return X[[name for name in X.columns if name != label]]
