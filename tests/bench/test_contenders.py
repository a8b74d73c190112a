from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench.contenders import DIRECT, HAPROXY, SLUICE, Launch, Limits, Wiring, contenders
from tests.bench.peers import Peers
from tests.bench.processes import clean_environment

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = Limits(in_flight=71, waiting=83, queue_timeout_s=97)


def launch_of(name: str, folder: Path) -> Launch:
    launch = contenders()[name].launch
    assert launch is not None
    peers = Peers(folder, haproxy="haproxy", wrk="wrk")
    return launch(peers, Wiring(20_001, "http://127.0.0.1:20002", LIMITS, folder))


@pytest.mark.parametrize("name", [name for name in contenders() if name != DIRECT])
def test_everyone_is_told_port_engine_and_all_three_limits(name: str, tmp_path: Path) -> None:
    launch = launch_of(name, tmp_path)
    told = " ".join([*launch.command, *launch.environment.values()])
    if name == HAPROXY:
        told += (tmp_path / "haproxy.cfg").read_text()
    assert [word for word in ("20001", "20002", "71", "83", "97") if word not in told] == []


def test_there_are_eight_ways_and_sluice_on_another_python() -> None:
    assert len(contenders()) == 9
    assert SLUICE in contenders()


def test_settings_and_forward_proxies_of_ours_steer_no_contender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLUICE_PORT", "PYTHONDEVMODE", "http_proxy", "ALL_PROXY", "BENCH_KEPT"):
        monkeypatch.setenv(name, "1")
    environment = clean_environment({"SLUICE_HOST": "127.0.0.1"})
    assert {"SLUICE_PORT", "PYTHONDEVMODE", "http_proxy", "ALL_PROXY"} & environment.keys() == set()
    assert {"BENCH_KEPT", "SLUICE_HOST", "PYTHONPATH"} <= environment.keys()
