"""The newest message of every peer, and counts of messages accepted and refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ddol.communicate.robust import Robust
from ddol.node.errors import RefusedMessageError
from ddol.node.messages import Message


@dataclass
class PeerState:
    """State of a peer, as this node knows it."""

    alive: bool = True
    number: int = -1
    """Of its newest message."""
    messages: int = 0
    heard: float = 0.0
    """When its last message came, in seconds of the clock."""
    agents: int = 1
    examples: int = 0
    newest: tuple[Message, bytes] | None = None
    """Its newest message: until it is mixed, or until it leaves where averages are robust."""
    waiting: bool = False
    """Whether that has not been mixed."""
    refused: Counter = field(default_factory=Counter)
    """Messages that were refused, by reason."""


class PeerMailbox:
    """Peers by name.

    Parameters
    ----------
    most : int
    robust : Robust, optional
        How messages are averaged; then those that were mixed are kept, to be compared with newer ones.

    Examples
    --------
    >>> box = PeerMailbox()
    >>> box.peer("us").messages
    0
    """

    def __init__(self, most: int = 10_000, robust: Robust | None = None) -> None:
        self.most, self.robust = most, robust
        self._few = False
        self.peers: dict[str, PeerState] = {}
        self.envelopes: Mapping[tuple[str, str], int] = {}
        """What the transport refused before it was read, by (sender, reason); it counts on."""

    def peer(self, name: str) -> PeerState:
        """State of a peer; names beyond the limit share one."""
        if name not in self.peers and len(self.peers) >= self.most:
            name = "(others)"
        return self.peers.setdefault(name, PeerState())

    def remember(self, name: str, number: int) -> None:
        """A message of this number has been averaged before this process began."""
        peer = self.peer(name)
        peer.number, peer.alive = number, False

    def refuse(self, error: RefusedMessageError, sender: str = "") -> None:
        """Count a message that was refused."""
        name = error.sender or sender or "(unknown)"
        known = name in self.peers
        peer = self.peer(name)
        peer.alive = peer.alive and known
        peer.refused[error.reason] += 1

    def refused(self, sender: str, reason: str) -> int:
        """How many messages of a sender were refused for a reason."""
        return self.peer(sender or "(unknown)").refused[reason]

    def put(self, message: Message, blob: bytes) -> bool:
        """Keep a message as its sender's newest; whether it is new. An older one is refused.

        The newest one may come again: it is sent anew where members have changed.
        """
        peer = self.peer(message.sender)
        if message.number == peer.number:
            return False
        if message.number < peer.number:
            raise RefusedMessageError(
                "not newer",
                f"found message {message.number} of {message.sender} after {peer.number}: it was sent "
                "before, or by a machine whose clock is behind",
                message.sender,
            )
        peer.number, peer.newest, peer.heard = message.number, (message, blob), time.time()
        peer.agents, peer.examples, peer.alive = message.agents, message.examples, True
        peer.waiting = True
        peer.messages += 1
        return True

    def fresh(self) -> list[tuple[Message, bytes]]:
        """Messages to mix, by the name of their senders: those that have not been, though a sender may have
        left since, or the newest of all who are alive."""
        found = [peer for _, peer in sorted(self.peers.items()) if peer.alive or peer.waiting]
        return [peer.newest for peer in found if peer.newest is not None]

    def waits(self, names: Iterable[str]) -> bool:
        """Whether a message of one of these has not been mixed."""
        return any(self.peers[name].waiting for name in names)

    def drop(self, name: str) -> None:
        """The message of a peer cannot be mixed any more."""
        self.peers[name].waiting, self.peers[name].newest = False, None

    def taken(self, names: Iterable[str]) -> None:
        """Messages of these have been mixed."""
        for name in names:
            peer = self.peers[name]
            peer.waiting, peer.newest = False, peer.newest if self.robust else None

    def too_few(self, count: int) -> str:
        """What to tell, once, where messages of so many peers are too few for a robust average."""
        before, self._few = self._few, self.robust is not None and count <= 2 * self.robust.liars
        if before or not self._few or self.robust is None:
            return ""
        return (
            f"`average` {self.robust.name} needs {2 * self.robust.liars + 1} peers or more, {count} are "
            "heard: the node learns almost alone"
        )

    def living(self) -> list[str]:
        """Names of the peers that are alive."""
        return sorted(name for name, peer in self.peers.items() if peer.alive and peer.number >= 0)

    def shown(self) -> list[dict[str, Any]]:
        """For the metadata of a model."""
        refused = {name: Counter(peer.refused) for name, peer in self.peers.items()}
        for (name, reason), count in list(self.envelopes.items()):
            refused.setdefault(name, Counter())[reason] += count
        absent = PeerState(alive=False)
        shown = [(name, self.peers.get(name, absent), refused[name]) for name in sorted(refused)]
        return [
            {"name": name, "alive": peer.alive, "messages": peer.messages,
             "examples": peer.examples, "heard": peer.heard or None,
             "refused": sum(reasons.values()), "reasons": dict(reasons)}
            for name, peer, reasons in shown
        ]  # fmt: skip
