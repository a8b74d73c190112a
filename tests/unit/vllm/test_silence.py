"""Which silences are those of an engine that hangs as a whole."""

from __future__ import annotations

import pytest

from proxy.vllm.probe import Answer, Fault, NoAnswer
from proxy.vllm.silence import Held, Silence, judge_silence, silence_in_words

WELL = Answer(200, b"")
MUTE = NoAnswer(Fault.SILENT, "no answer within 5 s")
OURS = NoAnswer(Fault.UNCLEAR, "too many open files (EMFILE)")


class Ear:
    """Looks every eight seconds unless said, at an engine that has just answered."""

    def __init__(self, held: int = 3) -> None:
        self.now = 100.0
        self.silence = judge_silence(Silence(), (WELL,), self.now, held=Held(held), heard=True)
        self.said: list[str] = []

    def look(
        self,
        *answers: Answer | NoAnswer,
        times: int = 1,
        every_s: float = 8.0,
        held: int = 3,
        seatless: int = 0,
        heard: bool = False,
    ) -> bool:
        """Whether it is stalled after the last of them."""
        for _ in range(times):
            self.now += every_s
            before = self.silence
            self.silence = judge_silence(
                before, answers or (MUTE, MUTE), self.now, held=Held(held, seatless), heard=heard
            )
            if words := silence_in_words(before, self.silence):
                self.said.append(words)
        return self.silence.stalled


def test_one_that_answers_nothing_for_half_a_minute_and_gives_no_request_a_byte_is_stalled() -> (
    None
):
    ear = Ear()
    assert not ear.look(times=3)
    assert ear.look()
    assert ear.silence.reason == (
        "it takes connections and has answered nothing for 32 s, neither GET /health nor a request"
    )


def test_who_runs_it_is_told_what_it_holds_and_what_to_do() -> None:
    ear = Ear()
    ear.look(times=3)
    assert ear.silence.advice == ""
    ear.look()
    assert "3 of our seats are taken in it" in ear.silence.advice
    assert "Restart it" in ear.silence.advice
    assert ear.said == []  # the verdict is said by itself


def test_one_that_gives_bytes_is_never_stalled_and_once_said_to_be_busy() -> None:
    ear = Ear()
    assert not ear.look(times=3)
    assert not ear.look(heard=True)
    assert not ear.look(times=3)
    assert not ear.look(times=100, heard=True)
    (said,) = ear.said
    assert said.startswith("has not answered GET /health for 32 s, though it takes connections")
    assert "it is busy" in said


@pytest.mark.parametrize("answer", [WELL, Answer(404, b""), NoAnswer(Fault.ABSENT, "refused")])
@pytest.mark.parametrize("place", [0, 1])
def test_any_answer_to_any_question_ends_it(answer: Answer | NoAnswer, place: int) -> None:
    ear = Ear()
    assert ear.look(times=4)
    answers = (answer, MUTE) if place == 0 else (MUTE, answer)
    assert not ear.look(*answers)
    assert not ear.look(times=3)


def test_bytes_of_an_answer_end_it() -> None:
    ear = Ear()
    assert ear.look(times=4)
    assert not ear.look(heard=True)


def test_one_that_holds_nothing_of_ours_is_not_stalled_but_somebody_is_told() -> None:
    ear = Ear(held=0)
    assert not ear.look(times=100, held=0)
    (said,) = ear.said
    assert "0 of our seats are taken in it" in said


def test_only_the_time_in_which_it_holds_requests_of_ours_counts() -> None:
    ear = Ear(held=0)
    ear.look(times=100, held=0)
    assert not ear.look(times=4)  # at the first of them nobody knows since when it has held them
    assert ear.look()


def test_one_that_holds_only_requests_without_a_seat_is_stalled_as_well() -> None:
    ear = Ear(held=0)
    ear.look(held=0, seatless=2)  # since when, nobody knows
    assert not ear.look(times=3, held=0, seatless=2)
    assert ear.look(held=0, seatless=2)
    assert (
        "0 of our seats are taken in it, beside 2 of our requests that take none; no more are given"
        in ear.silence.advice
    )


def test_one_whose_clients_have_all_given_up_is_still_stalled() -> None:
    ear = Ear()
    ear.look(times=4)
    assert ear.look(times=1000, held=0)


def test_time_in_which_the_lack_may_be_ours_does_not_count() -> None:
    ear = Ear()
    assert not ear.look(OURS, OURS, times=100)
    assert not ear.look(MUTE, OURS, times=100)
    assert not ear.look(times=3)
    assert ear.look()


@pytest.mark.parametrize("lack", [NoAnswer(Fault.BROKEN, "no connection within 4 s"), OURS])
def test_a_connection_that_is_not_made_or_breaks_is_no_answer(lack: NoAnswer) -> None:
    """A full accept queue made an engine ready that had been silent for 40 s."""
    ear = Ear()
    assert ear.look(times=4)
    assert ear.look(lack, lack)
    assert ear.look(MUTE, lack)
    assert ear.look()


@pytest.mark.parametrize("place", [0, 1])
def test_time_in_which_one_question_is_unanswered_and_another_breaks_off_counts(place: int) -> None:
    """An engine whose metrics page was reset each time was ready for as long as it hung."""
    broken = NoAnswer(Fault.BROKEN, "the connection was reset")
    answers = (MUTE, broken) if place else (broken, MUTE)
    ear = Ear()
    assert not ear.look(*answers, times=3)
    assert ear.look(*answers)


def test_time_in_which_all_that_is_asked_breaks_off_does_not_count() -> None:
    """That is for the health rules to judge."""
    broken = NoAnswer(Fault.BROKEN, "the connection was reset")
    assert not Ear().look(broken, broken, times=100)


def test_bytes_that_come_while_the_lack_may_be_ours_count() -> None:
    ear = Ear()
    assert not ear.look(times=3)
    assert not ear.look(OURS, OURS, heard=True)
    assert not ear.look(times=3)
    assert ear.look()
    assert not ear.look(OURS, OURS, heard=True)


def test_time_in_which_it_held_requests_adds_up_over_gaps_in_which_it_held_none() -> None:
    """Users of a short timeout who came now and then were never told."""
    ear = Ear()
    for _ in range(3):
        assert not ear.look()
        assert not ear.look(times=2, held=0)
        assert not ear.look()
    assert ear.look(times=2)


def test_a_silence_of_ours_counts_for_no_more_than_ten_seconds() -> None:
    ear = Ear()
    assert not ear.look(every_s=3600.0)
    assert not ear.look(every_s=3600.0)
    assert ear.look(every_s=3600.0)


def test_one_that_has_never_answered_is_judged_from_the_first_look_on() -> None:
    silence = judge_silence(Silence(), (MUTE,), 100.0, held=Held(1), heard=False)
    assert silence.unanswered_s == 0
    for number in range(1, 6):
        silence = judge_silence(silence, (MUTE,), 100.0 + 6 * number, held=Held(1), heard=False)
    assert silence.stalled
