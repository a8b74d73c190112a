from __future__ import annotations

import asyncio

import pytest

from proxy.edge.client_watch import Interrupted, Interruption
from proxy.edge.intake import (
    JOINED_UP_TO_BYTES,
    BodyTimeoutError,
    BodyTooLargeError,
    Intake,
    IntakeFullError,
)
from proxy.openai_api.blocks import Blocks
from proxy.upstream.late_expiry import GRACE_S
from tests.support.client_messages import ClientMessages
from tests.support.virtual_time import after_timers, hold_up, now, run, settle


def intake(max_body: int = 100, timeout_s: float = 30.0, max_buffered: int = 1000) -> Intake:
    return Intake(max_body, timeout_s, max_buffered)


def client_with(*pieces: bytes, whole: bool = True) -> ClientMessages:
    client = ClientMessages()
    for number, piece in enumerate(pieces, start=1):
        client.body(piece, more=not (whole and number == len(pieces)))
    return client


def test_a_body_in_one_piece_is_passed_on_without_a_copy() -> None:
    async def scenario() -> None:
        body = b"x" * 100
        assert await intake().read(client_with(body).receive, 100) is body

    run(scenario())


@pytest.mark.parametrize("pieces", [[b""], [b"", b""], [b"a", b"b", b"c"], [b"abc", b""]])
def test_a_body_is_the_sum_of_its_pieces(pieces: list[bytes]) -> None:
    async def scenario() -> None:
        reader = intake()
        assert await reader.read(client_with(*pieces).receive, None) == b"".join(pieces)
        assert reader.buffered_bytes == 0

    run(scenario())


def test_a_message_without_a_body_ends_an_empty_one() -> None:
    async def scenario() -> None:
        async def receive() -> dict[str, object]:
            return {"type": "http.request"}

        assert await intake().read(receive, None) == b""

    run(scenario())


def test_a_body_may_be_as_large_as_the_limit() -> None:
    async def scenario() -> None:
        assert len(await intake().read(client_with(b"x" * 60, b"x" * 40).receive, 100)) == 100

    run(scenario())


def test_a_declared_length_over_the_limit_is_refused_without_reading() -> None:
    async def scenario() -> None:
        client = ClientMessages()  # would wait for ever
        with pytest.raises(BodyTooLargeError):
            await intake().read(client.receive, 101)

    run(scenario())


@pytest.mark.parametrize("declared", [None, 5])
def test_a_body_that_grows_over_the_limit_is_refused_at_that_byte(declared: int | None) -> None:
    async def scenario() -> None:
        reader = intake()
        client = client_with(b"x" * 100, b"x", whole=False)
        with pytest.raises(BodyTooLargeError):
            await reader.read(client.receive, declared)
        assert reader.buffered_bytes == 0

    run(scenario())


def test_a_body_that_stops_coming_is_refused_with_what_came() -> None:
    async def scenario() -> None:
        reader = intake()
        with pytest.raises(BodyTimeoutError) as caught:
            await reader.read(client_with(b"abc", whole=False).receive, 10)
        assert caught.value.received == 3
        assert now() == 30
        assert reader.buffered_bytes == 0

    run(scenario())


def test_the_time_is_for_the_whole_body_and_not_for_a_piece() -> None:
    async def scenario() -> None:
        client = ClientMessages()
        loop = asyncio.get_running_loop()
        for second in range(1, 60):
            loop.call_at(second, lambda: client.body(b"x", more=True))
        with pytest.raises(BodyTimeoutError) as caught:
            await intake().read(client.receive, None)
        assert now() == 30
        assert caught.value.received in (29, 30)

    run(scenario())


def test_what_came_while_the_loop_was_held_up_came_in_time() -> None:
    async def scenario() -> None:
        client = client_with(b"abc", whole=False)

        def held_up() -> None:
            hold_up(10)
            after_timers(client.body, b"def")

        asyncio.get_running_loop().call_at(29, held_up)
        reader = intake()
        assert await reader.read(client.receive, None) == b"abcdef"
        assert (now(), reader.buffered_bytes) == (39, 0)

    run(scenario())


def test_what_had_not_come_when_the_loop_went_on_is_refused_a_little_later() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_at(29, hold_up, 10)
        reader = intake()
        with pytest.raises(BodyTimeoutError) as caught:
            await reader.read(client_with(b"abc", whole=False).receive, None)
        assert (now(), caught.value.received) == (39 + GRACE_S, 3)
        assert reader.buffered_bytes == 0

    run(scenario())


def test_a_client_that_leaves_in_the_middle_ends_it() -> None:
    async def scenario() -> None:
        reader = intake()
        client = client_with(b"abc", whole=False)
        client.leave()
        with pytest.raises(Interrupted) as caught:
            await reader.read(client.receive, 10)
        assert caught.value.interruption is Interruption.CLIENT_GONE
        assert reader.buffered_bytes == 0

    run(scenario())


def test_uploads_hold_no_more_memory_together_than_they_may() -> None:
    async def scenario() -> None:
        reader = intake(max_buffered=250)
        clients = [client_with(b"x" * 100, whole=False) for _ in range(3)]
        reading = [asyncio.create_task(reader.read(one.receive, None)) for one in clients]
        await settle()
        assert reader.buffered_bytes == 200
        with pytest.raises(IntakeFullError) as caught:
            await reading[2]
        assert caught.value.most == 250
        for client in clients[:2]:
            client.body()
        assert [len(await task) for task in reading[:2]] == [100, 100]
        assert reader.buffered_bytes == 0

    run(scenario())


def test_a_body_that_is_whole_makes_room_for_the_next_upload() -> None:
    async def scenario() -> None:
        reader = intake(max_buffered=100)
        for _ in range(3):
            await reader.read(client_with(b"x" * 100).receive, None)

    run(scenario())


def test_a_cancelled_upload_gives_its_memory_back() -> None:
    async def scenario() -> None:
        reader = intake()
        client = client_with(b"x" * 50, whole=False)
        reading = asyncio.create_task(reader.read(client.receive, None))
        await settle()
        assert reader.buffered_bytes == 50
        reading.cancel()
        await settle()
        assert reading.cancelled()
        assert (reader.buffered_bytes, client.listeners) == (0, 0)

    run(scenario())


def test_a_body_that_is_here_is_taken_without_a_copy() -> None:
    body = b"x" * 100
    assert intake().accept(body) is body


def test_a_body_that_is_here_is_bounded_too() -> None:
    with pytest.raises(BodyTooLargeError):
        intake().accept(b"x" * 101)


@pytest.mark.parametrize("piece_bytes", [1_000, 100_000, 1_000_000])
def test_a_large_body_comes_in_blocks_of_about_the_same_size(piece_bytes: int) -> None:
    async def scenario() -> None:
        sent = bytes(range(250)) * 12_000
        pieces = [sent[at : at + piece_bytes] for at in range(0, len(sent), piece_bytes)]
        reader = intake(max_body=len(sent), max_buffered=len(sent))
        body = await reader.read(client_with(*pieces).receive, None)
        assert isinstance(body, Blocks)
        assert bytes(body) == sent
        assert all(len(block) > JOINED_UP_TO_BYTES for block in body.blocks[:-1])
        assert max(map(len, body.blocks)) <= JOINED_UP_TO_BYTES + piece_bytes
        assert reader.buffered_bytes == 0

    run(scenario())


def test_a_body_up_to_a_bound_comes_in_one_piece() -> None:
    async def scenario() -> None:
        half = b"x" * (JOINED_UP_TO_BYTES // 2)
        reader = intake(max_body=10_000_000, max_buffered=10_000_000)
        assert await reader.read(client_with(half, half).receive, None) == half + half

    run(scenario())
