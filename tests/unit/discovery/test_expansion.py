from __future__ import annotations

import pytest

from proxy.discovery.expansion import engines_behind, is_name, one_family
from proxy.upstream.address import UpstreamAddress

URL = UpstreamAddress.parse("http://vllm:8000")
PLAIN = "http://vllm:8000"


def named(*histories: list[str]) -> dict[str, str]:
    """Address by name, after these answers of the name server, one after the other."""
    engines: tuple[UpstreamAddress, ...] = ()
    for ips in histories:
        engines = engines_behind(URL, ips, engines)
    return {str(engine): engine.ip for engine in engines}


@pytest.mark.parametrize(
    ("host", "is_one"),
    [
        ("vllm", True),
        ("vllm.default.svc.cluster.local.", True),
        ("other-box", True),
        ("localhost", False),
        ("LocalHost.", False),
        ("a.localhost", False),
        ("gpu-box", False),
        ("GPU-Box.", False),
        ("127.0.0.1", False),
        ("::1", False),
    ],
)
def test_this_machine_and_an_address_are_never_several(host: str, is_one: bool) -> None:
    assert is_name(host, own_host="gpu-box") is is_one


def test_a_machine_without_a_name_is_no_other() -> None:
    assert is_name("vllm", own_host="")


@pytest.mark.parametrize(
    ("answer", "used"),
    [
        ([], []),
        (["10.0.0.10", "10.0.0.2", "10.0.0.10"], ["10.0.0.2", "10.0.0.10"]),
        (["fd00::2", "10.0.0.1", "fd00::1"], ["10.0.0.1"]),
        (["fd00::2", "fd00:0::1"], ["fd00::1", "fd00::2"]),
        (["fe80::1%eth0"], []),
    ],
)
def test_an_engine_with_addresses_of_both_families_is_counted_once(
    answer: list[str], used: list[str]
) -> None:
    assert one_family(answer) == used


def test_one_address_is_an_engine_with_the_plain_url_for_a_name() -> None:
    assert named(["10.0.0.1"]) == {PLAIN: "10.0.0.1"}


def test_several_addresses_are_engines_that_are_named_by_them() -> None:
    assert named(["10.0.0.1", "10.0.0.2"]) == {
        f"{PLAIN}#10.0.0.1": "10.0.0.1",
        f"{PLAIN}#10.0.0.2": "10.0.0.2",
    }


def test_the_one_keeps_its_name_when_a_second_joins_it() -> None:
    assert named(["10.0.0.1"], ["10.0.0.1", "10.0.0.2"]) == {
        PLAIN: "10.0.0.1",
        f"{PLAIN}#10.0.0.2": "10.0.0.2",
    }


@pytest.mark.parametrize("stays", ["10.0.0.1", "10.0.0.2"])
def test_of_two_the_one_that_stays_keeps_its_name(stays: str) -> None:
    both = ["10.0.0.1", "10.0.0.2"]
    assert named(both, [stays]) == {f"{PLAIN}#{stays}": stays}
    assert named(both, [stays], both) == named(both)


def test_flapping_between_one_and_two_renames_nobody() -> None:
    one, two = ["10.0.0.1"], ["10.0.0.1", "10.0.0.2"]
    assert named(one, two, one, two, one) == named(one)
    assert named(one, two, one, two) == named(one, two)


def test_a_lone_engine_that_is_replaced_by_another_hands_its_name_on() -> None:
    assert named(["10.0.0.1"], ["10.0.0.2"]) == {PLAIN: "10.0.0.2"}


def test_a_name_that_was_not_known_at_first_is_whatever_it_turns_out_to_be() -> None:
    assert {str(one) for one in engines_behind(URL, ["10.0.0.1"], [URL])} == {PLAIN}
    assert PLAIN not in map(str, engines_behind(URL, ["10.0.0.1", "10.0.0.2"], [URL]))


def test_by_address_a_name_does_not_depend_on_what_was_before() -> None:
    alone = engines_behind(URL, ["10.0.0.1"], by_address=True)
    both = engines_behind(URL, ["10.0.0.1", "10.0.0.2"], alone, by_address=True)
    assert [str(one) for one in alone] == [f"{PLAIN}#10.0.0.1"]
    assert both == engines_behind(URL, ["10.0.0.1", "10.0.0.2"], by_address=True)


def test_no_two_engines_ever_have_one_name() -> None:
    pool = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    answers = [[ip for bit, ip in enumerate(pool) if mask >> bit & 1] for mask in range(1, 8)]
    for first in answers:
        for second in answers:
            for third in answers:
                assert len(named(first, second, third)) == len(third)
