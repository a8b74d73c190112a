from __future__ import annotations

import pytest

from proxy.recording.readings import GpuReading, Reading
from proxy.vllm.gateway_page import GatewayMetrics


@pytest.mark.parametrize(
    ("reading", "tells"),
    [
        (Reading(0.0), False),
        (Reading(0.0, engine_up=False), False),
        (Reading(0.0, engine_up=True), True),
        (Reading(0.0, gpus=(GpuReading(0),)), True),
        (Reading(0.0, gateway=GatewayMetrics(in_flight=0.0)), True),
    ],
)
def test_a_reading_tells_something_once_anybody_answered(reading: Reading, tells: bool) -> None:
    assert reading.tells_anything is tells
