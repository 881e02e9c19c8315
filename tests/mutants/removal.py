"""An operator for cosmic-ray that removes a statement: `store.append(entry)` → `pass`.

It removes calls, `raise`, `del`, augmented assignments, and assignments to an attribute or an element. It
keeps assignments to a name, because without one the next line fails in any case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parso.python.tree import Keyword

Span = tuple[tuple[int, int], tuple[int, int]]


class RemoveStatement:
    """Replace a statement by `pass`."""

    @classmethod
    def arguments(cls) -> tuple[()]:
        return ()

    def mutation_positions(self, node: Any) -> Iterator[Span]:
        if node.type == "simple_stmt" and _in_function(node) and _acts(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        first = node.children[0].get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, prefix=first.prefix)
        return node


class Provider:
    """The operators by name, for cosmic-ray."""

    def __iter__(self) -> Iterator[str]:
        return iter(["RemoveStatement"])

    def __getitem__(self, name: str) -> type[RemoveStatement]:
        return RemoveStatement


def _in_function(node: Any) -> bool:
    while node is not None and node.type not in ("funcdef", "classdef"):
        node = node.parent
    return node is not None and node.type == "funcdef"


def _acts(statement: Any) -> bool:
    if statement.type in ("raise_stmt", "del_stmt"):
        return True
    if statement.type == "atom_expr":
        return bool(statement.children[-1].type == "trailer" and statement.children[-1].children[0] == "(")
    if statement.type != "expr_stmt":
        return False
    # The second child of `x += 1` is the operator's leaf, that of `x: int` an `annassign`.
    operator = getattr(statement.children[1], "value", "")
    return operator.endswith("=") and (operator != "=" or statement.children[0].type == "atom_expr")
