"""What `sluice plan` prints for people: the answer stands last, next to the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from proxy.vllm.launch_plan.explanation import assumptions, gib, misfit, steps, warnings
from proxy.vllm.launch_plan.launch_flags import launch_command, launch_flags

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy.vllm.launch_plan.limit_fit import LimitFit
    from proxy.vllm.launch_plan.plan import LaunchPlan
    from proxy.vllm.launch_plan.remedies import Remedy
    from proxy.vllm.launch_plan.running_engine import Fit, RunningEngine


def print_plan(
    plan: LaunchPlan,
    cures: Sequence[Remedy],
    *,
    explain: bool,
    spare: int,
    limit: LimitFit | None = None,
) -> None:
    """`spare`: cards that were given and are not used by one engine."""
    console = Console(highlight=False)
    console.print(_pairs(_memory(plan)))
    if explain:
        _print_steps(console, plan)
    if plan.fits:
        _print_launch(console, plan, explain=explain)
    noted = list(warnings(plan))
    if spare:
        noted.append(
            f"{spare} cards are left over: each group of {plan.request.placement.cards} can run "
            f"an engine of its own with the same flags"
        )
    console.print(_pairs([("warning", text) for text in noted]) if noted else "")
    _print_answer(console, plan, cures)
    if limit is not None:
        console.print(Text(limit.said, style="bold"), soft_wrap=True)


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name, "yellow" if name == "warning" else ""), Text(value))
    return table


def _memory(plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    request, budget, own = plan.request, plan.budget, plan.budget.overheads
    placed = request.placement
    low, high = budget.kv_range
    form = f", {request.form.name}" if request.form.name else ""
    fullest = ", the fullest" if placed.pipeline_parallel > 1 else ""
    yield "model", f"{request.model}: {request.shape.parameters / 1e9:.2f} B parameters{form}"
    yield "cards", f"{placed.cards} x {request.card.name}, {gib(budget.memory)} each"
    yield "usable", f"{gib(budget.usable)} of a card (utilization {budget.utilization:g})"
    yield "weights", f"{gib(max(budget.weights))} on a card{fullest}"
    yield "activations", f"{gib(own.activations)} (estimate)"
    yield "CUDA graphs, other", f"{gib(own.graphs)} + {gib(own.other)} (estimate)"
    yield (
        "KV cache",
        (
            f"{gib(min(budget.kv_memory))} on a card ({gib(low)} to {gib(high)}), "
            f"{max(plan.cache.layout.token_bytes):,} bytes a token"
        ),
    )
    if plan.fits:
        yield from _capacity(plan)


def _capacity(plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    cache, total, service = plan.cache, plan.request.traffic.total, plan.service
    yield (
        "tokens",
        f"{cache.tokens:,}: {cache.concurrency:.1f} requests of {cache.max_model_len:,} tokens",
    )
    yield (
        "sequences",
        (
            f"{cache.sequences_of(total.p50):,} of p50 ({total.p50:,} tokens), "
            f"{cache.sequences_of(total.p95):,} of p95 ({total.p95:,}); {plan.fitting:,} of this "
            f"traffic as it runs ({plan.held.tokens:,.0f} tokens on average)"
        ),
    )
    if service is not None:
        yield (
            "service time",
            (
                f"about {service.mean_s:.1f} s, {service.per_second:.1f} requests/s with "
                f"{service.sequences} at once"
            ),
        )


def _print_steps(console: Console, plan: LaunchPlan) -> None:
    for step in steps(plan):
        console.print()
        console.print(Text(step.what, style="bold"))
        console.print(Text(f"  {step.formula}"), soft_wrap=True)
        console.print(Text(f"  {step.numbers}"), soft_wrap=True)


def _print_launch(console: Console, plan: LaunchPlan, *, explain: bool) -> None:
    if explain:
        console.print()
        console.print(_pairs((" ".join(flag.words), flag.why) for flag in launch_flags(plan)))
    click.echo(f"\n{launch_command(plan)}\n")
    for name, value in plan.limits.environment().items():
        click.echo(f"{name}={value}")
    click.echo()
    if explain:
        console.print(_pairs(("assumed", text) for text in assumptions(plan)))


def _print_answer(console: Console, plan: LaunchPlan, cures: Sequence[Remedy]) -> None:
    if plan.fits:
        answer = (
            f"fits: {plan.limits.max_in_flight} seats below --max-num-seqs {plan.max_num_seqs}, "
            f"KV cache of {plan.cache.tokens:,} tokens"
        )
        console.print(Text(answer + (", tightly" if plan.tight else ""), style="bold"))
        return
    if cures:
        console.print(Text("any one of these makes it fit:"))
        console.print(
            _pairs(
                (each.flags, f"{each.costs}; KV cache of {each.kv_tokens:,} tokens")
                for each in cures
            )
        )
    else:
        console.print(
            Text("no change that was tried makes it fit: larger cards, or a smaller model")
        )
    console.print(Text(misfit(plan), style="bold"), soft_wrap=True)


def print_running(engine: RunningEngine, fit: Fit) -> None:
    console = Console(highlight=False)
    console.print(_pairs(_engine(engine)))
    console.print()
    console.print(_pairs(("because", reason) for reason in fit.reasons))
    if fit.seats is not None:
        click.echo(f"\nSLUICE_MAX_IN_FLIGHT={fit.seats}")
    said = {
        True: f"SLUICE_MAX_IN_FLIGHT={fit.max_in_flight} fits",
        False: f"SLUICE_MAX_IN_FLIGHT={fit.max_in_flight} does NOT fit",
        None: "whether the limit fits cannot be said",
    }[fit.fits]
    console.print(Text(said, style="bold"))


def _engine(engine: RunningEngine) -> list[tuple[str, str]]:
    full = engine.full_length
    rows = [
        ("engine", engine.source),
        ("version", engine.version),
        ("model", engine.model),
        ("weights", gib(engine.model_bytes) if engine.model_bytes else None),
        ("KV cache", f"{engine.kv_tokens:,} tokens" if engine.kv_tokens else None),
        ("KV memory", gib(engine.kv_bytes) if engine.kv_bytes else None),
        ("CUDA graphs", gib(engine.graph_bytes) if engine.graph_bytes else None),
        ("model length", f"{engine.max_model_len:,} tokens" if engine.max_model_len else None),
        ("of full length", f"{full:,.2f} requests at once" if full else None),
        ("max_num_seqs", str(engine.max_num_seqs) if engine.max_num_seqs else None),
        ("flags", ", ".join(f"{k}={v}" for k, v in engine.flags.items()) or None),
    ]
    return [(name, value if value is not None else "not told") for name, value in rows]
