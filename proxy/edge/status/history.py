"""What a gateway looked like in the last minutes, one sample a second."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proxy.admission.snapshot import AdmissionSnapshot
    from proxy.telemetry.totals import Totals

SAMPLE_EVERY_S = 1.0
_KEPT = 600
# A rate or a share of fewer seconds jumps about too much to be read.
_WINDOW = 60


@dataclass(frozen=True, slots=True)
class Sample:
    """One second. `arrivals`, `retries`, `shed` and `ok` happened in it."""

    in_flight: int
    limit: int
    queue_depth: int
    arrivals: int
    retries: int
    shed: int
    ok: int


class History:
    """Told a snapshot and the totals once a second; the oldest samples go."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._totals: deque[Totals] = deque(maxlen=_WINDOW + 1)

    def add(self, snapshot: AdmissionSnapshot, totals: Totals) -> None:
        before = self._totals[-1] if self._totals else totals
        self._totals.append(totals)
        self._samples.append(
            Sample(
                in_flight=snapshot.in_flight,
                limit=snapshot.limit,
                queue_depth=snapshot.queue_depth,
                arrivals=totals.arrivals - before.arrivals,
                retries=totals.retries - before.retries,
                shed=totals.shed - before.shed,
                ok=totals.ok - before.ok,
            )
        )

    def series(self) -> dict[str, Any]:
        """A list for each figure, the oldest first, all of one length."""
        columns = Sample.__dataclass_fields__
        rows = [asdict(sample) for sample in self._samples]
        return {
            "every_s": SAMPLE_EVERY_S,
            **{name: [row[name] for row in rows] for name in columns},
        }

    def last_minute(self) -> dict[str, Any]:
        """Means over the last minute, or as much of it as there is; None where nothing came."""
        if len(self._totals) < 2:
            return _NOTHING
        old, new = self._totals[0], self._totals[-1]
        seconds = (len(self._totals) - 1) * SAMPLE_EVERY_S
        arrivals = new.arrivals - old.arrivals
        first = arrivals - (new.retries - old.retries)
        return {
            "arrivals_per_s": arrivals / seconds,
            "ok_per_s": (new.ok - old.ok) / seconds,
            "shed_share": (new.shed - old.shed) / arrivals if arrivals else None,
            "tries_per_request": arrivals / first if first > 0 else None,
            "wait_p50_s": new.waits.quantile_since(old.waits, 0.5),
            "wait_p95_s": new.waits.quantile_since(old.waits, 0.95),
        }


_NOTHING: dict[str, Any] = {
    "arrivals_per_s": 0.0,
    "ok_per_s": 0.0,
    "shed_share": None,
    "tries_per_request": None,
    "wait_p50_s": None,
    "wait_p95_s": None,
}
