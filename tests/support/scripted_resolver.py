"""A name server whose answers a test writes.

resolver = ScriptedResolver(vllm=["10.0.0.1"])
resolver.answers["vllm"] = OSError("nobody answers")
"""

from __future__ import annotations

import asyncio


class ScriptedResolver:
    """`answers` by host: addresses, an error to raise, or None for no answer ever. `asked` lists
    the hosts that were looked up."""

    def __init__(self, **answers: list[str] | OSError | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def addresses(self, host: str) -> list[str]:
        self.asked.append(host)
        answer = self.answers[host]
        if answer is None:
            await asyncio.Event().wait()
        if isinstance(answer, OSError):
            raise answer
        return list(answer or [])
