"""Whether a limit that somebody has in mind fits an engine that is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.plan import LaunchPlan


@dataclass(frozen=True, slots=True)
class LimitFit:
    """`why` in one sentence, either way."""

    max_in_flight: int
    fits: bool
    why: str

    @property
    def said(self) -> str:
        verdict = "fits" if self.fits else "does NOT fit"
        return f"SLUICE_MAX_IN_FLIGHT={self.max_in_flight} {verdict}: {self.why}"


def judge_limit(plan: LaunchPlan, max_in_flight: int) -> LimitFit:
    """Below --max-num-seqs, and within what the KV cache holds of the traffic."""
    holds = (
        f"the KV cache holds {plan.fitting:,} sequences of this traffic as it runs "
        f"({plan.held.tokens:,.0f} tokens each on average)"
    )
    if max_in_flight > plan.fitting:
        return LimitFit(max_in_flight, False, f"{holds}, more would preempt each other")
    if max_in_flight >= plan.max_num_seqs:
        why = (
            f"it is not below --max-num-seqs {plan.max_num_seqs}: requests would wait inside the "
            f"engine, where they cannot be shed"
        )
        return LimitFit(max_in_flight, False, why)
    return LimitFit(max_in_flight, True, f"{holds}, --max-num-seqs is {plan.max_num_seqs}")
