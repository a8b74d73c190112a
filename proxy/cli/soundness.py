"""Judges settings against the engines and the machine they are to run on. Pure.

Which limit binds first, and which are set to no effect, is said in proxy/vllm/binding_limit.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.cli.engine_differences import engine_differences
from proxy.effective_limits import effective_limits
from proxy.env_values.key_digest import SHORTEST_SOUND_KEY
from proxy.vllm.binding_limit import (
    KV_BLOCK_TOKENS,
    BindingLimit,
    Limits,
    binding_limit,
    limit_warnings,
)
from proxy.vllm.served_models import longest_model_len

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.settings import Settings
    from proxy.vllm.inspection import EngineReport

# Descriptors besides those of requests: listeners, log and trace files, the event loop's own; and
# the connection over which each engine's health is asked for.
SPARE_DESCRIPTORS = 63
# A body may be held by a place while as many others are being uploaded.
_BODIES_PER_PLACE = 2
_NO_ENGINE = ("SLUICE_UPSTREAMS_FILE names no engine: every request is refused until it does",)
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process may use. None: without limit, or unknown."""

    max_open_files: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A problem makes the set-up unsound; a warning is worth a look. One line each.

    `binding_limits`: which limit binds first in each engine, by URL.
    """

    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    binding_limits: Mapping[str, BindingLimit]

    @property
    def sound(self) -> bool:
        return not self.problems

    @property
    def binding_limit(self) -> BindingLimit | None:
        """Of the first engine in which it is not the seats, if there is one; else of the first."""
        limits = sorted(self.binding_limits.values(), key=lambda one: one.which == "max_in_flight")
        return limits[0] if limits else None


def judge(settings: Settings, engines: Mapping[str, EngineReport], machine: Machine) -> Verdict:
    """`engines` by URL."""
    limits = {url: limits_of(settings, report) for url, report in engines.items()}
    where = "" if len(engines) > 1 else f" at {''.join(engines)}"
    problems = {url: tuple(_problems(settings, report, where)) for url, report in engines.items()}
    warnings = {
        url: (*_engine_warnings(settings, report), *limit_warnings(limits[url]))
        for url, report in engines.items()
    }
    return Verdict(
        problems=tuple(_told(problems, always_named=True)) if engines else _NO_ENGINE,
        warnings=(
            *_told(warnings),
            *engine_differences(engines),
            *_machine_warnings(settings, machine, len(engines)),
            *_setting_warnings(settings),
        ),
        binding_limits={url: binding_limit(one) for url, one in limits.items()},
    )


def _told(found: Mapping[str, tuple[str, ...]], *, always_named: bool = False) -> Iterator[str]:
    """What was found of each engine: once, and with the names of those that it is true of, unless
    that goes without saying."""
    for text in dict.fromkeys(text for texts in found.values() for text in texts):
        urls = [url for url, texts in found.items() if text in texts]
        is_plain = len(found) == 1 or (len(urls) == len(found) and not always_named)
        yield text if is_plain else f"{', '.join(urls)}: {text}"


def descriptors_needed(settings: Settings, engines: int) -> int:
    """A request that waits or runs holds its client's socket, a running one the engine's too."""
    seats, places = settings.max_in_flight * engines, settings.places_in_all(engines)
    return 2 * seats + places + engines + SPARE_DESCRIPTORS


def model_length(engine: EngineReport) -> int | None:
    """Tokens of the longest request that any served model takes."""
    return longest_model_len(engine.models)


def limits_of(settings: Settings, engine: EngineReport) -> Limits:
    """Of one engine, from what is set and what it tells about itself."""
    return effective_limits(
        settings,
        kv_cache_tokens=engine.kv_cache_tokens,
        model_len=model_length(engine),
        max_concurrency=engine.max_concurrency,
        engine_answers=engine.up,
    )


def _problems(settings: Settings, engine: EngineReport, where: str) -> Iterator[str]:
    if engine.is_sluice:
        yield (
            f"a Sluice gateway answers{where or ' there'}, this one by another name or a second "
            "one: name the engine itself"
        )
        return
    if not engine.up:
        yield f"the engine{where} is not up: {engine.reason}"
        return
    if engine.key_refused and settings.upstream_api_key:
        yield f"the engine does not accept SLUICE_UPSTREAM_API_KEY: {engine.reason}"
    elif engine.key_refused and settings.client_keys:
        yield (
            "the engine asks for a key and would get none: client keys end here, "
            "so SLUICE_UPSTREAM_API_KEY must be set"
        )
    if not engine.models and not engine.key_refused:
        yield "the engine names no model at /v1/models"
    seats, tokens = settings.max_in_flight, engine.kv_cache_tokens
    if tokens and tokens < seats * KV_BLOCK_TOKENS:
        yield (
            f"SLUICE_MAX_IN_FLIGHT={seats}: the KV cache has {tokens:,} tokens, "
            f"less than one block of {KV_BLOCK_TOKENS} for each seat"
        )


def _engine_warnings(settings: Settings, engine: EngineReport) -> Iterator[str]:
    if engine.up and engine.key_refused and not settings.upstream_api_key:
        yield "the engine asks for a key: clients must bring it, and it tells this check little"
    if settings.max_num_seqs is None:
        yield (
            "SLUICE_MAX_NUM_SEQS is not set: whether the limit is below the engine's "
            "--max-num-seqs cannot be checked, and the engine does not tell"
        )
    if engine.up and settings.max_kv_tokens == "auto" and not engine.kv_cache_tokens:
        yield (
            "SLUICE_MAX_KV_TOKENS=auto has no effect: the engine does not tell the size of its "
            "KV cache"
        )


def _machine_warnings(settings: Settings, machine: Machine, engines: int) -> Iterator[str]:
    needed = descriptors_needed(settings, engines)
    seats, places = settings.max_in_flight * engines, settings.places_in_all(engines)
    if machine.max_open_files is not None and machine.max_open_files < needed:
        yield (
            f"only {machine.max_open_files:,} open files are allowed and "
            f"{seats} seats with {places} waiting places "
            f"need {needed:,}: raise it with 'ulimit -n' or LimitNOFILE="
        )
    worst = _BODIES_PER_PLACE * (seats + places) * settings.max_body_bytes
    if machine.memory_bytes is not None and worst > machine.memory_bytes:
        yield (
            f"request bodies may take {worst / _GIB:.1f} GiB at worst and there are "
            f"{machine.memory_bytes / _GIB:.1f}: lower SLUICE_MAX_BODY_BYTES to what your clients "
            f"send, or SLUICE_MAX_QUEUE_DEPTH"
        )


def _setting_warnings(settings: Settings) -> Iterator[str]:
    if settings.shadow:
        yield "SLUICE_SHADOW=true: nothing is shed, the engine is not protected"
    if settings.max_queue_depth == 0 or settings.queue_timeout == 0:
        yield "no request ever waits: every one above the limit is refused at once"
    if settings.drain_timeout == 0:
        yield "SLUICE_DRAIN_TIMEOUT=0: a restart breaks every running request"
    if settings.total_timeout is not None and settings.total_timeout < settings.first_byte_timeout:
        yield "SLUICE_TOTAL_TIMEOUT is below SLUICE_FIRST_BYTE_TIMEOUT, which then has no effect"
    widest = settings.max_seats_per_request
    if widest is not None and widest > settings.max_in_flight:
        yield (
            f"SLUICE_MAX_SEATS_PER_REQUEST={widest} is above the limit of "
            f"{settings.max_in_flight} seats: such requests run alone, over the limit"
        )
    yield from _key_warnings(settings)


def _key_warnings(settings: Settings) -> Iterator[str]:
    if settings.upstream_api_key and not settings.client_keys:
        yield (
            "SLUICE_UPSTREAM_API_KEY is set and SLUICE_API_KEYS is not: "
            "whoever reaches this gateway uses the engine with its key"
        )
    short = [name for name, key in settings.client_keys.items() if key.is_short]
    if short:
        yield f"client keys shorter than {SHORTEST_SOUND_KEY} characters: {', '.join(short)}"
