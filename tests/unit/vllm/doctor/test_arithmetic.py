"""What the numbers of an OOM message say."""

from dataclasses import replace

import pytest

from proxy.vllm.doctor.arithmetic import (
    is_fragmented,
    is_taken_by_others,
    non_torch_of,
    others_of,
    sampler_vocabulary,
    with_own_use,
)
from proxy.vllm.doctor.evidence import EvidenceLine, OomEvent

GIB = 1 << 30
EVENT = OomEvent(
    EvidenceLine("a.log", 1, "text"),
    "torch",
    requested=2 * GIB,
    total=80 * GIB,
    free=GIB,
    in_use=75 * GIB,
    allocated=70 * GIB,
    reserved_unallocated=3 * GIB,
)


def test_what_is_neither_free_nor_ours_is_others() -> None:
    assert others_of(EVENT) == 4 * GIB
    assert non_torch_of(EVENT) == 2 * GIB
    assert is_taken_by_others(EVENT)


def test_a_foreign_pid_with_our_sizes_is_this_process() -> None:
    event = replace(EVENT, in_use=None, other_processes=(4 * GIB, 75 * GIB))
    assert with_own_use(event).in_use == 75 * GIB
    assert with_own_use(event).other_processes == (4 * GIB,)


def test_a_use_of_zero_bytes_says_nothing() -> None:
    event = replace(EVENT, in_use=0)
    assert others_of(with_own_use(event)) is None
    assert not is_taken_by_others(with_own_use(event))


def test_without_our_own_use_others_hold_at_least_what_torch_cannot_explain() -> None:
    event = replace(EVENT, in_use=None, allocated=10 * GIB, reserved_unallocated=GIB)
    assert others_of(event) == (80 - 1 - 11 - 10) * GIB
    assert others_of(replace(event, allocated=None)) is None


def test_a_small_remainder_is_nobody() -> None:
    assert not is_taken_by_others(replace(EVENT, in_use=78 * GIB))


@pytest.mark.parametrize(
    ("requested", "held", "fragmented"),
    [(2, 3, True), (4, 3, False), (0.125, 0.5, False), (0.125, 1, True)],
)
def test_fragmentation_needs_enough_for_the_request_and_a_gib(
    requested: float, held: float, fragmented: bool
) -> None:
    event = replace(EVENT, requested=int(requested * GIB), reserved_unallocated=int(held * GIB))
    assert is_fragmented(event) is fragmented


@pytest.mark.parametrize(
    ("requested", "vocabulary"),
    [
        (int(1.74 * GIB), (152064, 12)),
        (int(1.47 * GIB), (128256, 12)),
        (int(785.5 * 1024**2), (201088, 4)),
        (int(1.6 * GIB), None),
        (None, None),
    ],
)
def test_the_samplers_request_is_predictable(
    requested: int | None, vocabulary: tuple[int, int] | None
) -> None:
    assert sampler_vocabulary(requested, 1024) == vocabulary


def test_a_models_name_narrows_its_vocabulary() -> None:
    size = 256 * 131072 * 12
    assert sampler_vocabulary(size, 256) is None
    assert sampler_vocabulary(size, 256, "mistralai/Mistral-Small-3.1") == (131072, 12)
    assert sampler_vocabulary(int(1.74 * GIB), 1024, "google/gemma-3-27b-it") is None
