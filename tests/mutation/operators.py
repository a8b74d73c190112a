"""What is changed in a piece of code to see whether a test notices. One small change a mutant.

    a < b     <=, and so on for > >= ; == and !=, is and is not, in and not in change places
    a and b   a or b, a alone, b alone; the same for or      not a     a
    a + b     a - b, a * b / b, a // b / b                    -a        a
    x += y    x -= y, and so on                               x if c else y     x; y
    if c      if True; if False                               while c   while False
    min any   max, all; the same backwards; ceil and floor
    7  0.5    8, 1.5         True  False         "text"       "text" and something
    math.inf  0.0
    statement that is a call, sets an attribute or an item, raises, deletes, continues: left out
    return x  return None

Annotations, docstrings, decorators, `__slots__` and what only type checkers read stay as they are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Div,
    ast.Pow: ast.Mult,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor"}
OPPOSITES["floor"] = "ceil"


def mutations_of(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of a node; its children are mutated by themselves."""
    for kind, mutate in _MUTATORS.items():
        if isinstance(node, kind):
            yield from mutate(node)


def _comparison(node: ast.Compare) -> Iterator[ast.AST]:
    for index, operator in enumerate(node.ops):
        other = COMPARISONS[type(operator)]()
        changed = [*node.ops[:index], other, *node.ops[index + 1 :]]
        yield ast.Compare(node.left, changed, node.comparators)


def _logic(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for index in range(len(node.values)):
        rest = [*node.values[:index], *node.values[index + 1 :]]
        yield ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0]


def _sum(node: ast.BinOp) -> Iterator[ast.AST]:
    if type(node.op) in ARITHMETIC:
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)


def _sign(node: ast.UnaryOp) -> Iterator[ast.AST]:
    yield node.operand


def _choice(node: ast.IfExp) -> Iterator[ast.AST]:
    yield node.body
    yield node.orelse


def _literal(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str):
        yield ast.Constant(f"{value} and something")


def _call(node: ast.Call) -> Iterator[ast.AST]:
    function = node.func
    if isinstance(function, ast.Name) and function.id in OPPOSITES:
        yield ast.Call(ast.Name(OPPOSITES[function.id], ast.Load()), node.args, node.keywords)
    elif isinstance(function, ast.Attribute) and function.attr in OPPOSITES:
        other = ast.Attribute(function.value, OPPOSITES[function.attr], ast.Load())
        yield ast.Call(other, node.args, node.keywords)


def _attribute(node: ast.Attribute) -> Iterator[ast.AST]:
    if node.attr == "inf":
        yield ast.Constant(0.0)


def _branch(node: ast.If) -> Iterator[ast.AST]:
    yield ast.If(ast.Constant(value=True), node.body, node.orelse)
    yield ast.If(ast.Constant(value=False), node.body, node.orelse)


def _loop(node: ast.While) -> Iterator[ast.AST]:
    yield ast.While(ast.Constant(value=False), node.body, node.orelse)


def _update(node: ast.AugAssign) -> Iterator[ast.AST]:
    if type(node.op) in ARITHMETIC:
        yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)
    yield ast.Pass()


def _assignment(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.AST]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if node.value is not None and isinstance(targets[0], ast.Attribute | ast.Subscript):
        yield ast.Pass()


def _statement(node: ast.Expr) -> Iterator[ast.AST]:
    if isinstance(node.value, ast.Call | ast.Await | ast.Yield):
        yield ast.Pass()


def _deletion(node: ast.Delete) -> Iterator[ast.AST]:
    if not isinstance(node.targets[0], ast.Name):  # a name is deleted to say that it is not used
        yield ast.Pass()


def _left_out(_: ast.AST) -> Iterator[ast.AST]:
    yield ast.Pass()


def _answer(node: ast.Return) -> Iterator[ast.AST]:
    if not isinstance(node.value, ast.Constant | None):  # those are changed by themselves
        yield ast.Return(ast.Constant(None))


_MUTATORS: dict[type[ast.AST] | tuple[type[ast.AST], ...], Callable[..., Iterator[ast.AST]]] = {
    ast.Compare: _comparison,
    ast.BoolOp: _logic,
    ast.BinOp: _sum,
    ast.UnaryOp: _sign,
    ast.IfExp: _choice,
    ast.Constant: _literal,
    ast.Call: _call,
    ast.Attribute: _attribute,
    ast.If: _branch,
    ast.While: _loop,
    ast.AugAssign: _update,
    (ast.Assign, ast.AnnAssign): _assignment,
    ast.Expr: _statement,
    ast.Delete: _deletion,
    (ast.Raise, ast.Continue): _left_out,
    ast.Return: _answer,
}
