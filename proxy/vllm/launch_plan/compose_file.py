"""A compose file: the engine, and Sluice in front of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from proxy.vllm.launch_plan.launch_flags import launch_words

if TYPE_CHECKING:
    from proxy.vllm.launch_plan.plan import LaunchPlan

_ENGINE_IMAGE = "vllm/vllm-openai:v0.32.0"
_GATEWAY_IMAGE = "vllm-sluice"
FIRST_WORDS = "# Made by `sluice plan`."


def compose_file(plan: LaunchPlan) -> str:
    """YAML. Values are quoted as JSON, which YAML reads the same."""
    arguments = [*launch_words(plan)[2:], "--host", "0.0.0.0", "--port", "8000"]
    words = "\n".join(f"      - {json.dumps(word)}" for word in arguments)
    environment = {
        "SLUICE_UPSTREAM_URLS": "http://vllm:8000",
        "SLUICE_ADMIN_HOST": "0.0.0.0",
        **plan.limits.environment(),
    }
    settings = "\n".join(
        f"      {name}: {json.dumps(value)}" for name, value in environment.items()
    )
    return f"""\
{FIRST_WORDS} The engine is reached through Sluice only: it publishes no port.
services:
  vllm:
    image: {_ENGINE_IMAGE}
    command:
{words}
    ipc: host # workers of one engine share memory
    volumes:
      - huggingface:/models
    environment:
      HF_HOME: /models
      HF_TOKEN: ${{HF_TOKEN:-}}
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              count: {plan.request.placement.cards}
              capabilities: [gpu]
    restart: unless-stopped

  sluice:
    image: {_GATEWAY_IMAGE} # docker build -t {_GATEWAY_IMAGE} .
    environment:
{settings}
    ports:
      - "8080:8080" # clients
      - "127.0.0.1:8081:8081" # metrics and health
    depends_on:
      - vllm
    restart: unless-stopped

volumes:
  huggingface:
"""
