"""Letters between processes of one machine: by the system's sockets, past Ray's threads.

A call of Ray takes about half a millisecond, most of it work of Ray's threads on the cores on which actors
learn; a datagram takes the system a few microseconds.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable

_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a sender, as Linux writes them."""

_LONGEST = 1 << 18
"""Bytes of a letter; the system's own limit is lower as a rule."""


class Wire:
    """A door that other processes on this machine may put letters through, and a way to theirs.

    It is a shortcut: what is too long for a door, or finds it full, gone or on another machine, has to be
    sent in another way. Letters of other users of the machine are dropped, since whoever opens a letter
    trusts it. Where the system has no such sockets there is no door.

    Parameters
    ----------
    deliver : function of bytes
        Called for every letter, by a thread of its own; the bytes are good until it returns.

    Examples
    --------
    >>> import queue
    >>> letters = queue.Queue()
    >>> here, there = Wire(print), Wire(lambda letter: letters.put(bytes(letter)))
    >>> here.send(there.door, b"hello") and letters.get()
    b'hello'
    >>> here.send(there.door[:-1], b"hello")
    False
    """

    def __init__(self, deliver: Callable[[memoryview], None]) -> None:
        self.door, self._deliver = b"", deliver
        if not hasattr(socket, "SO_PASSCRED"):  # Linux has it, and names that are no files
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.door = b"\0ddol-" + secrets.token_hex(16).encode()
        self._socket.bind(self.door)
        threading.Thread(target=self._listen, name="ddol-wire", daemon=True).start()

    def send(self, door: bytes, letter: bytes) -> bool:
        """Put a letter through a door, without waiting: whether it is there."""
        if not (door and self.door) or len(letter) > _LONGEST:
            return False
        try:
            self._socket.sendto(letter, socket.MSG_DONTWAIT, door)
        except OSError:
            return False
        return True

    def _listen(self) -> None:
        letter, user = memoryview(bytearray(_LONGEST)), os.getuid()
        space = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            size, about, _, _ = self._socket.recvmsg_into([letter], space)
            if any(_CREDENTIALS.unpack(said)[1] == user for _, _, said in about):
                self._deliver(letter[:size])
