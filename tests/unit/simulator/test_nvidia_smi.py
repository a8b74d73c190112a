from __future__ import annotations

import dataclasses

from proxy.simulator.engine import Engine, EngineSnapshot
from proxy.simulator.gpu_memory import GIB, MIB
from proxy.simulator.nvidia_smi import nvidia_smi_csv
from proxy.simulator.options import SimulatorOptions
from proxy.vllm.memory_curve.reader import MemorySample, read_memory_curve

OPTIONS = SimulatorOptions()
IDLE = Engine(OPTIONS.engine_options()).snapshot()


def shown(snapshot: EngineSnapshot) -> MemorySample:
    page = nvidia_smi_csv(OPTIONS.memory, snapshot, 1767225600.25)
    (sample,) = read_memory_curve(page.splitlines())
    return sample


def test_it_is_read_as_the_real_ones_is() -> None:
    seen = shown(IDLE)
    assert (seen.gpu, seen.name, seen.total) == (0, "Simulated GPU", 24 * GIB)
    assert seen.used == IDLE.memory_used_bytes // MIB * MIB
    assert seen.utilization == 0.0


def test_an_engine_at_work_keeps_its_card_busy() -> None:
    assert shown(dataclasses.replace(IDLE, running=3)).utilization == 1.0
    assert shown(dataclasses.replace(IDLE, running=3, stalled=True)).utilization == 0.0


def test_a_dead_engine_has_given_its_memory_back() -> None:
    assert (shown(dataclasses.replace(IDLE, dead=True)).used or 0) < 10 * MIB
