"""From labels as users have them to the answers that agents learn from."""

from __future__ import annotations

import numpy as np


def places_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Number of each label's class.

    Examples
    --------
    >>> places_of(np.array(["yes", "no"]), np.array(["no", "yes"]))
    array([1, 0])
    """
    places = np.searchsorted(classes, labels).clip(0, len(classes) - 1)
    strange = labels[classes[places] != labels]
    if strange.size:
        raise ValueError(
            f"found the label {strange.tolist()[0]!r}, expected one of the classes {classes.tolist()}"
        )
    return places


def answers_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """−1 and +1 for two classes, numbers of classes for more.

    Examples
    --------
    >>> answers_of(np.array(["yes", "no"]), np.array(["no", "yes"]))
    array([ 1., -1.])
    """
    places = places_of(labels, classes)
    return 2.0 * places - 1.0 if len(classes) == 2 else places.astype(np.float64)
