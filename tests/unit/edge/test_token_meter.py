from __future__ import annotations

from proxy.admission.account import Claim
from proxy.admission.permit import Ending, Permit
from proxy.admission.request import AdmissionRequest
from proxy.edge.token_meter import TokenMeter, UsageReader
from proxy.openai_api.measure import Measured
from proxy.openai_api.usage import Usage

PROMPT = Measured(seats=1, prompt_bytes=4000, max_tokens=100, model="m")
ANSWER = b'{"choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 50}}'


class Desk:
    """A meter and what it says to others."""

    def __init__(self, model_len: int | None = None) -> None:
        self.answered: list[tuple[str, Measured, Usage | None]] = []
        self.first_bytes = 0
        self.meter = TokenMeter(lambda: model_len, lambda *facts: self.answered.append(facts))

    def permit(self) -> Permit:
        return Permit(
            AdmissionRequest(1, 0.0),
            Claim("e", 1, prefill_tokens=5),
            0.0,
            0.0,
            self._end,
            self._first,
        )

    def _end(self, _permit: Permit, _ending: Ending) -> None: ...

    def _first(self, _permit: Permit) -> None:
        self.first_bytes += 1


def test_what_a_request_takes_is_estimated_and_bounded_by_the_models_length() -> None:
    prompt_tokens, kv_tokens = Desk().meter.tokens(PROMPT)
    assert prompt_tokens > 100
    assert kv_tokens == prompt_tokens + 100
    assert Desk(model_len=64).meter.tokens(PROMPT) == (64, 64)


def test_a_prompt_is_too_long_only_for_certain() -> None:
    ids = Measured(
        seats=1, prompt_token_ids=70, longest_prompt_token_ids=70, max_tokens=1, prompts=1
    )
    assert Desk(model_len=64).meter.exceeded_length(ids) == 64
    assert Desk(model_len=70).meter.exceeded_length(ids) is None
    assert Desk().meter.exceeded_length(ids) is None
    assert Desk(model_len=64).meter.exceeded_length(PROMPT) is None, "its tokens are a guess"


def test_the_first_byte_is_passed_on_and_the_usage_learned_from() -> None:
    desk = Desk()
    before, _ = desk.meter.tokens(PROMPT)
    for _ in range(30):
        answer = desk.meter.follow(PROMPT, desk.permit())
        answer.feed(b"")
        answer.feed(ANSWER[:20])
        answer.feed(ANSWER[20:])
        assert answer.ended(is_complete=True) == Usage(900, 50)
    assert desk.first_bytes == 30, "once for each, and not for a head without a body"
    assert desk.answered[0] == ("e", PROMPT, Usage(prompt_tokens=900, completion_tokens=50))
    after, _ = desk.meter.tokens(PROMPT)
    assert abs(after - 900) < abs(before - 900)


def test_a_trace_reads_the_usage_without_a_meter() -> None:
    reader, cut = UsageReader(), UsageReader()
    for each in (reader, cut):
        each.feed(ANSWER[:20])
        each.feed(ANSWER[20:])
    assert reader.ended(is_complete=True) == Usage(900, 50)
    assert cut.ended(is_complete=False) is None


def test_an_answer_that_broke_off_teaches_nothing_but_was_read_by_the_engine() -> None:
    desk = Desk()
    answer = desk.meter.follow(PROMPT, desk.permit())
    answer.feed(ANSWER)
    answer.ended(is_complete=False)
    assert desk.answered == [("e", PROMPT, None)]
    assert desk.meter.estimate.error is None


def test_a_request_that_got_no_byte_was_not_read() -> None:
    desk = Desk()
    desk.meter.follow(PROMPT, desk.permit()).ended(is_complete=False)
    assert desk.answered == []
