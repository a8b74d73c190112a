from __future__ import annotations

import pytest
from pydantic import SecretStr

from proxy.env_values import redis_urls
from proxy.env_values.redis_urls import cluster_name, redis_url


def test_the_url_of_a_redis_is_taken() -> None:
    url = SecretStr("rediss://user:secret@store.example:6379/0?ssl_cert_reqs=required")
    assert redis_url(url) is url


def test_another_is_refused_and_its_secret_not_shown() -> None:
    with pytest.raises(ValueError, match=r"^must be redis://host:port/db, rediss:// for TLS"):
        redis_url(SecretStr("http://:secret@store"))


def test_without_one_nothing_is_shared() -> None:
    assert redis_url(None) is None


def test_a_missing_library_is_one_line_for_a_package_and_for_a_checkout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_urls, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match="needs the client library") as refused:
        redis_url(SecretStr("redis://localhost"))
    assert "pip install 'vllm-sluice[redis]'" in str(refused.value)
    assert "in a checkout .venv/bin/pip install -e '.[redis]'" in str(refused.value)


@pytest.mark.parametrize("name", ["default", "team-1.prod_eu", "x" * 64])
def test_plain_names_of_clusters_are_taken(name: str) -> None:
    assert cluster_name(name) == name


@pytest.mark.parametrize("name", ["", "two words", "{tag}", "x" * 65, "a:b"])
def test_names_that_would_break_keys_and_lists_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64 letters"):
        cluster_name(name)
