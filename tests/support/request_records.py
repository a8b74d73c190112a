"""Request records with sensible values, of which a test names those it is about."""

from __future__ import annotations

import msgspec

from proxy.telemetry.request_outcome import RequestOutcome
from proxy.telemetry.request_record import RequestRecord


def request_record(**changes: object) -> RequestRecord:
    record = RequestRecord(
        arrived_wall_s=1_767_225_600.5,  # 2026-01-01T00:00:00.5Z
        arrived_at_s=112.25,
        request_id="req-1",
        method="POST",
        route="chat_completions",
        outcome=RequestOutcome.OK,
        status=200,
        duration_s=3.5,
        queue_wait_s=0.0125,
        ttfb_s=0.25,
        upstream="http://engine:8000",
        seats=1,
        stream=True,
        body_bytes=900,
        response_bytes=5_000,
        prompt_bytes=400,
        max_tokens=128,
        prompt_tokens_estimate=100,
        prompt_tokens=93,
        output_tokens=20,
    )
    return msgspec.structs.replace(record, **changes)


class CollectedLines:
    """A line sink that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line)
