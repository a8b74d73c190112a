"""What is said of the engine, on a console and in JSON."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from proxy.cli.up_report import UpReport, remarks
from proxy.cli.up_settings import UpPlan, plan_up, read_arguments
from proxy.simulator.log_lines import out_of_memory_lines, start_up_lines
from proxy.simulator.options import SimulatorOptions
from proxy.supervision.engine_log import EngineLog
from proxy.supervision.restart_policy import Death, GiveUp
from proxy.vllm.doctor.evidence import StartUpFacts

pytestmark = pytest.mark.usefixtures("clean_environment")

OPTIONS = SimulatorOptions(max_num_seqs=64, kv_cache_tokens=32_768)
OOM = Death(exit_code=1, served_s=12.4, oom=True)


class Lines:
    """Where lines go."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, line: bytes) -> None:
        assert line.count(b"\n") == 1
        self.text += line.decode()

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]


def plan(text: str = "m --max-num-seqs 64", **overrides: object) -> UpPlan:
    overrides = {"log_format": "console", **overrides}
    return plan_up(("vllm", "serve"), read_arguments(tuple(text.split())), overrides, 9001, {})


def engine_log() -> EngineLog:
    log = EngineLog(lambda _: None)
    lines = [*start_up_lines(OPTIONS, "http://h:1"), *out_of_memory_lines(OPTIONS, 6000)]
    log.feed("".join(f"{line.format(7, 0.0)}\n" for line in lines).encode())
    log.close()
    return log


@pytest.fixture(autouse=True)
def _everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sluice")


def test_the_engines_lines_are_told_apart_and_kept_as_they_were() -> None:
    shown, raw = Lines(), Lines()
    UpReport(plan(), shown, raw).line("loading \x1b[1m Authorization: Bearer sk-1")
    assert shown.text == "vllm | loading \\x1b[1m Authorization: Bearer ***\n"
    assert raw.text == "loading \x1b[1m Authorization: Bearer sk-1\n"


def test_its_answers_to_the_gateways_own_questions_are_left_out() -> None:
    shown, raw = Lines(), Lines()
    report = UpReport(plan(), shown, raw)
    asked = 'INFO:     127.0.0.1:4147 - "GET /%s HTTP/1.1" %s'
    for path, status in (("health", "200 OK"), ("metrics", "200 OK"), ("health", "503 x")):
        report.line(asked % (path, status))
    assert shown.text == f"vllm | {asked % ('health', '503 x')}\n"
    assert raw.text.count("\n") == 3


def test_in_json_each_of_its_lines_is_an_object() -> None:
    shown = Lines()
    UpReport(plan(log_format="json"), shown).line('say "hi"')
    (line,) = shown.objects()
    assert (line["logger"], line["message"], line["level"]) == ("vllm", 'say "hi"', "info")


def test_a_start_is_told_with_its_command(caplog: pytest.LogCaptureFixture) -> None:
    report = UpReport(plan("m --api-key sk-1"), Lines())
    report.starting(1)
    report.starting(2)
    assert "starting the engine: vllm serve m --api-key *** --max-num-seqs 256" in caplog.text
    assert "starting the engine (start 2): " in caplog.text


def test_when_it_is_up_what_it_got_is_told_and_whether_the_limit_fits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    UpReport(plan(), Lines()).up(31.24, engine_log().facts())
    assert (
        "the engine is up after 31.2 s; its KV cache holds 32,768 tokens, "
        "4 requests of 8,192 tokens at once"
    ) in caplog.text
    assert "fewer than 57 seats" in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


def test_an_engine_that_tells_nothing_is_up_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    UpReport(plan(), Lines()).up(2.0, StartUpFacts())
    assert caplog.messages == ["the engine is up after 2.0 s"]


def faults(chosen: UpPlan) -> list[str]:
    facts = engine_log().facts()
    return [remark.text for remark in remarks(chosen, facts) if remark.is_fault]


def test_settings_that_do_not_fit_what_the_engine_printed_are_faults() -> None:
    assert faults(plan()) == []
    (too_wide,) = faults(plan(max_num_seqs=80))
    assert "SLUICE_MAX_IN_FLIGHT=72 is not below the engine's --max-num-seqs=64" in too_wide
    (too_many,) = faults(plan(max_kv_tokens="40000"))
    assert "SLUICE_MAX_KV_TOKENS=40000 is more than" in too_many


def test_of_several_ranks_each_has_its_part_of_the_seats() -> None:
    assert faults(plan("m --max-num-seqs 64 -dp 4", max_kv_tokens="130000")) == []


def test_a_death_is_told_with_its_cause_and_a_page_of_evidence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shown = Lines()
    UpReport(plan(), shown).died(OOM, engine_log().diagnosis())
    assert "the engine died after 12 s of service with exit code 1: " in caplog.text
    assert shown.text.startswith("OUT OF MEMORY: ")
    assert "engine:17" not in shown.text.splitlines()[0]
    assert "torch.OutOfMemoryError: CUDA out of memory" in shown.text
    assert "What to do, in this order" in shown.text


def test_in_json_the_evidence_is_objects(caplog: pytest.LogCaptureFixture) -> None:
    shown = Lines()
    UpReport(plan(log_format="json"), shown).died(OOM, engine_log().diagnosis())
    messages = [line["message"] for line in shown.objects()]
    assert messages[0].startswith("phase prefill: ")
    assert any("torch.OutOfMemoryError" in m for m in messages if m.startswith("evidence engine:"))
    assert any(m.startswith("advice 1: ") for m in messages)
    assert caplog.messages


def test_a_sigkill_that_nothing_explains_points_at_the_kernel(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = EngineLog(lambda _: None)
    log.close()
    UpReport(plan(), Lines()).died(Death(137, None), log.diagnosis())
    assert "died before it was up with exit code 137" in caplog.text
    assert "journalctl -k | sluice doctor -" in caplog.text


def test_giving_up_repeats_the_cause_and_what_to_try_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report = UpReport(plan(), Lines())
    diagnosis = engine_log().diagnosis()
    report.died(OOM, diagnosis)
    report.starts_again(2.0)
    report.gave_up(GiveUp("it died 5 times in a row"), OOM)
    *_, given_up, first = caplog.messages
    assert given_up.startswith("giving up, it died 5 times in a row; last after 12 s of service")
    assert diagnosis.cause in given_up
    assert first.startswith(f"to try first: {diagnosis.advice[0].set}")
