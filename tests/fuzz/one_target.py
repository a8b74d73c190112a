"""One fuzz test for some time, in a process of its own: see __main__.

python -m tests.fuzz.one_target MODULE:TEST atheris|hypothesis SECONDS CORPUS
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_HERE = Path(__file__).parent
# What one example may take: a reader that goes over its input again and again.
_SLOWEST_EXAMPLE_S = 20


def names_of_targets() -> list[str]:
    """All tests of this folder whose arguments Hypothesis makes."""
    return [f"{stem}:{name}" for stem in _stems() for name in _targets(_module(stem))]


def _stems() -> list[str]:
    return sorted(path.stem for path in _HERE.glob("test_*.py"))


def _module(stem: str) -> Any:  # noqa: ANN401 - any of them
    return importlib.import_module(f"tests.fuzz.{stem}")


def _targets(module: Any) -> Iterator[str]:  # noqa: ANN401 - any of them
    for name, value in vars(module).items():
        if name.startswith("test_") and hasattr(value, "hypothesis"):
            yield name


class Count:
    """Of a test's examples, with the arguments of the last one."""

    def __init__(self) -> None:
        self.examples = 0
        self.last: object = None
        self.slowest_s = 0.0

    def of(self, test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(*arguments: object, **named: object) -> None:
            self.examples += 1
            self.last = named or arguments
            start = time.monotonic()
            test(*arguments, **named)
            self.slowest_s = max(self.slowest_s, time.monotonic() - start)
            assert self.slowest_s < _SLOWEST_EXAMPLE_S, "this takes ages"

        return counted

    def report(self) -> None:
        sys.stdout.write(f"examples: {self.examples}, slowest {self.slowest_s * 1000:.0f} ms\n")
        sys.stdout.flush()


def main(name: str, engine: str, seconds: str, corpus: str) -> None:
    stem, _, test_name = name.partition(":")
    os.environ["SLUICE_TEST_FUZZ_EXAMPLES"] = "1000"
    if engine == "atheris":
        _with_atheris(stem, test_name, int(seconds), corpus)
    else:
        _with_hypothesis(stem, test_name, int(seconds))


def _counted(stem: str, test_name: str) -> tuple[Any, Count]:
    test = getattr(_module(stem), test_name)
    count = Count()
    test.hypothesis.inner_test = count.of(test.hypothesis.inner_test)
    return test, count


def _with_hypothesis(stem: str, test_name: str, seconds: int) -> None:
    """A thousand examples and another thousand, of another seed each time."""
    test, count = _counted(stem, test_name)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        test()
    count.report()


def _with_atheris(stem: str, test_name: str, seconds: int, corpus: str) -> None:
    import atheris  # noqa: PLC0415 - may not be there

    with atheris.instrument_imports(include=["proxy"]):
        test, count = _counted(stem, test_name)

    def one(data: bytes) -> None:
        try:
            test.hypothesis.fuzz_one_input(data)
        except BaseException:
            sys.stdout.write(f"found with {count.last!r}\n")
            raise
        if time.monotonic() > end:
            count.report()
            os._exit(0)  # any other end libFuzzer takes for a finding

    # Short inputs make no whole example, so long ones are tried from the beginning.
    limits = ["-max_len=4096", "-len_control=0", f"-timeout={_SLOWEST_EXAMPLE_S}"]
    end = time.monotonic() + seconds
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={corpus}.", corpus], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
