from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.vllm.memory_curve.smi_table import SmiProcess, SmiTableReader
from tests.support.memory_curves import MIB, OLD_TABLE, TABLE

if TYPE_CHECKING:
    from proxy.vllm.memory_curve.reader import MemorySample


def read(text: str) -> tuple[list[MemorySample], list[SmiProcess]]:
    reader = SmiTableReader()
    samples = [sample for line in text.splitlines() for sample in reader.feed(line)]
    return samples, reader.processes


def test_a_table_is_one_sample_of_each_card() -> None:
    first, second = read(TABLE)[0]
    assert (first.gpu, first.name, first.line) == (0, "NVIDIA H100 80GB HBM3", 9)
    assert (first.used, first.total, first.utilization) == (76543 * MIB, 81559 * MIB, 0.97)
    assert (second.gpu, second.name, second.used) == (1, "Tesla V100-SXM2...", 9000 * MIB)
    assert first.at_s == second.at_s > 0


def test_the_processes_are_read_with_spaces_in_their_names() -> None:
    assert read(TABLE)[1] == [
        SmiProcess(0, 4711, "VLLM::EngineCore", 76520 * MIB),
        SmiProcess(1, 1938, "/usr/lib/xorg/Xorg", 4 * MIB),
        SmiProcess(1, 2048, "/opt/my trainer/bin/python", 8990 * MIB),
    ]


def test_an_old_drivers_table_is_read_too() -> None:
    samples, processes = read(OLD_TABLE)
    assert [(sample.used, sample.name) for sample in samples] == [
        (1234 * MIB, "Tesla V100-SXM2...")
    ]
    assert processes == [SmiProcess(0, 12345, "python", 1230 * MIB)]


def test_several_tables_are_several_samples_and_the_last_ones_processes_count() -> None:
    later = TABLE.replace("08:44:42", "08:44:47").replace("76543MiB", "80000MiB")
    samples, processes = read(TABLE + later)
    assert [sample.used for sample in samples if sample.gpu == 0] == [76543 * MIB, 80000 * MIB]
    assert samples[2].at_s - samples[0].at_s >= 5
    assert len(processes) == 3


@pytest.mark.parametrize(
    "told", ["| N/A   67C    P0             16W /  N/A  | Not Supported          |      0% |", ""]
)
def test_a_card_that_does_not_tell_its_memory_gives_no_sample(told: str) -> None:
    head = "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |        N/A |\n"
    assert read(head + told) == ([], [])


def test_what_is_no_table_gives_nothing() -> None:
    assert read("INFO 12000MiB / 24000MiB | Fri\n| 0 |\nKilled") == ([], [])
