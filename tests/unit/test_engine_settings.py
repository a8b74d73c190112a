from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from proxy.engine_settings import EngineSettings
from proxy.settings import Settings
from tests.support.gateway_in_memory import settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("clean_environment")


def error_of(**values: object) -> str:
    with pytest.raises(ValidationError) as caught:
        settings(**values)
    return str(caught.value)


def of_file(path: Path) -> Settings:
    return Settings(max_in_flight=2, upstreams_file=path)


def test_several_engines_are_several_urls() -> None:
    given = settings(upstream_urls=" http://a:1 , http://b:2/v1,")
    assert given.upstream_urls == ("http://a:1", "http://b:2/v1")


@pytest.mark.parametrize(
    "urls", ["http://a:1,http://a:1", "http://a:1,http://a:1/v1/", "http://a,http://a:80"]
)
def test_one_engine_twice_is_an_error(urls: str) -> None:
    said = error_of(upstream_urls=urls)
    assert "twice, which is one engine with one limit" in said


def test_no_engine_is_an_error() -> None:
    assert "must be a base URL" in error_of(upstream_urls=" , ")


@pytest.mark.parametrize("url", ["gpu:8000", "ftp://gpu", "http://gpu:99999"])
def test_each_must_be_a_url(url: str) -> None:
    error_of(upstream_urls=f"http://a:1,{url}")


def test_affinity_is_off_unless_asked_for() -> None:
    given = settings()
    assert given.affinity == "none"
    assert (given.session_header, given.affinity_prefix_bytes) == ("x-session-id", 4096)
    assert settings(affinity="PREFIX").affinity == "prefix"
    assert "affinity" in error_of(affinity="random")


def test_the_session_header_is_a_header() -> None:
    assert settings(session_header="X-Chat").session_header == "x-chat"
    error_of(session_header="no header")


def test_a_prefix_has_a_sensible_length() -> None:
    error_of(affinity_prefix_bytes=15)
    assert settings(affinity_prefix_bytes=16).affinity_prefix_bytes == 16


def test_they_are_a_part_of_the_settings() -> None:
    assert isinstance(settings(), EngineSettings)


def test_a_file_names_the_engines_in_place_of_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "engines"
    path.write_text("# two\nhttp://a:1/v1\nhttp://b:2\n")
    given = of_file(path)
    assert given.upstream_urls == ("http://a:1", "http://b:2")
    assert "upstream_urls" not in given.model_fields_set
    path.write_text("")
    assert of_file(path).upstream_urls == ()


def test_both_at_once_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "engines"
    path.write_text("http://a:1\n")
    said = error_of(upstreams_file=path, upstream_urls="http://a:1")
    assert f"SLUICE_UPSTREAMS_FILE={path}: names the engines in place of" in said


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    assert "must be a file that can be read" in error_of(upstreams_file=tmp_path / "nowhere")
    assert "must be a file that can be read" in error_of(upstreams_file=tmp_path)


def test_a_bad_line_at_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "engines"
    path.write_text("http://a:1\ngpu:2\n")
    assert "line 2: 'gpu:2' must start with http" in error_of(upstreams_file=path)


def test_names_are_looked_up_again_every_5_s_or_never() -> None:
    assert Settings(max_in_flight=2).dns_interval == 5
    assert settings(dns_interval=0).dns_interval == 0
    error_of(dns_interval=-1)
