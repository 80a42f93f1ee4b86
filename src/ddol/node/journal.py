"""Durable state of a node: an append-only journal and snapshots, in a folder.

A record is written to the log by one call of the system before anything follows from it, so that it
survives the end of the process. It survives a loss of power when the log is flushed; one flush does so for
all records before it. SQLite in WAL mode takes 23 to 37 µs for a committed row, one write of 200 bytes 2 µs.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ddol.node.errors import NodeError, NotDurableError
from ddol.node.records import Record, records, records_behind, whole_length

_log = logging.getLogger("ddol.node")
SYNC, NONE = "sync", "none"
_LOG, _SNAPSHOT = "journal-{:08d}.log", "snapshot-{:08d}.safetensors"
_KEPT = 2
"""Snapshots that are kept, with the logs behind them."""


def seconds_of(text: str | float) -> float:
    """Seconds of a time such as ``5ms``, ``2s``, ``30m`` or ``1h``.

    Examples
    --------
    >>> seconds_of("5ms"), seconds_of("30m"), seconds_of(2)
    (0.005, 1800.0, 2.0)
    """
    if isinstance(text, int | float):
        if not 0.0 <= text < float("inf"):
            raise NodeError(f"found the time {text!r}, expected one such as 5ms, 2s, 30m or 1h")
        return float(text)
    found = re.fullmatch(r"\s*([0-9.]+)\s*(ms|s|m|h|d|)\s*", text)
    try:
        number = float(found[1]) if found else -1.0
    except ValueError:
        number = -1.0
    if found is None or number < 0.0:
        raise NodeError(f"found the time {text!r}, expected one such as 5ms, 2s, 30m or 1h")
    return number * {"ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[found[2]]


def flush_seconds(durability: str) -> float | None:
    """How often the log is flushed: 0 for every answer, None for never."""
    if durability in (SYNC, NONE):
        return 0.0 if durability == SYNC else None
    kind, _, time = durability.partition(":")
    if kind != "batch":
        raise NodeError(f"`durability`: found {durability!r}, expected sync, batch:5ms or none")
    return max(seconds_of(time or "5ms"), 1e-3)


class Journal:
    """The log and the snapshots of one node.

    Parameters
    ----------
    folder : path
        Made if it is missing; one process at a time has it.
    durability : str
        ``sync``: an answer is acknowledged when it is flushed. ``batch:5ms``: the log is flushed so often.
        ``none``: the operating system decides.
    keep_all : bool
        Keep the whole log, for `ddol replay`; by default what two snapshots make superfluous is removed.

    Examples
    --------
    >>> import tempfile
    >>> from ddol.node.records import NETWORK, framed
    >>> folder = tempfile.mkdtemp()
    >>> journal = Journal(folder)
    >>> journal.append(framed(NETWORK, b"[3]"))
    12
    >>> journal.close()
    >>> [record.body for record in Journal(folder).behind(0)]
    [b'[3]']
    """

    def __init__(
        self, folder: str | Path, durability: str = "batch:5ms", keep_all: bool = False
    ) -> None:
        self.folder, self.keep_all = Path(folder), keep_all
        self.every = flush_seconds(durability)
        self.closed = False
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._guard = self._locked()
        except OSError as error:
            raise NodeError(
                f"{self.folder}: cannot be the store of a node ({error.strerror}); give a folder that can be "
                "written to"
            ) from None
        self.cut = ""
        """What was cut from the end of the log, in words."""
        self.failed = ""
        """Why the last write was not possible, if it was not."""
        self.lost = ""
        """Why written records did not reach the disk, if they did not."""
        for left in self.folder.glob(".snapshot-*.tmp"):  # of a process that was killed
            left.unlink(missing_ok=True)
        self._flushing, self._waking = threading.Lock(), threading.Event()
        self._calls: list[tuple[int, Callable[[], object]]] = []
        self._calls_lock = threading.Lock()
        self.written = self.flushed = 0
        """Bytes of this process's records: written, and on the disk for certain."""
        numbers = self._numbers(_LOG)
        self.number = numbers[-1] if numbers else max([0, *self._numbers(_SNAPSHOT)])
        self._open()
        self._flusher: threading.Thread | None = None
        if self.every:
            self._flusher = threading.Thread(
                target=self._flush_often, daemon=True, name="ddol flush"
            )
            self._flusher.start()

    def _locked(self) -> int:
        guard = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(guard)
            raise NodeError(
                f"{self.folder}: another process uses this store; give each node its own"
            ) from None
        return guard

    def _numbers(self, pattern: str) -> list[int]:
        shown = re.compile(re.escape(pattern).replace(r"\{:08d\}", r"(\d{8})"))
        found = (shown.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def _open(self) -> None:
        """Open the newest log for appending, and cut an incomplete last record."""
        path = self.folder / _LOG.format(self.number)
        if path.exists():
            text = path.read_bytes()
            whole = whole_length(text)
            if whole < len(text):
                self._cut(path, text, whole)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = os.fstat(self._file).st_size
        folder = os.open(self.folder, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some file systems cannot flush a folder
            os.fsync(folder)
        os.close(folder)

    def _cut(self, path: Path, text: bytes, whole: int) -> None:
        """Cut an incomplete last record; whole records behind it mean damage, and are kept in a file."""
        self.cut = f"a torn tail of {len(text) - whole} bytes was cut"
        lost = records_behind(text, whole)
        if lost:
            beside = path.with_suffix(".cut")
            beside.write_bytes(text[whole:])
            self.cut = f"{path.name} is damaged at byte {whole}"
            _log.error(
                "%s: damaged at byte %d; %d records behind it, which may be acknowledged answers, are not "
                "played, and kept in %s",
                path, whole, lost, beside,
            )  # fmt: skip
        os.truncate(path, whole)

    # --- reading ------------------------------------------------------------------------------------

    def snapshots(self) -> Iterator[tuple[int, Path]]:
        """Snapshots with the number of the log that begins after each, the newest first."""
        for number in reversed(self._numbers(_SNAPSHOT)):
            yield number, self.folder / _SNAPSHOT.format(number)

    @property
    def has_first(self) -> bool:
        """Whether the log from the very beginning is there."""
        return 0 in self._numbers(_LOG)

    def behind(self, number: int) -> Iterator[Record]:
        """Records of the logs from one on."""
        for each in self._numbers(_LOG):
            if each >= number:
                path = self.folder / _LOG.format(each)
                text = path.read_bytes()
                whole = whole_length(text)
                if each != self.number and whole < len(text):
                    raise NodeError(
                        f"{path}: damaged at byte {whole}, expected whole records, as a later log follows; "
                        "restore the file, or give the node another store"
                    )
                yield from records(text)

    # --- writing ------------------------------------------------------------------------------------

    def append(self, text: bytes) -> int:
        """Write whole records, all or nothing; the place to wait for (`wait`)."""
        if self.closed:
            raise NotDurableError(f"{self.folder}: the node is closed; nothing more is learned")
        try:
            if self.lost:
                raise OSError(self.lost)
            done = os.write(self._file, text)
            if done != len(text):
                raise OSError("the disk is full")
        except OSError as error:
            os.ftruncate(self._file, self.size)
            self._fail(error.strerror or str(error))
            raise NotDurableError(
                f"{self.folder}: cannot write the journal ({self.failed}); the answer was not learned, "
                "give it again later"
            ) from None
        if self.failed:
            _log.info("%s: the journal can be written again", self.folder)
            self.failed = ""
        self.size += done
        self.written += done
        return self.written

    def _fail(self, why: str) -> None:
        """Log once that the journal cannot be written."""
        if not self.failed:
            _log.error(
                "%s: cannot write the journal (%s); labels are refused, predictions go on",
                self.folder,
                why,
            )
        self.failed = why

    def wait(self, place: int) -> None:
        """Wait until all records up to a place are flushed, by this thread or another."""
        while self.flushed < place and not self.lost:
            with self._flushing:
                if self.flushed < place:
                    self._flush()
        self.check_flushed(place)

    def check_flushed(self, place: int) -> None:
        """Raise an error if records up to a place did not reach the disk."""
        if self.flushed < place and self.every is not None:
            raise NotDurableError(
                f"{self.folder}: the disk has lost what was written ({self.lost}); nothing is acknowledged "
                "until the node is started again"
            )

    def _flush(self) -> None:
        place = self.written
        try:
            os.fdatasync(self._file)
            self.flushed = max(self.flushed, place)
        except OSError as error:  # the system may have dropped it: a second try would prove nothing
            self.lost = error.strerror or str(error)
            self._fail(self.lost)
        with self._calls_lock:
            due = [call for at, call in self._calls if at <= self.flushed or self.lost]
            self._calls = [pair for pair in self._calls if pair[0] > self.flushed and not self.lost]
        for call in due:
            call()

    def _flush_often(self) -> None:
        assert self.every is not None
        while not self._waking.wait(self.every):
            if self.flushed < self.written:
                with self._flushing:
                    if not self.closed:
                        self._flush()

    def when_flushed(self, place: int, call: Callable[[], object]) -> None:
        """Call when all records up to a place are flushed, or never will be: at once where that is so."""
        with self._calls_lock:
            due = self.every is None or self.flushed >= place or bool(self.lost)
            if not due:
                self._calls.append((place, call))
        if due:
            call()
            return
        if self.every == 0.0:
            threading.Thread(target=self._flush_to, args=(place,), daemon=True).start()

    def _flush_to(self, place: int) -> None:
        with self._flushing:
            if self.flushed < place and not self.closed:
                self._flush()

    # --- snapshots ----------------------------------------------------------------------------------

    def rotate(self) -> tuple[int, Path]:
        """Begin a new log; its number, and the name of the snapshot that is to be written before it."""
        with self._flushing:
            self._flush()
            before = self._file
            self.number += 1
            try:
                self._open()
            except OSError:
                self.number -= 1
                raise
            os.close(before)
        return self.number, self.folder / _SNAPSHOT.format(self.number)

    def remove_old(self) -> None:
        """Remove what is older than the snapshots that are kept."""
        numbers = self._numbers(_SNAPSHOT)
        if len(numbers) < _KEPT:
            return
        least = numbers[-_KEPT]
        for number in numbers[:-_KEPT]:
            (self.folder / _SNAPSHOT.format(number)).unlink(missing_ok=True)
        for number in [] if self.keep_all else self._numbers(_LOG):
            if number < least:
                (self.folder / _LOG.format(number)).unlink(missing_ok=True)

    def close(self) -> None:
        """Flush, and release the folder for other processes."""
        if self.closed:
            return
        self._waking.set()
        with self._flushing:
            self._flush()
            self.closed = True
            os.close(self._file)
            os.close(self._guard)
