"""Numbers as traces write them, checked where they are read."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from proxy.replay.traces.problem import BadLineError

# No model has so long a context; a cell beyond it is some other column.
MOST_TOKENS = 100_000_000
# Nor does any clock come to that: in milliseconds it is the year 2286.
_LATEST = 1e13
_SECOND = len("2023-11-16 18:15:46")


def tokens(written: object, name: str) -> int:
    """Whole and not negative; raises BadLineError."""
    try:
        count = float(written)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BadLineError(f"{name} is {_shown(written)}, which is no number") from None
    if isinstance(written, bool) or not count.is_integer() or not 0 <= count <= MOST_TOKENS:
        raise BadLineError(f"{name} is {_shown(written)}, which is no count of tokens")
    return int(count)


def seconds(written: object, name: str) -> float:
    """Or milliseconds, on any clock; raises BadLineError."""
    try:
        value = float(written)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BadLineError(f"{name} is {_shown(written)}, which is no number") from None
    if isinstance(written, bool) or not -_LATEST <= value <= _LATEST:
        raise BadLineError(f"{name} is {_shown(written)}, which is no time")
    return value


def unix_seconds(written: str, name: str) -> float:
    """`2023-11-16 18:15:46.6805900`, with any number of digits behind the point or none, and with
    or without an offset; a time without one is read as UTC. Raises BadLineError."""
    whole, rest = written[:_SECOND], written[_SECOND:]
    digits = rest[1:].partition("+")[0].partition("-")[0].rstrip("Zz") if rest[:1] == "." else ""
    offset = rest[1 + len(digits) :] if digits else rest
    try:
        fraction = float(f"0.{digits}") if digits.isascii() and digits.isdigit() else 0.0
        return _whole_seconds(whole, offset) + fraction
    except ValueError:
        raise BadLineError(f"{name} is {_shown(written)}, which is no time") from None


@lru_cache(maxsize=8)  # neighbouring rows lie in the same second
def _whole_seconds(whole: str, offset: str) -> float:
    moment = datetime.fromisoformat(whole + offset)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _shown(written: object) -> str:
    return repr(written)[:40]
