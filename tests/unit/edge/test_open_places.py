from __future__ import annotations

import contextlib

import pytest

from proxy.admission.retry_budget import FIRST_TICKETS, RetryBudget
from proxy.edge.engine import OpenRequests
from proxy.edge.intake import Intake
from proxy.edge.open_places import KEPT_FOR_INQUIRIES, OpenFullError, OpenPlaces
from proxy.edge.routes import MODELS, Access, Route

TOKENIZE = Route("tokenize", Access.OPEN)


def places(
    each: int = 100, *, engines: int = 1, buffered: int = 1000, largest: int = 100
) -> OpenPlaces:
    bound = OpenPlaces(Intake(largest, 1.0, buffered), RetryBudget(0.5), lambda: 0.0)
    bound.resize(each, engines)
    return bound


def refusal(bound: OpenPlaces, route: Route = TOKENIZE, body_bytes: int = 0) -> OpenFullError:
    with pytest.raises(OpenFullError) as caught, bound.take(route, body_bytes):
        pass
    return caught.value


def test_there_are_as_many_as_may_be_and_one_that_ends_makes_room() -> None:
    bound = places(2)
    with bound.take(TOKENIZE, 0):
        assert bound.objection(TOKENIZE) is None
        with bound.take(TOKENIZE, 0):
            assert bound.objection(TOKENIZE) is not None
            error = refusal(bound)
            assert (error.most, error.is_of_bytes) == (2, False)
            assert bound.taken == 2, "who is refused takes nothing"
        with bound.take(TOKENIZE, 0):
            assert bound.taken == 2
    assert bound.taken == 0


def test_who_asks_what_is_there_has_some_places_beyond_the_bound() -> None:
    bound = places(0)
    assert bound.objection(TOKENIZE) is not None
    taken = [bound.take(MODELS, 0) for _ in range(KEPT_FOR_INQUIRIES)]
    for one in taken:
        assert bound.objection(MODELS) is None
        one.__enter__()
    assert refusal(bound, MODELS).most == KEPT_FOR_INQUIRIES
    for one in taken:
        one.__exit__(None, None, None)
    assert bound.taken == 0


def test_engines_that_leave_have_theirs_until_they_have_gone() -> None:
    bound = places(2, engines=2)
    bound.resize(2, engines=1, leaving=1)
    assert bound.most == 4


def test_where_there_is_no_engine_nobody_is_told_that_there_is_no_room() -> None:
    bound = places(1)
    with bound.take(TOKENIZE, 0):
        bound.resize(1, engines=0, leaving=1)
        with bound.take(TOKENIZE, 0):
            assert bound.objection(TOKENIZE) is None
        bound.resize(1, engines=1)
        assert refusal(bound).most == 1


def test_one_engine_that_is_full_leaves_the_others_places_to_the_others() -> None:
    bound, sits, works = places(2, engines=2), OpenRequests(), OpenRequests()
    assert bound.most == 4
    with bound.at(sits, TOKENIZE), bound.at(sits, TOKENIZE):
        with pytest.raises(OpenFullError) as caught, bound.at(sits, TOKENIZE):
            pass
        assert (caught.value.most, caught.value.is_of_bytes) == (2, False)
        with bound.at(works, TOKENIZE), bound.at(sits, MODELS):
            assert (sits.count, works.count) == (3, 1)
    assert (sits.count, works.count) == (0, 0)


def test_while_there_is_no_engine_there_are_the_places_of_one() -> None:
    assert places(2, engines=0).most == 2


def test_as_many_are_invited_back_as_are_a_share_of_those_that_came_in() -> None:
    bound, engine = places(1), OpenRequests()
    with bound.take(TOKENIZE, 0), bound.at(engine, TOKENIZE):
        invited = [refusal(bound).invites for _ in range(20)]
        assert invited == [True] * int(FIRST_TICKETS) + [False] * (20 - int(FIRST_TICKETS))
    for _ in range(6):
        with bound.take(TOKENIZE, 0), bound.at(engine, TOKENIZE):
            pass
    bound.resize(0, 1)
    assert [refusal(bound).invites for _ in range(5)] == [True] * 3 + [False] * 2


def test_bodies_count_as_uploads_do_for_as_long_as_the_request_is_under_way() -> None:
    bound = places()
    with contextlib.suppress(ZeroDivisionError), bound.take(TOKENIZE, 70):
        assert (bound.held_bytes, bound._intake.buffered_bytes) == (70, 70)
        raise ZeroDivisionError
    assert (bound.taken, bound.held_bytes, bound._intake.buffered_bytes) == (0, 0, 0)


def test_bodies_hold_no_more_than_half_of_what_uploads_may() -> None:
    bound = places(buffered=300)
    with bound.take(TOKENIZE, 90):
        error = refusal(bound, body_bytes=61)
        assert (error.most, error.is_of_bytes) == (150, True)
        assert refusal(bound, MODELS, 61).is_of_bytes, "what asks what is there brings no body"
        with bound.take(TOKENIZE, 60), bound.take(MODELS, 0):
            assert bound.held_bytes == 150


def test_one_body_as_large_as_may_be_always_finds_room() -> None:
    bound = places(buffered=100)
    with bound.take(TOKENIZE, 100):
        assert refusal(bound, body_bytes=1).most == 100


def test_it_says_how_full_it_is() -> None:
    bound = places(2)
    with bound.take(TOKENIZE, 7):
        assert repr(bound) == "<OpenPlaces 1 of 2 taken, 7 bytes>"
