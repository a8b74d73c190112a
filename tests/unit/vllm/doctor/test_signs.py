"""What the rules see in a line."""

import pytest

from proxy.vllm.doctor.evidence import EvidenceLine
from proxy.vllm.doctor.log_line import stripped
from proxy.vllm.doctor.signs import BY_NAME, RULES, signs_in


def names(text: str) -> set[str]:
    return {sign.rule for sign in signs_in(stripped(text), EvidenceLine("a.log", 1, text))}


def test_every_rule_has_a_name_of_its_own_and_needles() -> None:
    assert len(BY_NAME) == len(RULES)
    assert all(rule.needles for rule in RULES)


def test_numbers_and_ranks_go_with_the_sign() -> None:
    text = (
        "(Worker_TP1 pid=3) ValueError: Free memory on device (10.5/80.0 GiB) on startup is less "
        "than desired GPU memory utilization (0.9, 72.0 GiB). Decrease GPU memory utilization"
    )
    sign = signs_in(stripped(text), EvidenceLine("a.log", 1, text))[0]
    assert sign.rank == "TP1"
    assert sign.numbers == {"free": 10.5, "total": 80.0, "utilization": 0.9, "wanted": 72.0}


@pytest.mark.parametrize(
    "text",
    [
        "Received request cmpl-1: prompt: 'No space left on device /dev/shm, OOMKilled', params:",
        "INFO: 10.0.0.1:1234 - GET /health HTTP/1.1 200 OK",
        "If out-of-memory error occurs during cudagraph capture, consider",
        "",
    ],
)
def test_talk_is_no_sign(text: str) -> None:
    assert names(text) == set()
