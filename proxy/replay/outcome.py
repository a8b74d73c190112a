"""What was asked of a replay, and what became of each request: plain records.

Times are seconds since the start of the replay.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from array import array


class Fate(enum.StrEnum):
    """How a request ended, for its client. A closed set."""

    COMPLETED = "completed"
    FAILED = "failed"
    SHED = "shed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class TryRecord:
    """One HTTP try. `status` 0: no whole answer came."""

    began_s: float
    status: int
    first_byte_s: float | None
    ended_s: float
    refusal_code: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request of an application, however many tries it took.

    `arrived_s` is when it should have started by the schedule; the first try may begin later where
    the generator lags. `token_times` are those of the chunks with text of its last try. Of several
    `sequences` all tokens are counted, and the times are those of the first one.
    """

    arrived_s: float
    prompt_tokens: int
    output_tokens_wanted: int
    tries: tuple[TryRecord, ...]
    first_token_s: float | None
    ended_s: float
    output_tokens: int
    token_times: array[float] | None
    fate: Fate
    sequences: int = 1


@dataclass(frozen=True, slots=True)
class Load:
    """What was asked for. Two loads with one `hash` are the same load."""

    source: str
    source_hash: str
    speed: float
    rate_per_s: float | None
    duration_s: float
    timeout_s: float
    max_retries: int
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    slo_e2e_s: float | None = None
    client: str = "openai-python"
    abandon_after: str | None = None

    @property
    def hash(self) -> str:
        written = msgspec.json.encode(asdict(self), order="sorted")
        return hashlib.sha256(written).hexdigest()[:16]
