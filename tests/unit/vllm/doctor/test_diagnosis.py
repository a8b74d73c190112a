"""From all findings to one answer."""

from proxy.vllm.doctor.diagnosis import diagnose
from proxy.vllm.doctor.evidence import Findings, Phase


def test_no_evidence_is_no_answer() -> None:
    answer = diagnose(Findings())
    assert (answer.oom, answer.phase) == (None, Phase.UNKNOWN)
