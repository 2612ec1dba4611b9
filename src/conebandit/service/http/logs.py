"""What the service logs, to stderr: lines for people, or a JSON object on each line for programs that collect them."""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class LogFormat(StrEnum):
    """What lines look like."""

    text = "text"
    json = "json"


QUIET, OURS = logging.WARNING, logging.INFO  # from which level on others are heard, and we


def fields(**values: Any) -> dict[str, Any]:
    """What a line says beside its message, by name; for the argument ``extra`` of a logger.

    Examples
    --------
    >>> logging.getLogger("conebandit.access").info("answered", extra=fields(method="GET", status=200))
    """
    return {"fields": values}


class JsonLines(logging.Formatter):
    """One JSON object on each line: time, level, logger, message, fields, and the stack trace of an exception.

    Examples
    --------
    >>> record = logging.makeLogRecord({"name": "conebandit.access", "msg": "answered", "levelname": "INFO"})
    >>> record.created, record.fields = 0.25, {"status": 200}
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00.250Z", "level": "info", "logger": "conebandit.access", "message": "answered",
      "status": 200}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line; whatever is in it, it stays one, in ASCII."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        line |= {name: _plain(value) for name, value in _fields(record).items() if name not in line}
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """The same as text: fields follow on the message.

    Examples
    --------
    >>> record = logging.makeLogRecord({"name": "conebandit.access", "msg": "answered", "levelname": "INFO"})
    >>> record.created, record.fields = 0.25, {"method": "GET", "path": "/a b"}
    >>> TextLines().format(record)
    '1970-01-01T00:00:00.250Z INFO conebandit.access: answered method=GET path="/a b"'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, and a stack trace below it if there is one; control characters are written out."""
        said = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}"
        said += "".join(f" {name}={_word(value)}" for name, value in _fields(record).items())
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in said)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _ToStderr(logging.Handler):
    """Writes to what is stderr at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def set_up_logs(log_format: LogFormat) -> None:
    """Let this process log in a format, warnings of Python included."""
    root = logging.getLogger()
    for known in [handler for handler in root.handlers if isinstance(handler, _ToStderr)]:
        root.removeHandler(known)
    handler = _ToStderr()
    handler.setFormatter(JsonLines() if log_format is LogFormat.json else TextLines())
    root.addHandler(handler)
    root.setLevel(QUIET)
    logging.getLogger("conebandit").setLevel(OURS)
    logging.captureWarnings(True)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return dict(getattr(record, "fields", {}))


def _plain(value: Any) -> Any:
    """As JSON has it, which has no numbers that are not finite."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _word(value: Any) -> str:
    """A value without spaces as it is, any other in quotes."""
    text = str(value)
    return text if text and not set(text) & set(' "=') else json.dumps(text)
