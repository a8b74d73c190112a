"""Numbers on the command line, as settings and headers may have them: what only Python takes for a
number (`1_0` for 10, digits of other scripts, `nan`) is refused as any other word is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from proxy.env_values.plain_numbers import is_read_as_more

if TYPE_CHECKING:
    from click import Context, Parameter


class _PlainlyWritten(click.ParamType[Any]):
    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:  # noqa: ANN401 - as click has it
        if isinstance(value, str) and is_read_as_more(value):
            self.fail(f"{value!r} is not a valid {self.name}.", param, ctx)
        return super().convert(value, param, ctx)


class _Whole(_PlainlyWritten, type(click.INT)):  # type: ignore[misc]  # click names it nowhere else
    """Any."""


class _Number(_PlainlyWritten, type(click.FLOAT)):  # type: ignore[misc]  # as above
    """Any that is finite."""


class WholeRange(_PlainlyWritten, click.IntRange):
    """click's."""


class NumberRange(_PlainlyWritten, click.FloatRange):
    """click's."""


WHOLE: Final = _Whole()
NUMBER: Final = _Number()
