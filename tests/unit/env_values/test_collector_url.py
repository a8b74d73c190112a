from __future__ import annotations

import pytest

from proxy.env_values import collector_url as module
from proxy.env_values.collector_url import collector_url


@pytest.mark.parametrize("url", ["http://collector:4318", "https://c.example/otlp", None])
def test_a_base_url_is_sound(url: str | None) -> None:
    assert collector_url(url) == url


def test_a_slash_at_its_end_is_dropped() -> None:
    assert collector_url("http://collector:4318/") == "http://collector:4318"


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector:4317", "http://", "x"])
def test_what_is_no_such_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be the base URL of a collector"):
        collector_url(url)


@pytest.mark.parametrize("url", ["http://user:secret@collector", "http://c/?key=1", "http://c/#a"])
def test_credentials_have_another_place(url: str) -> None:
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_HEADERS") as caught:
        collector_url(url)
    assert "secret" not in str(caught.value)


def test_without_the_libraries_it_says_which_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"vllm-sluice\[otel\].* in a checkout .*'\.\[otel\]'"):
        collector_url("http://collector:4318")
