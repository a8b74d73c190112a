from __future__ import annotations

import pytest

from proxy.config import SettingsError, load_settings, settings_table

pytestmark = pytest.mark.usefixtures("clean_environment")


def test_nothing_is_shared_unless_a_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "8")
    settings = load_settings()
    assert (settings.redis_url, settings.cluster) == (None, "default")


def test_the_store_and_the_cluster_are_read_and_the_password_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "8")
    monkeypatch.setenv("SLUICE_REDIS_URL", "redis://:secret@store:6379/1")
    monkeypatch.setenv("SLUICE_CLUSTER", "team")
    settings = load_settings()
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "redis://:secret@store:6379/1"
    assert settings.cluster == "team"
    assert not any("secret" in row.value for row in settings_table(settings))


def test_a_bad_url_is_one_line_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MAX_IN_FLIGHT", "8")
    monkeypatch.setenv("SLUICE_REDIS_URL", "http://:secret@store")
    with pytest.raises(SettingsError) as raised:
        load_settings()
    [problem] = raised.value.problems
    assert problem.startswith("SLUICE_REDIS_URL: must be redis://host:port/db, rediss:// for TLS")
    assert "secret" not in problem
