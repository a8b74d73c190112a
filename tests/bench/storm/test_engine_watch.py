from __future__ import annotations

import pytest

from tests.bench.storm.engine_watch import EngineWatch, Reading

PAGE = b"""\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 4.0
vllm:num_requests_running{engine="1",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2.0
vllm:request_success_total{engine="0",finished_reason="length"} 20.0
vllm:request_success_total{engine="0",finished_reason="stop"} 1.0
vllm:request_success_total{engine="0",finished_reason="abort"} 5.0
vllm:request_success_created{engine="0",finished_reason="stop"} 1.7e9
"""


def test_a_page_is_read_over_all_engines_and_what_was_aborted_is_not_finished() -> None:
    assert Reading.of(PAGE) == Reading(running=7, waiting=2, finished=21)


def test_a_page_without_the_gauges_is_not_nothing_running() -> None:
    with pytest.raises(KeyError):
        Reading.of(b"")


def test_the_most_is_kept() -> None:
    watch = EngineWatch()
    for running, waiting in ((3, 9), (8, 1)):
        watch.note(Reading(running, waiting, 0))
    assert (watch.running, watch.waiting, watch.readings) == (8, 9, 2)
