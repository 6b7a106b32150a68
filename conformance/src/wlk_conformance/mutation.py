"""Mutations of a module: small mistakes, made one at a time in its syntax tree."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Mutation", "mutated", "mutations"]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_CALLS = {"min": "max", "max": "min"}


@attrs.frozen
class Mutation:
    """A mistake: number *number* of its module, on *line*."""

    number: int
    line: int
    what: str


def mutations(source: str) -> tuple[Mutation, ...]:
    """
    Return every mutation of *source*.

    Left alone is what no behaviour depends on: annotations, decorators, imports, messages of
    exceptions and names that are exported.
    """
    return tuple(
        Mutation(number, line, what)
        for number, (line, what, _) in enumerate(_mistakes(ast.parse(source)))
    )


def mutated(source: str, number: int) -> ast.Module:
    """
    Return the syntax tree of *source* with mutation *number*, counted from 0.

    Raises:
        IndexError: there are not so many.

    """
    tree = ast.parse(source)
    made = list(_mistakes(tree))
    made[number][2]()
    return ast.fix_missing_locations(tree)


_Mistake = tuple[int, str, "Callable[[], None]"]


def _mistakes(tree: ast.AST) -> Iterator[_Mistake]:
    for node in _behaviour(tree):
        line = getattr(node, "lineno", 0)
        for what, make in _mistakes_of(node):
            yield line, what, make


def _behaviour(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes at and below *node* that say what happens, from the top to the bottom."""
    left_alone = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)
    if isinstance(node, left_alone) or _is_for_types(node) or _exports(node):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _behaviour(child)


def _mistakes_of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                yield _name(operator, other), _setter(node.ops, place, other())
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _OPERATORS:
        other_operator = _OPERATORS[type(node.op)]
        yield _name(node.op, other_operator), _replacer(node, "op", other_operator())
    elif isinstance(node, ast.BoolOp):
        swapped = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield _name(node.op, swapped), _replacer(node, "op", swapped())
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and not _is_compared(node.test):
        test = ast.UnaryOp(ast.Not(), node.test)
        yield f"not {ast.unparse(node.test)}", _replacer(node, "test", test)
    elif isinstance(node, ast.Return) and not _is_nothing(node.value):
        yield "return None", _replacer(node, "value", ast.Constant(None))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        other_name = _CALLS[node.func.id]
        yield f"{node.func.id} to {other_name}", _replacer(node.func, "id", other_name)


def _constants(node: ast.Constant) -> Iterator[tuple[str, Callable[[], None]]]:
    value = node.value
    others: tuple[object, ...] = ()
    if isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int):
        others = (value + 1, value - 1)
    elif isinstance(value, float):
        others = (value * 2 + 1,)
    for other in others:
        yield f"{value!r} to {other!r}", _replacer(node, "value", other)


def _is_compared(test: ast.expr) -> bool:
    """Tell whether the opposite of *test* is a mistake of its comparison already."""
    return isinstance(test, ast.Compare) and len(test.ops) == 1


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _exports(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _name(old: ast.AST, new: type[ast.AST]) -> str:
    return f"{type(old).__name__} to {new.__name__}"


def _replacer(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _setter(places: list[ast.cmpop], place: int, value: ast.cmpop) -> Callable[[], None]:
    def put() -> None:
        places[place] = value

    return put
