"""What a node with a privacy budget must have fixed beforehand, and the secret that its noise is drawn by."""

from __future__ import annotations

import secrets
from pathlib import Path

from ddol.algorithm import Algorithm
from ddol.node.errors import NodeError
from ddol.node.options import NodeOptions
from ddol.streams.errors import DataError

_SEED = "noise.seed"


def seed_of(algorithm: Algorithm, options: NodeOptions) -> int:
    """The seed of a node's noise, made once and kept in its store; 0 where there is no noise.

    A node that is started again from its journal must draw the same noise for what it has sent: the
    difference of two draws would tell what they hide.
    """
    if algorithm.privacy is None:
        return 0
    missing = {
        "classes": options.classes,
        "columns": options.columns or options.n_features,
        "store": options.store,
    }
    for name, given in missing.items():
        if given is None:
            why = "what is spent must be known after a restart" if name == "store" else ""
            raise NodeError(
                f"`privacy` needs `{name}`: {why or 'names that come with the data would give them away'}"
            )
    folder = Path(str(options.store))
    folder.mkdir(parents=True, exist_ok=True)
    found = noise_seed(folder)
    if found:
        return found
    from ddol.node.identity.private import write_private

    seed = secrets.randbits(127) + 1
    write_private(folder / _SEED, str(seed).encode())
    return seed


def noise_seed(folder: Path) -> int:
    """The seed that a store has; 0 where it has none."""
    path = folder / _SEED
    if not path.exists():
        return 0
    from ddol.node.identity.private import read_private

    try:
        return int(read_private(path))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: is damaged; expected a number") from None
