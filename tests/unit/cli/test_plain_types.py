from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest

from proxy.cli.main import sluice
from proxy.cli.plain_types import NUMBER, WHOLE, NumberRange, WholeRange

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize("kind", [WHOLE, NUMBER, WholeRange(0, 99), NumberRange(0, 99)])
@pytest.mark.parametrize("written", ["1_0", "+5", "١٠", "nan", "inf", "5\u00a0"])
def test_what_only_python_takes_for_a_number_is_refused(
    kind: click.ParamType[Any], written: str
) -> None:
    with pytest.raises(click.BadParameter, match="is not a valid"):
        kind.convert(written, None, None)


@pytest.mark.parametrize("kind", [WHOLE, NUMBER, WholeRange(0, 99), NumberRange(0, 99)])
def test_a_number_is_read_as_ever(kind: click.ParamType[Any]) -> None:
    assert kind.convert("10", None, None) == 10
    assert kind.convert(7, None, None) == 7
    with pytest.raises(click.BadParameter, match="is not a valid"):
        kind.convert("ten", None, None)


def _number_options(
    command: click.Command, path: str
) -> Iterator[tuple[str, click.ParamType[Any]]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _number_options(inner, f"{path} {name}")
    for param in command.params:
        for kind in param.type.types if isinstance(param.type, click.Tuple) else [param.type]:
            if isinstance(kind, (type(click.INT), type(click.FLOAT))):
                yield f"{path} {param.opts[0]}", kind


def test_no_option_of_any_command_takes_more() -> None:
    options = list(_number_options(sluice, "sluice"))
    assert len(options) > 40
    plain = (type(WHOLE), type(NUMBER), WholeRange, NumberRange)
    assert [name for name, kind in options if not isinstance(kind, plain)] == []
