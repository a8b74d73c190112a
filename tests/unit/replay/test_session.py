"""A replay from its options to its records, against an engine that is a script."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.replay.arrival import Arrival
from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.client.tally import Tally
from proxy.replay.request_times import Objective
from proxy.replay.schedule import LengthLimits, Schedule
from proxy.replay.session import Asking, Played, Prepared, connect, notes_on, play_schedule, prepare
from proxy.upstream.address import UpstreamAddress
from tests.support.replay_records import completed
from tests.support.replay_upstream import Scripted, ScriptedPort, chat

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.upstream.port import UpstreamRequest

ASKING = Asking(address=UpstreamAddress.parse("http://engine"), headers=[], salt=1)
SCHEDULE = Schedule(tuple(Arrival(i / 100, 50, 3) for i in range(20)), 0.2)
PATIENCE = Patience(PROFILES["none"], max_retries=0)


def _words(request: UpstreamRequest) -> int:
    body = json.loads(bytes(request.body))
    return len(body["messages"][0]["content"].split())


def _engine(request: UpstreamRequest, *, can_count: bool = True) -> Scripted:
    """A word is a token, and the template takes ten."""
    if request.target == b"/v1/models":
        body: dict[str, object] = {"data": [{"id": "m", "max_model_len": 40}]}
    elif request.target == b"/tokenize":
        if not can_count:
            return Scripted(404, [], [b""])
        body = {"count": _words(request) + 10}
    elif b'"stream":true' in request.body:
        return Scripted(pieces=chat(3, prompt_tokens=_words(request) + 10))
    else:
        body = {"usage": {"prompt_tokens": _words(request) + 10}}
    return Scripted(200, [], [json.dumps(body).encode()])


def _replayed(
    answer: Callable[[UpstreamRequest], Scripted] = _engine, *, ends_after_s: float | None = None
) -> tuple[Prepared, Played, Tally]:
    tally = Tally(Objective())

    async def scenario() -> tuple[Prepared, Played, Tally]:
        port = ScriptedPort(answer)
        prepared = await prepare(port, ASKING, SCHEDULE, LengthLimits())

        def begun(_clock: Callable[[], float], playing: asyncio.Task[None]) -> None:
            if ends_after_s is not None:
                asyncio.get_running_loop().call_later(ends_after_s, playing.cancel)

        played = await play_schedule(port, ASKING, prepared, PATIENCE, tally, 1, begun)
        return prepared, played, tally

    return asyncio.run(scenario())


def test_every_request_is_played_with_prompts_as_long_as_asked_within_the_models_length() -> None:
    prepared, played, tally = _replayed()
    assert len(played.records) == 20
    assert not played.partial
    assert {record.prompt_tokens for record in played.records} == {37}
    assert (tally.prompts.compared, tally.prompts.furthest) == (20, 0)
    assert "20 of 20 requests were cut to the limits of length" in prepared.schedule.notes


def test_an_n_for_all_requests_is_known_to_their_records() -> None:
    async def scenario() -> Prepared:
        asking = replace(ASKING, extra={"n": 3})
        return await prepare(ScriptedPort(_engine), asking, SCHEDULE, LengthLimits())

    assert {a.sequences for a in asyncio.run(scenario()).schedule.arrivals} == {3}


def test_without_tokenize_two_answers_calibrate_the_lengths() -> None:
    prepared, _, tally = _replayed(lambda request: _engine(request, can_count=False))
    assert prepared.calibration.how == "measured by usage of two requests"
    assert tally.prompts.furthest <= 1


def test_a_replay_that_is_ended_keeps_what_there_is() -> None:
    prepared, played, tally = _replayed(
        lambda request: replace(_engine(request), gap_s=0.005), ends_after_s=0.2
    )
    assert played.partial
    assert len(played.records) + tally.cut == tally.offered < 20
    assert len(notes_on(prepared, played, tally)) >= 1 + bool(tally.cut)


def test_the_hash_is_over_what_is_asked_and_not_over_the_name_of_the_model() -> None:
    prepared, *_ = _replayed()
    renamed = replace(prepared, form=replace(prepared.form, model="other"))
    unlike = replace(prepared, form=replace(prepared.form, stream=False))
    assert prepared.load_hash == renamed.load_hash != unlike.load_hash


def test_a_late_generator_makes_the_run_invalid_and_wrong_prompts_are_told() -> None:
    prepared, played, tally = _replayed()
    tally.prompts.compare(100, 200)
    late = replace(played, loop_lag_p99_s=0.5)
    notes = notes_on(prepared, late, tally)
    assert late.is_late
    assert any(note.startswith("INVALID: the load generator was late (0.50 s") for note in notes)
    assert any("longer than asked for" in note for note in notes)


def test_a_request_that_began_late_is_lag_too() -> None:
    record = completed(0.0)
    tries = (replace(record.tries[0], began_s=0.3),)
    played = Played([replace(record, tries=tries)], 0.0, 1.0, False, 0.0, 0.1)
    assert played.is_late


def test_without_keep_alive_no_connection_is_kept() -> None:
    assert connect(replace(ASKING, keep_alive=False), 5.0).snapshot().idle == 0
