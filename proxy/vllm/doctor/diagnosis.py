"""From all findings to one answer."""

from proxy.vllm.doctor.evidence import Confidence, Diagnosis, Findings, Pattern, Phase


def diagnose(findings: Findings) -> Diagnosis:
    """One answer from whatever evidence there is; unknown rather than a guess."""
    pattern = findings.curve.pattern if findings.curve else Pattern.UNKNOWN
    return Diagnosis(
        oom=None,
        phase=Phase.UNKNOWN,
        cause="the evidence does not say what happened",
        confidence=Confidence.LOW,
        pattern=pattern,
    )
