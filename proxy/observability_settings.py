"""The variables that say how much of what happens is written down, and where to."""

from __future__ import annotations

from typing import Annotated

from pydantic_settings import BaseSettings

from proxy.env_values import fields


class ObservabilitySettings(BaseSettings):
    """A part of Settings, which see."""

    access_log_sample: Annotated[
        float,
        fields.share(
            "Share of the requests that went well of which there is a line in the access log; of "
            "all others there always is one."
        ),
    ] = 1.0
