"""All mutants of one module: where, what, and the code of each."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.operators import mutations_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

ROOT = Path(__file__).parents[2]
ADMISSION = ROOT / "proxy" / "admission"

# Their head is what the change is called by: the rest of them stays.
_COMPOUND = (ast.If, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Step = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """`function` is the qualified name of the outermost function, empty outside of any. `change`
    names it in there, in words that stay when lines move. `steps` lead to the node."""

    module: str
    function: str
    change: str
    line: int
    steps: tuple[Step, ...]
    number: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function or 'module'}: {self.change}"

    @property
    def path(self) -> Path:
        return path_of(self.module)

    def code(self) -> CodeType:
        """Of the whole module."""
        tree = ast.parse(self.path.read_text())
        parent: ast.AST = tree
        for step in self.steps[:-1]:
            parent = _follow(parent, step)
        node = _follow(parent, self.steps[-1])
        changed = copy.deepcopy(list(mutations_of(node))[self.number])
        name, index = self.steps[-1]
        if index is None:
            setattr(parent, name, changed)
        else:
            getattr(parent, name)[index] = changed
        ast.copy_location(changed, node)
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec")


def path_of(module: str) -> Path:
    return ADMISSION / f"{module}.py"


def all_modules() -> list[str]:
    """`gate`, `limits/aimd` and so on: those in which there is any code."""
    paths = sorted(path for path in ADMISSION.rglob("*.py") if path.read_text().strip())
    return [path.relative_to(ADMISSION).with_suffix("").as_posix() for path in paths]


def mutants_of(module: str) -> list[Mutant]:
    seen: Counter[tuple[str, str]] = Counter()
    return list(_mutants_in(ast.parse(path_of(module).read_text()), module, "", False, (), seen))


def _mutants_in(
    node: ast.AST,
    module: str,
    name: str,
    is_inside: bool,
    steps: tuple[Step, ...],
    seen: Counter[tuple[str, str]],
) -> Iterator[Mutant]:
    for step, child in _children(node):
        path = (*steps, step)
        inner, is_function = name, isinstance(child, _FUNCTIONS)
        if not is_inside and (is_function or isinstance(child, ast.ClassDef)):
            inner = f"{name}.{child.name}" if name else child.name  # type: ignore[attr-defined]
        function = inner if is_inside else ""
        for number, changed in enumerate(mutations_of(child)):
            change = f"{_in_words(child)} -> {_in_words(changed)}"
            seen[function, change] += 1
            if (times := seen[function, change]) > 1:
                change += f" ({times})"
            yield Mutant(module, function, change, child.lineno, path, number)  # type: ignore[attr-defined]
        yield from _mutants_in(child, module, inner, is_inside or is_function, path, seen)


def _children(node: ast.AST) -> Iterator[tuple[Step, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "bases", "ctx", "type_params"}:
            continue
        if isinstance(value, ast.AST):
            if not _is_left_alone(value):
                yield (field, None), value
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, ast.AST) and not _is_left_alone(one):
                    yield (field, index), one


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id="__slots__")]):
            return True
        case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar"))):
            return True
    return False


def _in_words(node: ast.AST) -> str:
    if isinstance(node, _COMPOUND):
        word = "if" if isinstance(node, ast.If) else "while"
        return f"{word} {ast.unparse(node.test)}"
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())


def _follow(node: ast.AST, step: Step) -> ast.AST:
    name, index = step
    found: ast.AST = getattr(node, name) if index is None else getattr(node, name)[index]
    return found
