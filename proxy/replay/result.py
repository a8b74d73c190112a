"""The file that a replay leaves behind: one JSON object, names as docs/replay.md lists them.

A reader gets either a whole result or a sentence that says what is wrong, and where in the file.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.replay.client.lag import LATE_S
from proxy.replay.percentiles import Percentiles  # noqa: TC001 - msgspec reads the types
from proxy.replay.request_times import Objective  # noqa: TC001 - msgspec reads the types
from proxy.replay.series import Series  # noqa: TC001 - msgspec reads the types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

FORMAT = "sluice-replay"
# Goes up when a reader of the older version would misread a file; new fields alone do not.
VERSION = 1


class BadResultError(Exception):
    """One line: which file, where in it, what is wrong."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """How the load was played, as far as it is no part of the load."""

    url: str
    started_unix_s: float
    elapsed_s: float
    partial: bool = False
    """Broken off: what is here did happen, the rest of the load did not."""
    command: str | None = None
    versions: dict[str, str] = {}
    notes: list[str] = []
    generator: dict[str, float] = {}
    """What it costs to trust the figures: how late the load generator was itself, and how far the
    prompts were from the lengths that were asked for."""

    @property
    def late_s(self) -> float:
        """By how much requests began late, or events were read late: the worse of the two at the
        99th percentile, 0 where nobody looked."""
        return max(self.generator.get(name, 0.0) for name in ("loop_lag_p99_s", "start_lag_p99_s"))

    @property
    def is_late(self) -> bool:
        """Then the run measured the generator."""
        return self.late_s > LATE_S


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """One entry a request in each list, by arrival: what `sluice compare` resamples."""

    arrived_s: list[float]
    prompt_tokens: list[int]
    output_tokens: list[int]
    tries: list[int]
    fate: list[str]
    good: list[bool]
    ttft_s: list[float | None]
    tpot_s: list[float | None]
    e2e_s: list[float]


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Times between two chunks of one answer, counted: entry i says that of the requests which
    arrived in second `second[i]`, `count[i]` gaps lay between 1.01^bucket[i] and
    1.01^(bucket[i] + 1) seconds."""

    second: list[int]
    bucket: list[int]
    count: list[int]


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """Counts are of requests, but `attempts`, `statuses` and `refusals` are of tries; percentiles
    are of completed requests. Goodput is per second in which requests arrived (`duration_s`);
    tokens are per second until the last one came (`lasted_s`), for an engine works on after the
    last arrival.
    """

    format: str = FORMAT
    format_version: int = VERSION
    offered: int
    completed: int
    good: int
    failed: int
    shed: int
    abandoned: int
    attempts: int
    amplification: float
    duration_s: float
    lasted_s: float
    goodput_per_s: float
    throughput_tokens_per_s: float
    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles
    e2e_s: Percentiles
    generator_lag_s: Percentiles
    statuses: dict[str, int]
    refusals: dict[str, int]
    objective: Objective
    load: dict[str, Any]
    run: Run
    series: Series
    requests: Requests
    gaps: Gaps

    @property
    def load_hash(self) -> str:
        return str(self.load.get("hash", ""))


class _Head(msgspec.Struct):
    format: str
    format_version: int


def to_json(result: ReplayResult) -> bytes:
    return msgspec.json.encode(result) + b"\n"


def to_short_json(result: ReplayResult) -> bytes:
    """Without what is kept for each request: for a terminal or a script."""
    kept: Mapping[str, Any] = msgspec.to_builtins(result)
    return msgspec.json.encode({k: v for k, v in kept.items() if k not in ("requests", "gaps")})


def write_result(result: ReplayResult, path: Path) -> None:
    """All or nothing: a reader never sees half a file. Raises OSError."""
    if path.exists() and not path.is_file():  # a device or a pipe is written to, never replaced
        path.write_bytes(to_json(result))
        return
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_bytes(to_json(result))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_result(path: Path) -> ReplayResult:
    """Raises BadResultError."""
    try:
        written = path.read_bytes()
    except OSError as error:
        raise BadResultError(f"{path}: {error.strerror or error}") from error
    try:
        return _decoded(written)
    except BadResultError as error:
        raise BadResultError(f"{path}: {error}") from error


def _decoded(written: bytes) -> ReplayResult:
    try:
        head = msgspec.json.decode(written, type=_Head)
    except msgspec.ValidationError as error:
        raise BadResultError(f"not a result of sluice replay: {error}") from error
    except msgspec.DecodeError as error:
        raise BadResultError(f"not whole JSON: {error}") from error
    if head.format != FORMAT:
        raise BadResultError(f"not a result of sluice replay: its format is {head.format[:40]!r}")
    if head.format_version != VERSION:
        raise BadResultError(
            f"format version {head.format_version}; this sluice reads version {VERSION}"
        )
    try:
        result = msgspec.json.decode(written, type=ReplayResult)
    except msgspec.ValidationError as error:
        raise BadResultError(str(error)) from error
    if problem := _inconsistent(result):
        raise BadResultError(problem)
    return result


def _inconsistent(result: ReplayResult) -> str | None:
    if "hash" not in result.load:
        return "its load has no hash"
    tables = {name: _columns(getattr(result, name)) for name in ("requests", "gaps", "series")}
    tables["series"] |= result.series.sheds
    return next(filter(None, (_uneven(name, columns) for name, columns in tables.items())), None)


def _columns(table: Requests | Gaps | Series) -> dict[str, Sequence[object]]:
    columns = {name: getattr(table, name) for name in table.__struct_fields__}
    return {name: column for name, column in columns.items() if isinstance(column, list)}


def _uneven(table: str, columns: Mapping[str, Sequence[object]]) -> str | None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) <= 1:
        return None
    listed = ", ".join(f"{name[:40]!s} {length}" for name, length in lengths.items())
    return f"the lists of {table} have different lengths: {listed}"
