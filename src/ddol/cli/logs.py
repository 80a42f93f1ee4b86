"""``--log-format`` and ``--log-level``: the log of commands as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

LOGGER = "ddol"


class LogLines(logging.Formatter):
    """Records as one JSON object a line: time, level, logger, message, and the traceback of an error.

    Examples
    --------
    >>> record = logging.LogRecord("ddol", logging.INFO, "", 0, "model: m.ddol", None, None)
    >>> json.loads(LogLines().format(record))["message"]
    'model: m.ddol'
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


class PlainLines(logging.Formatter):
    """Records as plain lines; warnings begin with ``warning:``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        text = record.getMessage()
        return f"warning: {text}" if record.levelno == logging.WARNING else text


class _StandardError(logging.Handler):
    """Standard error as it is now, which tests and programs may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


class _Chosen:
    form = ""
    """ "json" or "text" where a command line chose one."""


def configure(form: str | None, level: str | None) -> None:
    """Write records of ``ddol`` to standard error from a level on, as text or JSON.

    Parameters
    ----------
    form : "text", "json" or None
        None is text.
    level : name of a level or None
        None is info.
    """
    handler = _StandardError()
    handler.setFormatter(LogLines() if form == "json" else PlainLines())
    logger = logging.getLogger(LOGGER)
    logger.handlers = [handler]
    logger.setLevel((level or "info").upper())
    logger.propagate = False
    _Chosen.form = form or "text"


def forget() -> None:
    """Undo `configure`: the next command of this process may choose otherwise."""
    if not _Chosen.form:
        return
    logger = logging.getLogger(LOGGER)
    logger.handlers = []
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    _Chosen.form = ""


def is_json() -> bool:
    """Whether lines are JSON, beside which no table is shown."""
    return _Chosen.form == "json"
