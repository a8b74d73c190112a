"""`curl`, as in a script: it fails on an error status, and retries if told to."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

from lines import Ask, messages, serve

_VERSION = re.compile(r"curl (\S+)")


class CurlError(Exception):
    """`curl` ended with this exit code."""

    def __init__(self, exit_code: int, status: int, body: str) -> None:
        super().__init__(body)
        self.exit_code = exit_code
        self.status_code = status


def curl(ask: Ask, path: str, body: dict[str, Any] | None = None) -> str:
    data = ("--json", "@-") if body else ()
    retries = ("--retry", str(2 if ask.max_retries is None else ask.max_retries))
    limit = ("--max-time", str(ask.timeout)) if ask.timeout else ()
    ended = subprocess.run(  # noqa: S603 - a test's own command
        [
            *("curl", "-sS", "-N", "--noproxy", "*", "--fail-with-body", *retries, *limit, *data),
            *("-H", f"Authorization: Bearer {ask.api_key}", "-w", "\n%{http_code}"),
            f"{ask.base_url}/v1/{path}",
        ],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        check=False,
    )
    said, _, status = ended.stdout.rpartition("\n")
    if ended.returncode:
        raise CurlError(ended.returncode, int(status or 0), said)
    return said


def body(ask: Ask, **more: object) -> dict[str, Any]:
    return {"model": ask.model, "max_tokens": ask.max_tokens, **more}


def read(answer: str) -> dict[str, object]:
    told = json.loads(answer)
    return {
        "texts": [
            c["message"]["content"] if "message" in c else c["text"] for c in told["choices"]
        ],
        "finish": told["choices"][0]["finish_reason"],
        "tokens": told["usage"]["completion_tokens"],
    }


def chat(ask: Ask, **more: object) -> dict[str, object]:
    asked = body(ask, messages=messages(ask), **more)
    return read(curl(ask, "chat/completions", asked))


def stream(ask: Ask) -> dict[str, object]:
    asked = body(ask, messages=messages(ask), stream=True)
    lines = [line for line in curl(ask, "chat/completions", asked).splitlines() if line]
    assert lines[-1] == "data: [DONE]", lines[-1]
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines[:-1]]
    return {
        "texts": ["".join(choice["delta"].get("content") or "" for choice in choices)],
        "finish": choices[-1]["finish_reason"],
        "pieces": len(choices),
    }


def completion(ask: Ask) -> dict[str, object]:
    return read(curl(ask, "completions", body(ask, prompt=["one", "two"])))


def embeddings(ask: Ask) -> list[int]:
    inputs = [f"text {number}" for number in range(ask.count)]
    told = json.loads(curl(ask, "embeddings", {"model": ask.model, "input": inputs}))
    return [len(item["embedding"]) for item in told["data"]]


def models(ask: Ask) -> list[str]:
    return [model["id"] for model in json.loads(curl(ask, "models"))["data"]]


def describe(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, CurlError):
        return {"class": type(error).__name__, "status": None, "code": None, "message": str(error)}
    # With --retry it puts out the body of each attempt, one behind the other.
    start = str(error).rfind('{"error"')
    told = json.JSONDecoder().raw_decode(str(error)[start:])[0]["error"] if start >= 0 else {}
    return {
        "class": f"exit code {error.exit_code}",
        "family": [],
        "status": error.status_code or None,
        "code": told.get("code"),
        "message": told.get("message", ""),
        "request_id": None,
    }


def version() -> str:
    said = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)  # noqa: S607 - whichever is installed
    found = _VERSION.match(said.stdout)
    assert found, said.stdout
    return found[1]


if __name__ == "__main__":
    serve(
        version(),
        {
            "chat": chat,
            "n": lambda ask: chat(ask, n=2),
            "stream": stream,
            "completion": completion,
            "embeddings": embeddings,
            "models": models,
        },
        describe,
    )
