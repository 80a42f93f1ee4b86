"""Requirements of a node with a privacy budget, and what its store keeps about the budget."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import msgspec

from ddol.algorithm import Algorithm
from ddol.node.errors import NodeError
from ddol.node.options import NodeOptions
from ddol.streams.errors import DataError

_FILE = "privacy.json"


class Account(msgspec.Struct):
    """A node's budget as it began, the secret that its noise is drawn by, and releases that were sent.

    A node that is started again from its journal draws the same noise for what it has sent: the difference of
    two draws would tell what they hide. So the journal must have all that was sent, and the budget must stay.
    """

    seed: str
    budget: dict[str, float]
    sent: int = 0


def account_of(algorithm: Algorithm, options: NodeOptions) -> Account | None:
    """The account in a node's store, begun now if it has none; None for a node without a budget."""
    budget: Any = algorithm.privacy
    if budget is None:
        return None
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
    folder, wanted = Path(str(options.store)), {k: float(v) for k, v in vars(budget).items()}
    folder.mkdir(parents=True, exist_ok=True)
    found = read_account(folder)
    if found is None:
        found = Account(str(secrets.randbits(127) + 1), wanted)
        _write(folder, found)
    elif found.budget != wanted:
        before, now = (
            ", ".join(f"{k} {b[k]:g}" for k in b if found.budget.get(k) != wanted.get(k))
            for b in (found.budget, wanted)
        )
        raise NodeError(
            f"{folder}: found the privacy budget {now}, expected {before}, with which this store began; "
            "another budget needs another store"
        )
    return found


def read_account(folder: Path) -> Account | None:
    """The account in a store."""
    path = folder / _FILE
    if not path.exists():
        return None
    from ddol.node.identity.private import read_private

    try:
        return msgspec.json.decode(read_private(path), type=Account)
    except msgspec.MsgspecError:
        raise DataError(
            f"{path}: damaged, expected the privacy budget spent so far; restore it from a backup"
        ) from None


def check_restored(account: Account, folder: Path, released: int) -> None:
    """Refuse to go on from a journal that lacks what was sent."""
    if released < account.sent:
        raise NodeError(
            f"{folder}: its journal has {released} releases, but {account.sent} were sent: its end is "
            "missing, and to draw their noise again would tell what it hides; restore the journal, "
            "or use another store"
        )


def note_sent(account: Account, folder: str | Path, released: int) -> None:
    """Remember, on the disk, that so many releases are sent."""
    if released > account.sent:
        account.sent = released
        _write(Path(folder), account)


def _write(folder: Path, account: Account) -> None:
    from ddol.node.identity.private import write_private

    write_private(folder / _FILE, msgspec.json.encode(account))
