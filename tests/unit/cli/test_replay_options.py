"""What the command line says, as the replay understands it."""

from __future__ import annotations

import click
import pytest

from proxy.cli.replay_options import (
    asking_of,
    limits_of,
    objective_of,
    patience_of,
)
from proxy.replay.client.requester import Patience
from proxy.replay.client.retry_rules import PROFILES
from proxy.replay.request_times import Objective
from proxy.replay.schedule import LengthLimits
from proxy.replay.synthetic.distribution import Fixed
from tests.support.replay_told import told


def test_clients_and_what_is_good() -> None:
    heard = told("--client", "vercel-ai", "--timeout", "1m", "--abandon-after", "30s")
    assert patience_of(heard) == Patience(PROFILES["vercel-ai"], 60.0, 2, Fixed(30.0))
    assert patience_of(told("--client", "none")).max_retries == 0
    assert objective_of(told("--slo-ttft", "500ms")) == Objective(ttft_s=0.5)
    assert limits_of(told("--max-prompt-tokens", "9")) == LengthLimits(prompt=9)


def test_headers_are_an_sdks_with_the_key_and_those_that_are_given() -> None:
    asking = asking_of("http://gw:8080/v1", told("--header", "X-A: b", "--header", "Accept: */*"))
    headers = dict(asking.headers)
    assert headers[b"host"] == b"gw:8080"
    assert headers[b"authorization"] == b"Bearer sk-env"
    assert (headers[b"X-A"], headers[b"Accept"], b"accept" in headers) == (b"b", b"*/*", False)


def test_a_bad_url_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="must start with http"):
        asking_of("gw:8080", told())
