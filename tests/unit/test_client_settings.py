"""What is kept of the secrets that are only compared."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.app import build
from proxy.env_values.key_digest import KeyDigest
from tests.support.gateway_in_memory import settings
from tests.support.held_in_memory import holds

if TYPE_CHECKING:
    from pathlib import Path

CLIENT_KEY, FILE_KEY, TOKEN = "sk-of-a-client-0123", "sk-in-the-file-0123", "token-of-operators"
ENGINE_KEY = "sk-of-the-engine-0123"


@pytest.fixture(name="keys_file")
def _keys_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text(f"b:{FILE_KEY}\n")
    return file


def test_keys_are_hashed_as_they_are_read(keys_file: Path) -> None:
    read = settings(api_keys=f"a:{CLIENT_KEY}", api_keys_file=keys_file, admin_token=TOKEN)
    assert read.client_keys == {"a": KeyDigest.of(CLIENT_KEY), "b": KeyDigest.of(FILE_KEY)}
    assert read.admin_token == KeyDigest.of(TOKEN)


def test_a_gateway_holds_no_client_key_and_no_token_in_clear(keys_file: Path) -> None:
    """The engine's key it must hold: it is sent."""

    async def scenario() -> None:
        read = settings(
            api_keys=f"a:{CLIENT_KEY}",
            api_keys_file=keys_file,
            admin_token=TOKEN,
            upstream_api_key=ENGINE_KEY,
        )
        application = build(read, poll_engines=False)
        for root in (read, application):
            assert holds(root, ENGINE_KEY), "the search finds what is there"
            for secret in (CLIENT_KEY, FILE_KEY, TOKEN):
                assert not holds(root, secret)
        await application.stop()

    asyncio.run(scenario())
