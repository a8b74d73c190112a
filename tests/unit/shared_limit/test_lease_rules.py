from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from proxy.shared_limit.lease_rules import (
    GRACE_MS,
    LEASE_MS,
    MISSING_MS,
    Member,
    State,
    renew,
    shares,
    targets,
)
from proxy.shared_limit.store import Granted, Renewal

NOW = 1_000_000
RUN = "run"
SETTLED = NOW + GRACE_MS

WANTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 20), min_size=1)


def member(**fields: int) -> Member:
    given = {"seq": 1, "held": 0, "want": 0, "widest": 1, "since": NOW, "limit": 8, "seen": SETTLED}
    return Member(**{**given, **fields})


def asking(gateway: str = "a", **fields: object) -> Renewal:
    return replace(
        Renewal(gateway=gateway, seq=1, keep=0, want=0, widest=1, waited_ms=0, limit=8),
        **fields,  # type: ignore[arg-type]
    )


def state_of(**members: Member) -> State:
    return State(RUN, NOW, dict(members))


def answered(state: State | None, renewal: Renewal, now: int = SETTLED) -> Granted:
    answer = renew(state, RUN, renewal, now)[1]
    assert answer is not None
    return answer


# Shares


def wanting(wants: dict[str, int]) -> dict[str, Member]:
    return {name: member(want=want) for name, want in wants.items()}


@given(wants=WANTS, room=st.integers(0, 60))
def test_all_of_the_room_is_shared_and_no_more(wants: dict[str, int], room: int) -> None:
    assert sum(shares(wanting(wants), room).values()) == room


@given(wants=WANTS, room=st.integers(0, 60))
def test_nobody_gets_less_than_he_wants_beside_one_who_gets_more_than_one_seat_above_him(
    wants: dict[str, int], room: int
) -> None:
    given_to = shares(wanting(wants), room)
    for name, want in wants.items():
        if given_to[name] < want:
            assert max(given_to.values()) <= given_to[name] + 1


@given(wants=WANTS, spare=st.integers(0, 30))
def test_what_nobody_wants_is_split_evenly(wants: dict[str, int], spare: int) -> None:
    given_to = shares(wanting(wants), sum(wants.values()) + spare)
    extra = [given_to[name] - want for name, want in wants.items()]
    assert max(extra) - min(extra) <= 1


def test_odd_seats_go_to_who_was_granted_none_for_longest_whatever_others_want() -> None:
    members = {
        "a": member(want=9, granted=3),
        "b": member(want=1, granted=1),
        "c": member(want=50, granted=2),
        "d": member(want=50, granted=4),
    }
    assert shares(members, 2) == {"a": 0, "b": 1, "c": 1, "d": 0}


def test_an_odd_seat_in_reserve_stays_with_who_has_it() -> None:
    members = {"a": member(granted=2), "b": member(held=1, granted=1), "c": member()}
    assert shares(members, 1) == {"a": 0, "b": 1, "c": 0}


def test_an_odd_seat_that_nobody_has_in_reserve_goes_to_who_was_granted_one_last() -> None:
    members = {"a": member(granted=2), "b": member(want=3, held=3, granted=4), "c": member()}
    assert shares(members, 4) == {"a": 0, "b": 4, "c": 0}


def test_nobody_at_all_gets_nothing() -> None:
    assert shares({}, 5) == {}


# Targets


def test_the_gateway_whose_wide_request_waits_longest_has_room_made_for_it() -> None:
    state = state_of(
        a=member(want=50),
        b=member(want=6, widest=6, since=NOW - 10),
        c=member(want=5, widest=5, since=NOW - 20),
    )
    assert targets(state.members, 8, SETTLED) == {"a": 2, "b": 1, "c": 5}


def test_a_request_that_fits_its_gateways_share_needs_no_help() -> None:
    members = state_of(a=member(want=50), b=member(want=4, widest=4)).members
    assert targets(members, 8, SETTLED) == {"a": 4, "b": 4}


def test_what_overdue_gateways_hold_is_nobody_elses() -> None:
    late = member(held=3, want=50, seen=SETTLED - LEASE_MS - 1)
    assert targets({"a": late, "b": member(want=50)}, 8, SETTLED) == {"b": 5}


def test_while_too_much_is_away_no_room_is_made_for_a_request_as_wide_as_the_limit() -> None:
    late = member(held=3, seen=SETTLED - LEASE_MS - 1)
    members = {"a": late, "b": member(want=50), "c": member(want=8, widest=8)}
    assert targets(members, 8, SETTLED) == {"b": 3, "c": 2}


# Renewals


def test_of_fewer_seats_than_gateways_each_has_one_in_turn() -> None:
    state = state_of(**{name: member(limit=2) for name in "abcde"})
    served = []
    for turn in range(10):
        now = SETTLED + turn + 1
        for name in "abcde":
            renewal = asking(name, seq=turn + 2, want=9, widest=0, limit=2)
            served += [name] * answered(state, renewal, now).held
    assert {served.count(name) for name in "abcde"} == {3}


def test_what_others_hold_is_not_given_away() -> None:
    state = state_of(b=member(held=7))
    assert answered(state, asking(want=8)).held == 1


def test_what_is_given_back_is_there_for_the_next() -> None:
    state = state_of(a=member(held=8), b=member(want=5))
    answered(state, asking(seq=2, keep=3, want=3))
    assert answered(state, asking("b", seq=2, want=5)).held == 5


def test_a_renewal_that_arrives_after_a_later_one_is_void() -> None:
    state = state_of(a=member(held=2, seq=5))
    assert renew(state, RUN, asking(seq=4, keep=7), SETTLED) == (state, None)
    assert state.members["a"].held == 2


def test_the_smallest_limit_that_anybody_knows_binds_all() -> None:
    state = state_of(b=member(limit=5))
    assert answered(state, asking(want=20, limit=8)).limit == 5


def test_in_the_first_seconds_nobody_gets_more_than_he_says_that_he_holds() -> None:
    answer = answered(None, asking(keep=2, want=8), NOW)
    assert (answer.held, answer.target, answer.in_grace) == (2, 2, True)


def test_another_run_of_the_store_begins_anew_and_waits_for_those_it_knew() -> None:
    before = State("before", NOW, {"b": member(held=8, seen=NOW)})
    state, _ = renew(before, RUN, asking(keep=0, want=8), SETTLED)
    assert state.missing == {"b"}
    answer = answered(state, asking(seq=2, want=8), SETTLED + GRACE_MS + 1)
    assert (answer.held, answer.in_grace, answer.members) == (0, True, ("a", "b"))


def test_those_whom_the_store_knew_long_ago_are_not_waited_for() -> None:
    before = State("before", NOW, {"b": member(seen=SETTLED - MISSING_MS)})
    state, _ = renew(before, RUN, asking(), SETTLED)
    assert state.missing == set()


def test_who_is_missing_twice_is_still_waited_for() -> None:
    before = State("before", NOW, {}, {"b"})
    state, _ = renew(before, RUN, asking(), NOW + 10)
    assert state.missing == {"b"}


def test_those_whom_others_know_are_waited_for_but_not_for_ever() -> None:
    state, _ = renew(None, RUN, asking(known=("a", "b")), NOW)
    assert state.missing == {"b"}
    answer = answered(state, asking(seq=2, want=8), NOW + MISSING_MS)
    assert (answer.held, answer.members) == (8, ("a",))


def test_when_all_are_there_again_the_waiting_ends() -> None:
    state, _ = renew(None, RUN, asking(known=("a", "b"), keep=3), NOW)
    renew(state, RUN, asking("b", keep=4), NOW + 1)
    assert answered(state, asking(seq=2, keep=3, want=8), SETTLED).held == 4


def test_a_late_gateway_keeps_its_seats_and_is_named() -> None:
    state = state_of(b=member(held=8, seq=4, seen=SETTLED - LEASE_MS - 1))
    answer = answered(state, asking(want=8))
    assert answer.held == 0
    assert [(name, one.seq) for name, one in answer.overdue.items()] == [("b", 4)]


def test_a_late_gateway_that_is_gone_leaves_its_seats() -> None:
    state = state_of(b=member(held=8, seq=4, seen=SETTLED - LEASE_MS - 1))
    assert answered(state, asking(want=8, gone={"b": 4})).held == 8


def test_who_has_renewed_since_is_not_gone() -> None:
    state = state_of(b=member(held=8, seq=5, seen=SETTLED - LEASE_MS - 1))
    assert answered(state, asking(want=8, gone={"b": 4})).held == 0


def test_who_is_not_late_is_not_gone() -> None:
    state = state_of(b=member(held=8, seq=4))
    assert answered(state, asking(want=8, gone={"b": 4, "c": 1})).held == 0


def test_who_leaves_leaves_nothing_behind() -> None:
    state = state_of(a=member(held=8))
    answered(state, asking(seq=2, leaves=True))
    assert state.members == {}
