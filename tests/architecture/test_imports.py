"""Who may import whom; the contracts themselves stand in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FRAMEWORKS_AND_IO = {
    "fastapi",
    "starlette",
    "uvicorn",
    "httpx",
    "pydantic",
    "prometheus_client",
    "redis",
    "socket",
    "logging",
}


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    return list(settings["contracts"])


def forbidden_to(module: str) -> set[str]:
    return {
        name
        for contract in contracts()
        if contract["type"] == "forbidden" and module in contract["source_modules"]
        for name in contract["forbidden_modules"]
    }


def test_every_import_contract_is_kept() -> None:
    # In a process of its own: it disables the loggers that it finds, and with them other tests.
    linted = subprocess.run(  # noqa: S603 - the tool beside our interpreter
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout


def test_a_new_room_must_be_given_its_place() -> None:
    (layers,) = [contract for contract in contracts() if contract["type"] == "layers"]
    assert layers["exhaustive"] is True
    assert layers["exhaustive_ignores"] == []


def test_the_core_the_formats_and_the_pure_models_are_kept_clean() -> None:
    for module in (
        "proxy.admission",
        "proxy.openai_api",
        "proxy.simulator.engine",
        "proxy.vllm.metrics_page",
    ):
        assert forbidden_to(module) >= FRAMEWORKS_AND_IO


def test_every_policy_is_told_the_time() -> None:
    for module in ("limits", "disciplines", "fairness"):
        assert forbidden_to(f"proxy.admission.{module}") >= {"asyncio", "time", "datetime"}


def test_vllm_is_never_imported() -> None:
    assert "vllm" in forbidden_to("proxy")
