"""The variables that say how much of what happens is written down, and where to."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator
from pydantic_settings import BaseSettings

from proxy.env_values import fields
from proxy.env_values.collector_url import collector_url


class ObservabilitySettings(BaseSettings):
    """A part of Settings, which see."""

    access_log_sample: Annotated[
        float,
        fields.share(
            "Share of the requests that went well of which there is a line in the access log; of "
            "all others there always is one."
        ),
    ] = 1.0
    otlp_endpoint: Annotated[
        str | None,
        AfterValidator(collector_url),
        fields.described(
            "Base URL of an OTLP/HTTP collector, which gets a trace of every request. Unset: none "
            "is made.",
            "the http:// or https:// URL of a collector",
        ),
    ] = None
    otlp_sample: Annotated[
        float,
        fields.share(
            "Share of the requests that are traced, of those that come without a trace; a caller "
            "that sends one decides itself."
        ),
    ] = 1.0
