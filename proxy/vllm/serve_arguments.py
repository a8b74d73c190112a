"""The arguments of `vllm serve`, as far as a gateway in front of it has to know them.

vLLM's parser takes `--max-num-seqs 64`, `--max-num-seqs=64` and `--max_num_seqs 64`; of several the
last one counts, and all of them beat the file that `--config` names. Source: vLLM 0.32,
utils/argparse_utils.py and entrypoints/openai/cli_args.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Written out in front of the arguments by whoever pastes a whole command.
_HEADS = (("vllm", "serve"), ("serve",))
_SHORT = {"-dp": "data-parallel-size"}
_OWN_ADDRESS = ("host", "port")
# A gateway on the same machine reaches the engine over plain HTTP on a loopback port.
_OUT_OF_REACH = {
    "uds": "the engine would listen on a Unix socket, which the gateway cannot reach",
    "ssl-keyfile": "the engine would speak TLS to the gateway on its own machine; let what stands "
    "in front of the gateway do that",
    "headless": "an engine without an API server answers no requests",
}
_CONFIG_LINE = re.compile(r"^['\"]?([A-Za-z][\w-]*)['\"]?\s*:\s*['\"]?([^'\"#\s]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ServeArguments:
    """`words` as they were given; `configured` is what the file of --config says, by option."""

    words: tuple[str, ...]
    configured: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, words: tuple[str, ...]) -> ServeArguments:
        """Without the `vllm serve` that may stand in front."""
        for head in _HEADS:
            if words[: len(head)] == head:
                return cls(words[len(head) :])
        return cls(words)

    def value(self, option: str) -> str | None:
        """What was said of it last; "" where it stands without a value."""
        said = [value for name, value, _ in self._options() if name == option]
        return said[-1] if said else self.configured.get(option)

    def number(self, option: str) -> int | None:
        """Raises ValueError, with one line, for what is no positive whole number."""
        text = self.value(option)
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
            raise ValueError(f"--{option} {text}: must be a whole number of at least 1")
        return int(text)

    @property
    def engines(self) -> int:
        """Data-parallel ranks behind the one address: each runs --max-num-seqs of its own."""
        return self.number("data-parallel-size") or 1

    def problems(self) -> list[str]:
        """Why no gateway could stand in front of such an engine, one line each."""
        return [
            f"--{option}: {why}"
            for option, why in _OUT_OF_REACH.items()
            if self.value(option) is not None
        ]

    def at(self, port: int, max_num_seqs: int) -> tuple[str, ...]:
        """For an engine on this port of the loopback interface alone. `max_num_seqs` is said where
        the arguments do not: the gateway's limit rests on it."""
        own = {at for name, _, taken in self._options() if name in _OWN_ADDRESS for at in taken}
        kept = [word for at, word in enumerate(self.words) if at not in own]
        if self.value("max-num-seqs") is None:
            kept += ["--max-num-seqs", str(max_num_seqs)]
        return (*kept, "--host", "127.0.0.1", "--port", str(port))

    def _options(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Name, value and the places of the words of each option, in their order."""
        found = []
        for at, word in enumerate(self.words):
            written, has_value, value = word.partition("=")
            name = _SHORT.get(written)
            if written.startswith("--"):
                name = written[2:].replace("_", "-")
            if not name:
                continue
            taken: tuple[int, ...] = (at,)
            follows = self.words[at + 1 : at + 2]
            if not has_value and follows and not follows[0].startswith("-"):
                value, taken = follows[0], (at, at + 1)
            found.append((name, value, taken))
        return found


def flat_values(text: str) -> dict[str, str]:
    """The plain `option: value` lines of the YAML file that --config takes; all of it that a
    gateway asks for is written so."""
    return {name.replace("_", "-"): value for name, value in _CONFIG_LINE.findall(text)}
