from __future__ import annotations

import asyncio

import pytest

from tests.bench.event_streams import ends_of_events
from tests.bench.fake_upstream import EngineOptions, _Metronome, _PreparedAnswers
from tests.bench.http_client import chat_request
from tests.support.fake_transport import FakeTransport
from tests.support.virtual_time import run

LARGE = 1_000_000
LARGE_REQUEST = b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % LARGE + b"a" * LARGE


class ClosingTransport(FakeTransport):
    def close(self) -> None:
        self.lose(None)


def engine(
    options: EngineOptions | None = None, metronome: _Metronome | None = None
) -> FakeTransport:
    protocol = _PreparedAnswers(options or EngineOptions(), metronome or _Metronome(0))
    return FakeTransport(protocol)


def answers(transport: FakeTransport) -> int:
    return b"".join(transport.written).count(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_every_request_is_answered_however_it_arrives(piece: int) -> None:
    transport = engine()
    sent = chat_request() * 3
    for start in range(0, len(sent), piece):
        transport.protocol.data_received(sent[start : start + piece])
    assert answers(transport) == 3


@pytest.mark.parametrize("piece", [4_096, 65_536, LARGE - 1, 2 * LARGE])
def test_a_large_body_is_answered_once_all_of_it_is_there(piece: int) -> None:
    transport = engine()
    sent = LARGE_REQUEST + chat_request()
    for start in range(0, len(LARGE_REQUEST) - 1, piece):
        end = min(start + piece, len(LARGE_REQUEST) - 1)
        transport.protocol.data_received(sent[start:end])
    assert answers(transport) == 0
    transport.protocol.data_received(sent[len(LARGE_REQUEST) - 1 :])
    assert answers(transport) == 2


def test_a_body_without_a_length_is_refused_rather_than_misread() -> None:
    async def scenario() -> None:
        transport = ClosingTransport(_PreparedAnswers(EngineOptions(), _Metronome(0)))
        head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        transport.protocol.data_received(head)
        assert transport.written[0].startswith(b"HTTP/1.1 411 ")
        assert transport.is_closing()
        await asyncio.sleep(0)

    run(scenario())


def test_an_answer_comes_as_late_as_it_was_told_to() -> None:
    async def scenario() -> None:
        transport = engine(EngineOptions(answer_after_s=0.1))
        transport.protocol.data_received(chat_request())
        await asyncio.sleep(0.09)
        assert answers(transport) == 0
        await asyncio.sleep(0.02)
        assert answers(transport) == 1

    run(scenario())


def test_every_stream_gets_all_its_events_spread_over_the_time_between_two() -> None:
    async def scenario() -> None:
        metronome = _Metronome(50)
        streams = [engine(metronome=metronome) for _ in range(40)]
        for stream in streams:
            stream.protocol.data_received(chat_request(stream=True))
        beating = asyncio.create_task(metronome.run())
        await asyncio.sleep(0.0105)  # half of the time between two events
        half = sum(len(stream.written) - 1 for stream in streams)
        await asyncio.sleep(0.99)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        assert half == 20
        assert {len(stream.written) - 1 for stream in streams} == {50}
        assert ends_of_events(half_an_end_before=False, data=streams[0].written[0]) == 1

    run(scenario())


def test_without_a_rate_a_stream_has_one_event_and_stays() -> None:
    transport = engine()
    transport.protocol.data_received(chat_request(stream=True))
    assert ends_of_events(half_an_end_before=False, data=b"".join(transport.written)) == 1
    assert not transport.is_closing()
