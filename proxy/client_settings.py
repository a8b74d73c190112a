"""The variables about those who ask: their keys, their connections, what they may send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import BaseSettings, NoDecode

from proxy.env_values import fields, scalars
from proxy.env_values.client_keys import NamedKeys, given_client_keys
from proxy.env_values.exposed_paths import parse_exposed_paths


class ClientSettings(BaseSettings):
    """A part of Settings, which see."""

    api_keys: Annotated[
        NamedKeys | None,
        NoDecode,
        BeforeValidator(given_client_keys),
        fields.described(
            "Client keys, `name:key` or `key`, comma or line separated. Unset: nobody is asked.",
            "keys as `name:key` or `key`",
        ),
    ] = None
    api_keys_file: Annotated[
        Path | None,
        AfterValidator(scalars.readable_file),
        fields.described("File with more client keys, written the same way.", "a readable file"),
    ] = None
    max_connections: Annotated[
        int | None,
        fields.whole(
            "Connections to the public listener. Unset: as many as the limit of open files allows "
            "once the engines have theirs.",
            1,
            fields.MOST_CONNECTIONS,
            "connections",
        ),
    ] = None
    max_connections_per_address: Annotated[
        int | None,
        fields.whole(
            "Of those, from one client address. Behind a proxy all clients have its address. "
            "Unset: no limit.",
            1,
            fields.MOST_CONNECTIONS,
            "connections",
        ),
    ] = None
    max_body_bytes: Annotated[
        int, fields.whole("Largest request body.", 1, 16 * 1024**3, "bytes")
    ] = 64 * 1024 * 1024
    body_timeout: Annotated[float, fields.seconds("Longest time for a request body to arrive.")] = (
        30.0
    )
    write_timeout: Annotated[
        float,
        fields.seconds(
            "A client that reads nothing for so long, with something to send, is dropped."
        ),
    ] = 60.0
    expose: Annotated[
        tuple[tuple[str, str], ...],
        NoDecode,
        BeforeValidator(parse_exposed_paths),
        fields.described(
            "Further routes to let through to the engine, `METHOD /path`, comma-separated.",
            "`METHOD /path`, comma-separated",
        ),
    ] = ()
