"""The variables that say with which other gateways this one shares the engines' limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr
from pydantic_settings import BaseSettings

from proxy.env_values import fields, redis_urls


class SharingSettings(BaseSettings):
    """A part of Settings, which see."""

    redis_url: Annotated[
        SecretStr | None,
        AfterValidator(redis_urls.redis_url),
        fields.described(
            "The Redis or Valkey through which several gateways hold one limit for each engine. "
            "Unset: this gateway alone has the limit.",
            "a URL: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://",
        ),
    ] = None
    cluster: Annotated[
        str,
        AfterValidator(redis_urls.cluster_name),
        fields.described(
            "The gateways that share are those with the same SLUICE_REDIS_URL and this same name.",
            "1 to 64 letters, digits, dots, dashes or underscores",
        ),
    ] = "default"
