"""What advice is computed from: the verdict with the numbers of its log."""

import math
import re
from dataclasses import dataclass

from proxy.vllm.doctor.arithmetic import others_of
from proxy.vllm.doctor.event_phase import max_num_seqs_of
from proxy.vllm.doctor.evidence import Findings, OomEvent, StartUpFacts, StatsSummary
from proxy.vllm.doctor.sizes import MIB, gib
from proxy.vllm.doctor.verdict import Verdict

# Beyond it the driver and other libraries find no room.
HIGHEST_UTILIZATION = 0.95
# vLLM keeps so much apart when it computes its own suggestion.
MARGIN = 150 * MIB
HEADROOM = 0.9
_SMALLEST_STEP = 0.02
_WHOLE = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Case:
    """All values are None where the evidence does not give them."""

    verdict: Verdict
    findings: Findings

    @property
    def facts(self) -> StartUpFacts:
        return self.verdict.life.facts if self.verdict.life else StartUpFacts()

    @property
    def stats(self) -> StatsSummary:
        return self.verdict.life.stats if self.verdict.life else StatsSummary()

    @property
    def event(self) -> OomEvent | None:
        return self.verdict.event

    @property
    def engine(self) -> str | None:
        return self.facts.engine

    def number(self, name: str) -> float | None:
        """A number that the deciding line named."""
        return self.verdict.sign.numbers.get(name) if self.verdict.sign else None

    def flag(self, name: str) -> str | None:
        page = self.findings.metrics.cache_config.get(name) if self.findings.metrics else None
        return self.facts.flags.get(name) or (page if page not in {None, "None"} else None)

    def whole_flag(self, name: str) -> int | None:
        value = self.flag(name)
        return int(value) if value and _WHOLE.fullmatch(value) else None

    def is_on(self, name: str) -> bool:
        return self.flag(name) == "True"

    @property
    def max_num_seqs(self) -> int | None:
        life = self.verdict.life
        return (max_num_seqs_of(life) if life else None) or self.whole_flag("max_num_seqs")

    @property
    def tensor_parallel(self) -> int:
        return self.whole_flag("tensor_parallel_size") or 1

    @property
    def utilization(self) -> float | None:
        named = self.number("utilization")
        if named:
            return named
        try:
            return float(self.flag("gpu_memory_utilization") or "")
        except ValueError:
            return None

    @property
    def total(self) -> int | None:
        if self.event and self.event.total:
            return self.event.total
        total = self.number("total")
        return gib(total) if total else self.facts.total_memory

    @property
    def free(self) -> int | None:
        free = self.number("free")
        if free is not None:
            return gib(free)
        return self.event.free if self.event else None

    @property
    def others(self) -> int | None:
        return others_of(self.event) if self.event else None

    @property
    def missing(self) -> int | None:
        """What the failed request lacked, with a margin."""
        event = self.event
        if event is None or event.requested is None or event.free is None:
            return None
        return max(event.requested - event.free, 0) + MARGIN

    @property
    def kv_tokens(self) -> int | None:
        page = self.whole_flag("kv_cache_size_tokens")
        return self.facts.kv_cache_tokens or page

    @property
    def kv_bytes(self) -> int | None:
        return self.facts.kv_cache_bytes

    def utilization_that_fits_free(self) -> str | None:
        """The largest share of the card that is free now."""
        if not self.free or not self.total:
            return None
        share = math.floor((self.free / self.total) * 100 - 1) / 100
        return f"{share:.2f}" if share > 0 else None

    def lower_utilization(self) -> str | None:
        """So much lower that the failed request would have found room; never below the KV need."""
        if self.utilization is None or self.missing is None or not self.total:
            return None
        step = max(self.missing / self.total, _SMALLEST_STEP)
        if self.kv_bytes is not None and step * self.total >= self.kv_bytes:
            return None
        lower = math.floor((self.utilization - step) * 100) / 100
        return f"{lower:.2f}" if lower > 0.1 else None

    def raise_utilization(self, lacking: int | None) -> str | None:
        """High enough for what is lacking; None where the card has no more, or nobody knows."""
        if self.utilization is None or lacking is None or not self.total:
            return None
        higher = math.ceil((self.utilization + lacking / self.total) * 100) / 100
        free = self.facts.free_at_start
        ceiling = min(HIGHEST_UTILIZATION, free / self.total if free else 1.0)
        return f"{higher:.2f}" if self.utilization < higher <= ceiling else None

    def fewer_sequences(self) -> int | None:
        """So few that the failed request, which grows with them, finds room; at most half."""
        event, seqs = self.event, self.max_num_seqs
        if not seqs or seqs < 2:
            return None
        fits = seqs // 2
        if event and event.requested and event.free is not None:
            fits = min(fits, int(seqs * event.free * HEADROOM / event.requested))
        return max(fits // 8 * 8 if fits >= 16 else fits, 1)
