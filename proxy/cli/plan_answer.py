"""What `sluice plan` does once it is told what to plan, and its exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proxy.cli.plan_inputs import read_request, read_traffic
from proxy.cli.plan_objects import plan_object, running_object
from proxy.cli.plan_pages import print_plan, print_running
from proxy.vllm.launch_plan.compose_file import FIRST_WORDS, compose_file
from proxy.vllm.launch_plan.limit_fit import judge_limit
from proxy.vllm.launch_plan.plan import make_plan
from proxy.vllm.launch_plan.problem import NotModelledError, PlanError
from proxy.vllm.launch_plan.remedies import remedies
from proxy.vllm.launch_plan.running_engine import judge_fit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.vllm.launch_plan.limit_fit import LimitFit
    from proxy.vllm.launch_plan.plan import LaunchPlan

_FITS, _BAD_INPUT, _DOES_NOT_FIT, _NOT_KNOWN = 0, 2, 3, 4
_PRINTED = "-"


def answer(given: Mapping[str, Any]) -> int:
    """`given`: the options by name, as click read them."""
    try:
        return _judge_running(given) if given["source"] else _plan_launch(given)
    except PlanError as error:
        return _refuse(error, given["as_json"])


def _refuse(error: PlanError, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"fits": None, "error": str(error)}, indent=2))
    else:
        click.echo(f"error: {error}", err=True)
    return _NOT_KNOWN if isinstance(error, NotModelledError) else _BAD_INPUT


def _plan_launch(given: Mapping[str, Any]) -> int:
    made = make_plan(read_request(given))
    limit = None
    if made.fits and given["max_in_flight"] is not None:
        limit = judge_limit(made, given["max_in_flight"])
    compose = _compose(made, given["compose"])
    if given["as_json"]:
        cures = () if made.fits else remedies(made)
        click.echo(json.dumps(plan_object(made, cures, limit, compose), indent=2))
    elif compose is not None:
        click.echo(compose, nl=False)
        if limit is not None:
            click.echo(f"note: {limit.said}", err=True)
    else:
        _print(made, limit, given)
    return _FITS if made.fits and (limit is None or limit.fits) else _DOES_NOT_FIT


def _print(made: LaunchPlan, limit: LimitFit | None, given: Mapping[str, Any]) -> None:
    cures = () if made.fits else remedies(made)
    spare = max(0, (given["gpus"] or 0) - made.request.placement.cards)
    print_plan(made, cures, explain=given["explain"], spare=spare, limit=limit)


def _compose(made: LaunchPlan, target: str | None) -> str | None:
    """The file's text where it is to be printed; else it is written to its place, if to any."""
    if not made.fits or target is None:
        return None
    text = compose_file(made)
    if target != _PRINTED:
        _write(text, target)
    _note_on_model(made.request.model)
    return text if target == _PRINTED else None


def _write(text: str, target: str) -> None:
    try:
        if not _is_ours(Path(target)):
            raise PlanError(f"--compose {target}: there is another file, which is left as it is")
        Path(target).write_text(text)
    except OSError as error:
        raise PlanError(f"--compose {target}: {error.strerror or error}") from None


def _note_on_model(model: str) -> None:
    if model == "MODEL" or Path(model).exists():
        click.echo(
            f"note: a container finds no model at {model!r}: name it as on Hugging Face with "
            "--model-name, or mount its folder there",
            err=True,
        )


def _is_ours(path: Path) -> bool:
    """A compose file of an earlier plan, a new one, or a device: anything else took work."""
    if path.exists() and not path.is_file():
        return True
    try:
        with path.open("rb") as opened:
            first = opened.read(len(FIRST_WORDS))
    except FileNotFoundError:
        return True
    return first in (b"", FIRST_WORDS.encode())


def _judge_running(given: Mapping[str, Any]) -> int:
    # It takes an HTTP client, which a plan from a file does not.
    from proxy.cli.plan_running import read_running  # noqa: PLC0415

    if given["model"] is not None:
        raise PlanError("--from and a model exclude each other")
    engine = read_running(given["source"], os.environ.get("SLUICE_UPSTREAM_API_KEY"))
    fit = judge_fit(engine, given["max_in_flight"], given["headroom"], read_traffic(given))
    if given["as_json"]:
        click.echo(json.dumps(running_object(engine, fit), indent=2))
    else:
        print_running(engine, fit)
    return {True: _FITS, False: _DOES_NOT_FIT, None: _NOT_KNOWN}[fit.fits]
