"""Everything about a simulated vLLM server that can be chosen."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from proxy.simulator.engine_options import EngineOptions
from proxy.simulator.gpu_memory import GpuMemory
from proxy.simulator.step_cost import StepCost

if TYPE_CHECKING:
    from proxy.simulator.faults import TimedFault

_BATCHED_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """Names are vLLM's where vLLM has the option. Raises ValueError for what cannot be served.

    `max_num_batched_tokens` None: 2048, or more where that would not do.
    `kv_cache_tokens` None: what the memory leaves.
    `output_tokens`: mean length of an answer that `max_tokens` does not cut and that may end by
    itself. `keep_alive_on_engine_death`: answer 500 for ever instead of exiting, as
    VLLM_KEEP_ALIVE_ON_ENGINE_DEATH=1 makes vLLM do.
    """

    served_model_name: str = "simulated"
    max_num_seqs: int = 256
    max_num_batched_tokens: int | None = None
    max_model_len: int = 8192
    block_size: int = 16
    kv_cache_tokens: int | None = None
    enable_chunked_prefill: bool = True
    max_num_queued_reqs: int | None = None
    api_key: str | None = None
    enable_server_load_tracking: bool = False
    keep_alive_on_engine_death: bool = False
    output_tokens: int = 256
    cost: StepCost = field(default_factory=StepCost)
    memory: GpuMemory = field(default_factory=GpuMemory)
    faults: tuple[TimedFault, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.output_tokens < 1:
            raise ValueError(f"output_tokens must be at least 1, got {self.output_tokens}")
        if not self.served_model_name:
            raise ValueError("served_model_name must not be empty")
        self.engine_options()

    @property
    def batched_tokens(self) -> int:
        """Tokens that one step computes at most."""
        if self.max_num_batched_tokens is not None:
            return self.max_num_batched_tokens
        longest_prompt = 0 if self.enable_chunked_prefill else self.max_model_len
        return max(_BATCHED_TOKENS, self.max_num_seqs, longest_prompt)

    def engine_options(self) -> EngineOptions:
        return EngineOptions(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.batched_tokens,
            max_model_len=self.max_model_len,
            num_blocks=self._num_blocks(),
            block_size=self.block_size,
            chunked_prefill=self.enable_chunked_prefill,
            cost=self.cost,
            memory=self.memory,
        )

    def _num_blocks(self) -> int:
        if self.block_size < 1:
            raise ValueError(f"block_size must be at least 1, got {self.block_size}")
        tokens = self.kv_cache_tokens
        if tokens is None:
            tokens = self.memory.kv_cache_bytes(self.batched_tokens)
            tokens //= self.memory.kv_token_bytes
        return max(0, tokens // self.block_size)

    def non_default(self) -> dict[str, object]:
        """What differs from the defaults, the key masked, as vLLM logs it at start."""
        changed = {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if getattr(self, option.name) != getattr(_DEFAULTS, option.name)
        }
        return {name: "***" if name == "api_key" else value for name, value in changed.items()}


_DEFAULTS = SimulatorOptions()
