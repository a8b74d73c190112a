"""Sets up the standard library's logging for a process that runs the gateway.

Every logger ends in one handler, which formats and hands the line to a LineWriter: a terminal or
a collector that does not read must not stop the event loop. In JSON a record is one line,
traceback included.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.telemetry.log_format import LogFormat
from proxy.telemetry.printable import printable
from proxy.telemetry.redaction import redact
from proxy.telemetry.traceback_text import traceback_text

if TYPE_CHECKING:
    from proxy.telemetry.line_writer import LineWriter

# At DEBUG and INFO these write URLs, headers and frames, and asyncio the repr of whatever runs.
_TALKATIVE: Final = ("asyncio", "hpack", "httpcore", "httpx", "uvicorn.error")
_ACCESS_LOG_OF_UVICORN: Final = "uvicorn.access"
# Who changed what is written down at any level.
_AUDIT: Final = "sluice.admin"


def configure_logging(level: str, log_format: LogFormat, writer: LineWriter) -> None:
    """Replaces whatever handlers the root logger has. `level` is a level's name in any case.

    uvicorn must be run with `log_config=None`, or it installs its own handlers again.
    Raises ValueError for an unknown level.
    """
    root = logging.getLogger()
    root.setLevel(level.upper())
    for handler in root.handlers.copy():
        root.removeHandler(handler)
    root.addHandler(LineHandler(writer, log_format))
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger(_AUDIT).setLevel(logging.WARNING)
    # The gateway writes its own access log.
    logging.getLogger(_ACCESS_LOG_OF_UVICORN).disabled = True
    logging.captureWarnings(capture=True)


class LineHandler(logging.Handler):
    """Formats records and hands them on; formatting is all that the caller waits for."""

    def __init__(self, writer: LineWriter, log_format: LogFormat) -> None:
        super().__init__()
        self._writer = writer
        self.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else ConsoleFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(self.format(record).encode("utf-8", "backslashreplace") + b"\n")
        except Exception:  # noqa: BLE001 - what every handler of the standard library does
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as it is called
        """As the standard library's, but without the record's arguments and to where all goes."""
        kind = getattr(sys.exc_info()[0], "__name__", "nothing")
        said = f"a line of {record.name} is lost: {kind}"
        lost = logging.LogRecord("sluice.log", logging.ERROR, "", 0, said, None, None)
        self._writer.write(self.format(lost).encode() + b"\n")

    def flush(self) -> None:
        """Called at exit by the logging module, which is when the last lines must get out."""
        self._writer.flush()


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON form of a log record."""

    time: datetime
    level: str
    logger: str
    message: str
    traceback: str | None = None


class JsonFormatter(logging.Formatter):
    """One JSON object, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        line = LogLine(
            time=datetime.fromtimestamp(record.created, UTC),
            level=record.levelname.lower(),
            logger=record.name,
            message=printable(redact(record.getMessage())),
            traceback=redact(trace) if (trace := _traceback(record)) else None,
        )
        return msgspec.json.encode(line).decode()


class ConsoleFormatter(logging.Formatter):
    """Time, level, message; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        message = printable(redact(record.getMessage()))
        lines = [f"{moment:%H:%M:%S} {record.levelname.lower():8} {message}"]
        lines += [f"  {printable(line)}" for line in redact(_traceback(record)).splitlines()]
        return "\n".join(lines)


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[1] is not None:
        return traceback_text(record.exc_info[1])
    return record.stack_info or ""
