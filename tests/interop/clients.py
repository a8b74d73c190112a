"""The client libraries that are tried on the gateway, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent
_SETUP = HERE.parents[1] / "scripts" / "setup_interop.sh"

_GENERATES = frozenset({"chat", "n", "stream", "leave", "tool", "tool_stream", "completion"})
_OPENAI = _GENERATES | {"embeddings", "models", "respond", "respond_stream"}


@dataclass(frozen=True)
class Client:
    """A release of a library. `calls` is what the driver does with it; `obeys_tickets` says whether
    it heeds x-should-retry; a `heavy` one is left out of CI."""

    name: str
    title: str
    version: str
    driver: str
    calls: frozenset[str]
    obeys_tickets: bool = True
    heavy: bool = False

    def command(self, home: Path) -> list[str]:
        if self.driver.endswith(".mjs"):
            return [str(home / "node" / "node"), str(HERE / "node" / self.driver)]
        own = home / self.name / "bin" / "python"
        python = str(own) if own.exists() else sys.executable
        return [python, "-X", "utf8", str(HERE / "drivers" / self.driver)]


CLIENTS = (
    Client(
        "openai-oldest",
        "openai-python, oldest",
        "1.0.0",
        "openai_python.py",
        _OPENAI - {"tool", "tool_stream", "respond", "respond_stream"},
    ),
    Client("openai-newest", "openai-python, newest", "3.57.0", "openai_python.py", _OPENAI),
    Client("openai-node", "openai-node", "7.59.0", "openai_node.mjs", _OPENAI),
    Client(
        "ai-sdk",
        "Vercel AI SDK",
        "7.0.173",
        "ai_sdk.mjs",
        _OPENAI - {"n", "models", "respond", "respond_stream"},
        obeys_tickets=False,
    ),
    Client(
        "langchain",
        "LangChain",
        "1.8.1",
        "langchain_chat.py",
        _OPENAI - {"models", "respond", "respond_stream"},
    ),
    Client(
        "anthropic",
        "anthropic-python",
        "2.16.0",
        "anthropic_python.py",
        frozenset({"chat", "stream", "leave", "tool"}),
    ),
    Client(
        "curl",
        "curl",
        "",  # whichever the system has
        "curl.py",
        frozenset({"chat", "n", "stream", "completion", "embeddings", "models"}),
        obeys_tickets=False,
    ),
    Client(
        "litellm",
        "LiteLLM",
        "1.82.6",
        "litellm_python.py",
        _OPENAI - {"tool_stream", "models", "respond", "respond_stream"},
        heavy=True,
    ),
)


BY_NAME = {client.name: client for client in CLIENTS}


@dataclass
class Trouble:
    """What an application gets to see of a call that failed."""

    name: str
    status: int | None
    code: str | None
    message: str
    request_id: str | None = None
    family: tuple[str, ...] = ()
    retryable: bool | None = None


class ClientError(Exception):
    def __init__(self, trouble: Trouble) -> None:
        super().__init__(f"{trouble.name}: {trouble.message}")
        self.trouble = trouble


@dataclass
class Running:
    """A driver that waits for calls; one at a time."""

    client: Client
    process: subprocess.Popen[str]
    version: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(cls, client: Client, home: Path) -> Self:
        process = subprocess.Popen(  # noqa: S603 - a driver of our own
            client.command(home),
            env=_environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return cls(client, process)

    def call(self, call: str, base_url: str, **more: object) -> Any:  # noqa: ANN401 - whatever the driver returns
        """Does not retry unless told to. Raises ClientError for what the library raised."""
        ask = {
            "api_key": "sk-of-the-app",
            "model": "tiny",
            "text": None,
            "max_tokens": 8,
            "max_retries": 0,
            "timeout": None,
            "count": 3,
            **more,
        }
        answer = self._exchange({"call": call, "base_url": base_url, **ask})
        if "raised" in answer:
            raise ClientError(_trouble(answer["raised"]))
        return answer["returned"]

    def fail(self, call: str, base_url: str, **more: object) -> Trouble:
        """What the library raised; it must."""
        with pytest.raises(ClientError) as raised:
            self.call(call, base_url, **more)
        return raised.value.trouble

    def _exchange(self, ask: Mapping[str, object]) -> dict[str, Any]:
        with self._turn:
            self._await_start()
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(ask) + "\n")
            self.process.stdin.flush()
            return self._read()

    def _await_start(self) -> None:
        if not self.version:
            self.version = self._read()["version"]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver of {self.client.name} ended; see its standard error above"
        told: dict[str, Any] = json.loads(line)
        return told

    def started_version(self) -> str:
        with self._turn:
            self._await_start()
        return self.version

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def installed(*arguments: str) -> Path:
    checked = subprocess.run(  # noqa: S603 - our own script
        [_SETUP, "--check", *arguments], capture_output=True, text=True, check=False
    )
    if checked.returncode != 0:
        pytest.fail(checked.stderr.strip(), pytrace=False)
    return Path(checked.stdout.strip())


def _environment(home: Path) -> dict[str, str]:
    """Nothing of the machine's own keys, proxies and settings reaches a library."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**inherited, "INTEROP_NODE": str(home / "node"), "PYTHONDONTWRITEBYTECODE": "1"}


def _trouble(raised: Mapping[str, Any]) -> Trouble:
    code = raised.get("code")
    return Trouble(
        raised["class"],
        raised.get("status"),
        None if code is None else str(code),
        raised.get("message", ""),
        raised.get("request_id"),
        tuple(raised.get("family", ())),
        raised.get("retryable"),
    )
