"""`sluice plan`: exit codes, the command, the compose file, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.cli.main import sluice
from tests.support.model_configs import config_path

pytestmark = pytest.mark.usefixtures("clean_environment")

LLAMA = str(config_path("llama-3-8b"))
SEVENTY = str(config_path("llama-3-70b"))
LENGTHS = ("--prompt-tokens", "800,3000,4000", "--output-tokens", "200,800,1000")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(sluice, ["plan", *arguments])


def as_json(*arguments: str) -> dict[str, Any]:
    read = json.loads(invoke(*arguments, "--json").stdout)
    assert isinstance(read, dict)
    return read


def test_a_model_that_fits_gets_its_command_and_its_environment() -> None:
    result = invoke(LLAMA, "--gpu", "H100", *LENGTHS)
    assert result.exit_code == 0
    assert "vllm serve" in result.stdout
    assert "SLUICE_MAX_IN_FLIGHT=" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("fits: ")


def test_the_model_may_be_an_option_too() -> None:
    assert as_json("--model", LLAMA, "--gpu", "H100") == as_json(LLAMA, "--gpu", "H100")
    assert invoke(LLAMA, "--model", LLAMA).exit_code == 2


def test_a_model_that_does_not_fit_exits_3_with_numbers_and_remedies() -> None:
    result = invoke(SEVENTY, "--gpu", "A100-80G")
    assert result.exit_code == 3
    assert "does not fit: each card lacks 61." in result.stdout.replace("\n", " ")
    assert "--tensor-parallel-size 2" in result.stdout
    assert "vllm serve" not in result.stdout


def test_what_is_not_modelled_exits_4() -> None:
    result = invoke(str(config_path("jamba")), "--gpu", "H100")
    assert result.exit_code == 4
    assert result.stderr.startswith("error: ")
    assert "Mamba layers" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((LLAMA,), "--gpu is needed"),
        ((LLAMA, "--gpu", "H101"), "--gpu 'H101': no size"),
        (("--gpu", "H100"), "no model: give its config.json, or --layers"),
        (("missing.json", "--gpu", "H100"), "missing.json: No such file"),
        ((LLAMA, "--gpu", "80"), "--gpu '80': no unit"),
        ((LLAMA, "--gpu", "H100", "--tensor-parallel", "3"), "cannot be divided"),
        ((LLAMA, "--gpu", "H100", "--gpus", "2", "--tensor-parallel", "4"), "--gpus says 2"),
        ((LLAMA, "--gpu", "H100", "--prompt-tokens", "5"), "needed together"),
        ((LLAMA, "--gpu", "H100", "--trace", "missing.csv"), "missing.csv: No such file"),
        ((LLAMA, "--gpu", "H100", "--compose", "missing/compose.yaml"), "No such file"),
        ((LLAMA, "--from", "x.log"), "exclude each other"),
        (("--from", "missing.log"), "missing.log: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_exit_2(
    arguments: tuple[str, ...], said: str
) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_with_json_a_refusal_is_an_object() -> None:
    assert as_json(LLAMA) == {"fits": None, "error": invoke(LLAMA).stderr[7:].strip()}


def test_a_compose_file_alone_can_be_piped() -> None:
    result = invoke(LLAMA, "--gpu", "H100", "--compose")
    assert result.exit_code == 0
    assert result.stdout.startswith("# Made by `sluice plan`")
    assert result.stdout.rstrip().endswith("huggingface:")


def test_with_json_the_compose_file_is_in_the_object(tmp_path: Path) -> None:
    alone = invoke(LLAMA, "--gpu", "H100", "--compose").stdout
    assert as_json(LLAMA, "--gpu", "H100", "--compose", "-")["compose"] == alone
    written = as_json(LLAMA, "--gpu", "H100", "--compose", str(tmp_path / "compose.yaml"))
    assert written["compose"] is None
    assert (tmp_path / "compose.yaml").read_text() == alone


@pytest.mark.parametrize(
    ("seats", "code", "said"), [("16", 0, "=16 fits: "), ("2000", 3, "=2000 does NOT fit: ")]
)
def test_a_limit_in_mind_is_judged_without_a_running_engine_too(
    seats: str, code: int, said: str
) -> None:
    result = invoke(LLAMA, "--gpu", "H100", *LENGTHS, "--max-in-flight", seats)
    assert result.exit_code == code
    assert said in result.stdout.splitlines()[-1]
    made = as_json(LLAMA, "--gpu", "H100", *LENGTHS, "--max-in-flight", seats)
    assert made["fits"] is True
    assert (made["max_in_flight"]["value"], made["max_in_flight"]["fits"]) == (int(seats), not code)


def test_a_gateways_own_setting_does_not_judge_an_engine_that_is_only_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "2000")
    assert invoke(LLAMA, "--gpu", "H100").exit_code == 0
    assert as_json(LLAMA, "--gpu", "H100")["max_in_flight"] is None


def test_a_piped_compose_file_is_nothing_but_itself_and_the_limit_is_judged_beside_it() -> None:
    result = invoke(LLAMA, "--gpu", "H100", "--compose", "-", "--max-in-flight", "2000")
    assert result.exit_code == 3
    assert result.stdout.rstrip().endswith("huggingface:")
    assert "does NOT fit" in result.stderr


def test_a_compose_file_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / "compose.yaml"
    result = invoke(LLAMA, "--gpu", "H100", "--compose", str(target))
    assert "fits: " in result.stdout
    assert "SLUICE_MAX_NUM_SEQS" in target.read_text()


def test_an_earlier_compose_file_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "compose.yaml"
    for gpu in ("H100", "L40S"):
        assert invoke(LLAMA, "--gpu", gpu, "--compose", str(target)).exit_code == 0
    target.write_text("services: {}\n")
    result = invoke(LLAMA, "--gpu", "H100", "--compose", str(target))
    assert result.exit_code == 2
    assert "there is another file" in result.stderr
    assert target.read_text() == "services: {}\n"


def test_a_model_that_a_container_would_not_find_is_said(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(Path(LLAMA).read_text())
    command = (str(tmp_path), "--gpu", "H100", "--compose")
    assert "--model-name" in invoke(*command).stderr
    assert invoke(*command, "--model-name", "meta-llama/Meta-Llama-3-8B").stderr == ""


def test_a_bare_config_file_names_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(Path(LLAMA).read_text())
    monkeypatch.chdir(tmp_path)
    assert "vllm serve MODEL" in invoke("config.json", "--gpu", "H100").stdout


def test_what_does_not_fit_gets_no_compose_file() -> None:
    assert invoke(SEVENTY, "--gpu", "A100-80G", "--compose").exit_code == 3


def test_explain_prints_formulas_reasons_and_assumptions() -> None:
    said = invoke(LLAMA, "--gpu", "H100", "--explain").stdout
    assert "32 layers x 8 KV heads x (128 + 128) x 2 B = 131,072 B" in said
    assert "assumed" in said


def test_a_folder_is_read_and_named_in_the_command(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(Path(LLAMA).read_text())
    assert f"vllm serve {tmp_path}" in invoke(str(tmp_path), "--gpu", "H100").stdout


def test_numbers_are_enough() -> None:
    shape = ("--layers", "32", "--kv-heads", "8", "--head-dim", "128", "--hidden", "4096")
    made = as_json(*shape, "--params", "8.03B", "--gpu", "H100")
    assert made["kv_cache"]["bytes_per_token"] == [131_072]
    assert made["model"]["parameters"] == 8_030_000_000


def test_a_running_engine_is_judged_by_the_environments_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "metrics.txt"
    page.write_text(
        '# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size="16",'
        'kv_cache_max_concurrency="12.5",kv_cache_size_tokens="102400"} 1.0\n'
    )
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "200")
    assert invoke("--from", str(page), *LENGTHS).exit_code == 3
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "50")
    result = invoke("--from", str(page), *LENGTHS)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "SLUICE_MAX_IN_FLIGHT=50 fits"
