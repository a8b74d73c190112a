"""What a soak has shown: whether it passed, a short table, and all of it as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.soak.census import BLOCKS, KNOTTED, SPARE, growth, left_behind
from tests.soak.memory import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.soak.memory import Judgement
    from tests.soak.soak import Look, Result

_MOST_SHOWN = 12


def failures(result: Result) -> list[str]:
    """In words, one line each; none if it passed."""
    found = [f"{count} times not: {what}" for what, count in result.invariants.broken.items()]
    found += [f"  {example}" for example in result.invariants.examples[:_MOST_SHOWN]]
    found += [
        f"{count} clients saw: {verdict[1:]}"
        for verdict, count in _counts(result, "verdicts").items()
        if verdict.startswith("!")
    ]
    if result.before is None or result.after is None:
        return [*found, "it did not come to its end"]
    found += _not_at_rest(result, result.before, result.after)
    found += _miscounted(result, result.before, result.after)
    found += [
        f"{one.name} grows by {one.a_request:.3g} a request, surely more than {one.floor:g}"
        for one in judgements(result)
        if one.is_noise is False
    ]
    if not result.troubles:
        found.append("no engine was in trouble: nothing is shown")
    if not result.least_held:
        found.append(f"{result.plan.connections} connections were never held at once")
    return found


def _not_at_rest(result: Result, before: Look, after: Look) -> list[str]:
    found = [result.not_idle] if result.not_idle else []
    if result.seats_are_wrong:
        found.append(f"seats: {result.seats_are_wrong}")
    if after.descriptors > before.descriptors:
        found.append(f"descriptors: {after.descriptors}, {before.descriptors} before")
    left = left_behind(before.census, after.census, SPARE)
    found += [f"left behind: {more} {name}" for name, more in _most_first(left)]
    return found


def _miscounted(result: Result, before: Look, after: Look) -> list[str]:
    """At rest every request that came has one outcome, and clients and gateway agree on how many
    came: all the good ones, and of the bad ones some."""
    found = []
    if after.sample.arrivals != after.sample.ended:
        found.append(f"{after.sample.arrivals:g} requests came, {after.sample.ended:g} ended")
    came = received(before, after)
    good, bad = result.told.get("good", 0), sum(_counts(result, "bad").values())
    assert isinstance(good, int)
    # Who sends two is counted once among the bad.
    if not good <= came <= good + 2 * bad:
        found.append(f"{came} requests came, of {good} good and {bad} bad clients")
    return found


def received(before: Look, after: Look) -> int:
    return int(after.sample.arrivals - before.sample.arrivals)


def judgements(result: Result) -> list[Judgement]:
    if result.before is None or result.after is None:
        return []
    return result.memory.judge(received(result.before, result.after) / result.seconds)


def table(result: Result) -> str:
    invariants, plan = result.invariants, result.plan
    rows = [
        ("seconds", f"{result.seconds:.0f}"),
        ("connections held", f"{plan.connections}, never fewer than {result.least_held}"),
        ("clients that did well", f"{result.told.get('good')}: {_listed(result, 'verdicts')}"),
        ("clients that did not", f"{bad_clients(result)}: {_listed(result, 'bad')}"),
        ("troubles of engines", ", ".join(f"{k} {n}" for k, n in sorted(result.troubles.items()))),
        ("samples", f"{invariants.samples} of the gateway, {invariants.engine_looks} of engines"),
        ("latest sample", f"{result.latest_look_s:.2f} s late"),
        ("most in flight", f"{invariants.most_in_flight:g} of {plan.limit} in one engine"),
        (
            "most in an engine",
            f"{invariants.most_in_engine}; {invariants.looks_above_limit} looks above {plan.limit}",
        ),
        ("most queued", f"{invariants.most_queued:g} of {plan.places}"),
        ("processor", f"{result.processor_s / max(result.seconds, 1e-9):.0%} of a core"),
    ]
    if result.before is not None and result.after is not None:
        rows += _rows_at_rest(result.before, result.after)
        rows += [(one.name, _in_words(one)) for one in judgements(result)]
    wide = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{wide}}  {value}" for name, value in rows)


def _rows_at_rest(before: Look, after: Look) -> list[tuple[str, str]]:
    outcomes = after.sample.outcomes() - before.sample.outcomes()
    grown = [
        (name, more)
        for name, more in _most_first(growth(before.census, after.census))
        if not name.startswith(KNOTTED)
    ][:_MOST_SHOWN]
    return [
        ("requests received", f"{received(before, after)}"),
        ("outcomes", ", ".join(f"{name} {n}" for name, n in outcomes.most_common())),
        ("descriptors at rest", f"{before.descriptors} before, {after.descriptors} after"),
        ("blocks at rest", f"{before.census[BLOCKS]} before, {after.census[BLOCKS]} after"),
        ("grown most", ", ".join(f"{name} {more}" for name, more in grown)),
    ]


def _in_words(one: Judgement) -> str:
    found = one.slope
    if found is None:
        return "too short to be judged"
    unit, by = ("MiB", MIB) if one.name != "blocks" else ("blocks", 1)
    hourly = [3600 * value / by for value in (found.per_s, found.low, found.high)]
    return (
        f"{found.first / by:,.1f} to {found.last / by:,.1f} {unit} in {found.over_s:.0f} s; "
        f"{hourly[0]:+,.2f} an hour ({hourly[1]:+,.2f} to {hourly[2]:+,.2f}), "
        f"{one.a_request:+.4f} a request: {'noise' if one.is_noise else 'A LEAK'}"
    )


def as_json(result: Result) -> dict[str, object]:
    invariants = result.invariants
    rest: dict[str, object] = {}
    if result.before is not None and result.after is not None:
        rest = {
            "received": received(result.before, result.after),
            "outcomes": result.after.sample.outcomes() - result.before.sample.outcomes(),
            "descriptors": [result.before.descriptors, result.after.descriptors],
            "blocks": [result.before.census[BLOCKS], result.after.census[BLOCKS]],
            "grown": growth(result.before.census, result.after.census),
        }
    return {
        "passed": not failures(result),
        "failures": failures(result),
        "seconds": result.seconds,
        "processor_s": result.processor_s,
        "connections": result.plan.connections,
        "least_held": result.least_held,
        "clients": result.told,
        "troubles": result.troubles,
        "samples": invariants.samples,
        "engine_looks": invariants.engine_looks,
        "most_in_flight": invariants.most_in_flight,
        "most_in_engine": invariants.most_in_engine,
        "looks_above_limit": invariants.looks_above_limit,
        "most_queued": invariants.most_queued,
        **rest,
        "memory": {
            one.name: {
                "per_hour": 3600 * one.slope.per_s,
                "low": 3600 * one.slope.low,
                "high": 3600 * one.slope.high,
                "a_request": one.a_request,
                "is_noise": one.is_noise,
            }
            for one in judgements(result)
            if one.slope is not None
        },
        "curve": {
            "rss": result.memory.rss,
            "uss": result.memory.uss,
            "blocks": result.memory.blocks,
        },
    }


def bad_clients(result: Result) -> int:
    return sum(_counts(result, "bad").values())


def _counts(result: Result, of: str) -> Mapping[str, int]:
    found = result.told.get(of, {})
    assert isinstance(found, dict)
    return found


def _listed(result: Result, of: str) -> str:
    return ", ".join(f"{name} {count}" for name, count in _most_first(_counts(result, of)))


def _most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: -pair[1])
