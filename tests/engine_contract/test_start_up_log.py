"""The lines of a start that people and tools look for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.engine_process import MAX_MODEL_LEN, MAX_NUM_SEQS

if TYPE_CHECKING:
    from tests.support.engine_process import EngineProcess


def found(engine: EngineProcess, pattern: str) -> re.Match[str]:
    match = re.search(pattern, engine.log.read_text(errors="replace"))
    assert match is not None, f"{pattern!r} is not in {engine.log}"
    return match


def test_the_size_of_the_cache_and_what_it_holds_are_logged(engine: EngineProcess) -> None:
    line = found(
        engine,
        r"KV cache size: ([\d,]+) tokens, Maximum concurrency for ([\d,]+) tokens per request: "
        r"([\d.]+)x",
    )
    tokens, length = (int(number.replace(",", "")) for number in line.group(1, 2))
    assert (tokens, length) == (1_048_576, MAX_MODEL_LEN)
    assert float(line[3]) == tokens / length


def test_the_arguments_that_are_not_default_are_logged(engine: EngineProcess) -> None:
    arguments = found(engine, r"non-default args: (\{.*\})")[1]
    assert f"'max_num_seqs': {MAX_NUM_SEQS}" in arguments
    assert f"'max_model_len': {MAX_MODEL_LEN}" in arguments


def test_the_model_length_is_logged(engine: EngineProcess) -> None:
    found(engine, rf"Using max model len {MAX_MODEL_LEN}\b")


def test_the_address_is_logged(engine: EngineProcess) -> None:
    found(engine, rf"Starting vLLM server on {re.escape(engine.url)}\b")


def test_each_line_says_who_when_how_bad_and_where(engine: EngineProcess) -> None:
    found(
        engine,
        r"(?m)^\(APIServer pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[\w+\.py:\d+\] non-default",
    )
    found(
        engine,
        r"(?m)^\(EngineCore pid=\d+\) INFO \d\d-\d\d \d\d:\d\d:\d\d \[\w+\.py:\d+\] \w+ KV cache",
    )
