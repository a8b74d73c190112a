"""The variables that say where the engines are, and which request goes to which of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode

from proxy.discovery.upstreams_file import load_addresses
from proxy.env_values import fields, scalars
from proxy.env_values.header_names import header_name
from proxy.env_values.urls import split_urls
from proxy.upstream.address import UpstreamAddress


def _addresses(urls: tuple[str, ...]) -> tuple[str, ...]:
    names = [str(UpstreamAddress.parse(url)) for url in urls]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names {name} twice, which is one engine with one limit")
    return urls


def _sound_file(path: Path | None) -> Path | None:
    if path is not None:
        load_addresses(path)
    return path


def _named_in_file(data: dict[str, Any]) -> tuple[str, ...]:
    """What the file says at the start. A field whose own check has failed is not asked."""
    path = data["upstreams_file"]
    if path is None:
        return ("http://127.0.0.1:8000",)
    return tuple(address.url for address in load_addresses(path))


class EngineSettings(BaseSettings):
    """A part of Settings, which see."""

    upstreams_file: Annotated[
        Path | None,
        AfterValidator(scalars.readable_file),
        AfterValidator(_sound_file),
        fields.described(
            "File that names the engines in place of SLUICE_UPSTREAM_URLS, a base URL a line; it "
            "is read again when it changes, and engines come and go as it says.",
            "a readable file",
        ),
    ] = None
    upstream_urls: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(split_urls),
        AfterValidator(_addresses),
        fields.described(
            "Base URLs of the engines, comma-separated; with or without a trailing slash, /v1 or a "
            "path prefix. Every other limit that names an engine is for each of them. A host name "
            "with several addresses is as many engines. Default: http://127.0.0.1:8000, or what "
            "SLUICE_UPSTREAMS_FILE names.",
            "base URLs, comma-separated",
        ),
    ] = Field(default_factory=_named_in_file)
    dns_interval: Annotated[
        float,
        fields.seconds_or_zero(
            "Time between two lookups of the host names of engines; 0 = never, and a name is one "
            "engine, whatever its addresses."
        ),
    ] = 5.0
    upstream_api_key: Annotated[
        SecretStr | None,
        AfterValidator(scalars.header_safe_secret),
        fields.described(
            "Bearer key for the engine. When set it replaces the client's Authorization.", "a key"
        ),
    ] = None
    affinity: Annotated[
        Literal["none", "prefix", "session"],
        BeforeValidator(scalars.lower_case),
        fields.described(
            "Of several engines, requests go to the one with the largest share of free seats; or "
            "those that begin alike (prefix), or name the same session in SLUICE_SESSION_HEADER "
            "(session), to the same one, so that its prefix cache serves them, as long as that one "
            "carries no more than 5/4 of its part.",
            "none, prefix or session",
        ),
    ] = "none"
    session_header: Annotated[
        str,
        AfterValidator(header_name),
        fields.described(
            "Header whose value names the session, for SLUICE_AFFINITY=session.",
            "the name of a header",
        ),
    ] = "x-session-id"
    affinity_prefix_bytes: Annotated[
        int,
        fields.whole(
            "How many bytes of a prompt tell where it belongs, for SLUICE_AFFINITY=prefix: more "
            "than the part that all your prompts have in common.",
            16,
            1_000_000,
            "bytes",
        ),
    ] = 4096
    upstream_client: Annotated[
        Literal["pool", "httpx"],
        fields.described(
            "HTTP client towards the engine: the own pool, or httpx.", "pool or httpx"
        ),
    ] = "pool"
