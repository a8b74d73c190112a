from __future__ import annotations

import pytest

from proxy.telemetry.redaction import redact

CANARY = "kanari-0123456789"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {CANARY}",
        f"authorization: bearer   {CANARY}",
        f"Authorization: {CANARY}",
        f"x-api-key: {CANARY}",
        f"(b'authorization', b'Bearer {CANARY}')",
        f"(b'x-api-key', b'{CANARY}')",
        f"[('Authorization', '{CANARY}'), ('accept', '*/*')]",
        f'{{"api_key": "{CANARY}"}}',
        f"GET /v1/models?key={CANARY}&x=1",
        f"GET /v1/models?api_key={CANARY}",
        f"OpenAI(api_key='{CANARY}')",
        f"http://user:{CANARY}@engine:8000/v1",
        f"http://{CANARY}@engine:8000/v1",
        f"Incorrect API key provided: sk-{CANARY}",
    ],
)
def test_a_credential_never_gets_through(text: str) -> None:
    assert CANARY not in redact(text)


def test_what_stands_around_a_credential_stays_readable() -> None:
    assert redact("GET /v1/models?key=abc&x=1 failed") == "GET /v1/models?key=***&x=1 failed"
    assert redact("at http://u:p@engine:8000/v1") == "at http://***@engine:8000/v1"


@pytest.mark.parametrize(
    "text",
    [
        "SLUICE_UPSTREAM_API_KEY: must not be empty",
        "12 prompt tokens, 3 seats",
        "no key, no answer",
        "connecting to http://engine:8000/v1 took 0.2 s",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text
