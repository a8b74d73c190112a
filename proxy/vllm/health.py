"""What an answer to a health check, or its absence, says about the engine. Pure rules.

A busy engine is slow to answer and must not be taken for a dead one: only what a dead engine does
counts against it. vLLM's /health is 503 when its engine is dead and 200 else; other engines may not
have the route at all, and answer all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.vllm.probe import Answer, Fault, NoAnswer

_UNAUTHORIZED = (401, 403)
_ENGINE_DEAD = 503
# One broken answer can be chance, such as a proxy in between that restarts.
_BROKEN_IN_A_ROW = 2


@dataclass(frozen=True, slots=True)
class Health:
    """`up` is None until the engine has shown either. `key_refused`: it is up, but our key is not
    good. `broken` counts broken answers in a row. `reason` is the latest finding, in words."""

    up: bool | None = None
    key_refused: bool = False
    reason: str = "not asked yet"
    broken: int = 0


def judge_health(before: Health, answer: Answer | NoAnswer, has_key: bool) -> Health:
    """What is known after this answer to GET /health."""
    if isinstance(answer, NoAnswer):
        return _without_answer(before, answer)
    reason = _in_words("/health", answer)
    if answer.status == _ENGINE_DEAD:
        return Health(up=False, reason=reason)
    if has_key and answer.status in _UNAUTHORIZED:
        return _key_refused(reason)
    # A key that was refused elsewhere stays refused until it is accepted there.
    if before.up and before.key_refused:
        return Health(up=True, key_refused=True, reason=before.reason)
    return Health(up=True, reason=reason)


def accepted(answer: Answer | NoAnswer) -> bool:
    """Whether /health was answered by an engine that is up and does not mind our key."""
    return isinstance(answer, Answer) and answer.status not in (*_UNAUTHORIZED, _ENGINE_DEAD)


def judge_key(before: Health, answer: Answer | NoAnswer) -> Health:
    """What is known after this answer to GET /v1/models, which vLLM guards, unlike /health.

    403 says nothing of the key: a good one may still not be allowed to list models.
    """
    if isinstance(answer, NoAnswer):
        return before
    reason = _in_words("/v1/models", answer)
    if answer.status == 401:
        return _key_refused(reason)
    return Health(up=True, reason=reason) if before.key_refused else before


def _in_words(path: str, answer: Answer) -> str:
    """That Sluice answered matters more than its status: an engine's place is taken."""
    by_whom = " from a Sluice gateway, no engine" if answer.from_sluice else ""
    return f"GET {path} answers {answer.status}{by_whom}"


def _key_refused(reason: str) -> Health:
    return Health(up=True, key_refused=True, reason=f"{reason}: check SLUICE_UPSTREAM_API_KEY")


def _without_answer(before: Health, answer: NoAnswer) -> Health:
    if answer.fault is Fault.ABSENT:
        return Health(up=False, reason=answer.reason)
    if answer.fault in (Fault.SILENT, Fault.UNCLEAR):
        return Health(before.up, before.key_refused, answer.reason)
    broken = before.broken + 1
    up = False if broken >= _BROKEN_IN_A_ROW else before.up
    return Health(up, before.key_refused, answer.reason, broken)
