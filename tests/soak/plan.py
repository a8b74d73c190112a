"""How large a soak is."""

from __future__ import annotations

from dataclasses import dataclass

ENGINES = 2


@dataclass(frozen=True)
class Plan:
    """`limit`: seats in each of the engines; `places`: in the queue. Times in seconds."""

    seconds: float = 1800.0
    connections: int = 2_000
    limit: int = 48
    places: int = 128
    bad_share: float = 0.2
    pause_s: tuple[float, float] = (2.0, 12.0)
    troubles_last_s: tuple[float, float] = (1.0, 8.0)
    troubles_pause_s: tuple[float, float] = (4.0, 16.0)
    margin_s: float = 3.0
    rehearsal_s: float = 4.0
    step_ms: int = 40
    has_collector: bool = True
    seed: int = 8

    @property
    def settings(self) -> dict[str, object]:
        """Short times, so that whatever is waited for is over while the soak lasts."""
        return {
            "max_in_flight": self.limit,
            "max_queue_depth": self.places,
            "queue_timeout": 2,
            # Also for the first request of a connection to begin: longer than a client's pause,
            # or it would send in the very moment in which the gateway gives it up.
            "body_timeout": self.pause_s[1] + self.margin_s,
            "write_timeout": 3,
            "first_byte_timeout": 6,
            "idle_timeout": 3,
            "total_timeout": 30,
            "log_level": "warning",
        }

    @property
    def engine_arguments(self) -> tuple[str, ...]:
        """Steps are long and prompts cheap: it is the gateway that is to be kept busy."""
        return (
            *("--max-num-seqs", str(self.limit + 16), "--step-ms", f"{self.step_ms}"),
            *("--decode-sequence-us", "0", "--prefill-token-us", "0.2"),
            *("--max-model-len", "262144", "--max-num-batched-tokens", "262144"),
            *("--keep-alive-on-engine-death", "--enable-server-load-tracking"),
        )


# The same in little, for CI. Everything happens, but memory cannot be judged.
SHORT = Plan(
    seconds=8.0,
    connections=300,
    limit=12,
    places=32,
    pause_s=(0.5, 2.0),
    margin_s=1.0,
    step_ms=15,
    has_collector=False,
    troubles_last_s=(0.2, 0.6),
    troubles_pause_s=(0.3, 0.8),
    rehearsal_s=1.5,
)
