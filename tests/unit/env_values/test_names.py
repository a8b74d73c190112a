"""Variables with our prefix that are none of ours."""

from __future__ import annotations

import pytest

from proxy.env_values.names import is_service_link, unknown_name_problems, without_service_links

KNOWN = ["SLUICE_PORT", "SLUICE_ADMIN_PORT", "SLUICE_MAX_IN_FLIGHT"]


def problem(name: str, value: str = "1") -> str:
    return "\n".join(unknown_name_problems({name: value}, KNOWN))


def test_a_typo_gets_the_nearest_name() -> None:
    assert problem("SLUICE_MAX_INFLIGHT") == (
        "SLUICE_MAX_INFLIGHT: no such setting; did you mean SLUICE_MAX_IN_FLIGHT?"
    )


def test_a_name_like_no_other_gets_the_list() -> None:
    assert "docs/settings.md" in problem("SLUICE_QUX")


@pytest.mark.parametrize("name", ["SLUICE_PORT", "sluice_port", "PORT", "SLUICE", "OTHER_SLUICE_X"])
def test_known_names_and_those_of_others_are_fine(name: str) -> None:
    assert problem(name) == ""


def test_an_empty_variable_is_unset() -> None:
    assert problem("SLUICE_QUX", "") == ""


def test_a_name_that_moves_the_cursor_is_shown_in_quotes() -> None:
    assert problem("SLUICE_A\nB").startswith("'SLUICE_A\\nB': no such setting")


def test_no_value_is_shown() -> None:
    assert "hunter2" not in problem("SLUICE_API_KEYZ", "hunter2")


KUBERNETES_WRITES = {
    "SLUICE_SERVICE_HOST": "10.0.0.1",
    "SLUICE_SERVICE_PORT": "8080",
    "SLUICE_SERVICE_PORT_HTTP": "8080",
    "SLUICE_PORT": "tcp://10.0.0.1:8080",
    "SLUICE_PORT_8080_TCP": "tcp://10.0.0.1:8080",
    "SLUICE_PORT_8080_TCP_PROTO": "tcp",
    "SLUICE_PORT_8080_TCP_PORT": "8080",
    "SLUICE_PORT_8080_TCP_ADDR": "10.0.0.1",
    "SLUICE_ADMIN_PORT": "tcp://10.0.0.2:8081",
    "SLUICE_ADMIN_SERVICE_HOST": "10.0.0.2",
    "SLUICE_METRICS_PORT": "tcp://10.0.0.3:9090",
}


def test_variables_that_kubernetes_writes_for_a_service_of_our_name_are_not_ours() -> None:
    assert unknown_name_problems(KUBERNETES_WRITES, KNOWN) == []
    assert all(is_service_link(name, value) for name, value in KUBERNETES_WRITES.items())


def test_what_kubernetes_writes_is_left_out_and_the_rest_stays() -> None:
    given = {"SLUICE_HOST": "::", "sluice_port": "8080", "PATH": "/bin", "SLUICE_QUX": None}
    assert without_service_links(KUBERNETES_WRITES | given) == {
        "SLUICE_HOST": "::",
        "sluice_port": "8080",
        "PATH": "/bin",
        "SLUICE_QUX": None,
    }


@pytest.mark.parametrize(
    ("name", "value"), [("SLUICE_PORT", "8080"), ("SLUICE_PORT", "http://x:1"), ("SLUICE_HOST", "")]
)
def test_what_an_operator_writes_is_no_service_link(name: str, value: str) -> None:
    assert not is_service_link(name, value)
