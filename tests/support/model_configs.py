"""Published `config.json` files, cut down to what sizes depend on, and the models they describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.vllm.launch_plan.config_fields import ConfigFields
from proxy.vllm.launch_plan.model_config import read_model

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.shape import ModelShape

CONFIGS = Path(__file__).parents[1] / "unit/vllm/launch_plan/configs"


def config_path(name: str) -> Path:
    return CONFIGS / f"{name}.json"


def config_values(name: str, **changed: object) -> dict[str, Any]:
    return {**json.loads(config_path(name).read_text()), **changed}


def model(name: str, **changed: object) -> ModelShape:
    return read_model(ConfigFields(config_values(name, **changed), "config.json"))
