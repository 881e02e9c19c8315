"""Write the docstrings of the built module into its stub: `make lab-stubs`.

Types are kept by hand in `python/ackwell/_native.pyi`, docstrings in the Rust sources. An editor shows only
what the stub has, so this copies the docstrings of classes, public methods, properties and functions from
`ackwell._native` into it. The test `tests/test_stubs.py` fails when the stub is not up to date.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

STUB = Path(__file__).parents[2] / "python" / "ackwell" / "_native.pyi"
INDENT = "    "

Documented = ast.ClassDef | ast.FunctionDef


def documented(stub: str, module: ModuleType) -> str:
    """Return the stub with its docstrings replaced by those of `module`."""
    tree = ast.parse(stub)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    edits: list[tuple[Documented, str | None]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            edits.append((node, _doc(getattr(module, node.name))))
        elif isinstance(node, ast.ClassDef):
            owner = getattr(module, _runtime_name(node, classes), None)
            if owner is None:  # The names of a result's fields, which is a dictionary.
                continue
            if hasattr(module, node.name):
                edits.append((node, _doc(owner)))
            edits += [
                (method, _doc(getattr(owner, method.name)))
                for method in node.body
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
            ]
    lines = stub.splitlines(keepends=True)
    for node, doc in reversed(edits):
        _replace(lines, node, doc)
    return "".join(lines)


def _runtime_name(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> str:
    """Return the name of a stub class in the module; for a base class without one, of a derived class."""
    derived = (
        other.name
        for other in classes.values()
        if any(isinstance(base, ast.Name) and base.id == node.name for base in other.bases)
    )
    return next(derived, node.name)


def _doc(subject: object) -> str | None:
    return inspect.getdoc(subject)


def _replace(lines: list[str], node: Documented, doc: str | None) -> None:
    """Replace the docstring of a node by `doc`; None removes it. A class keeps the rest of its body."""
    first = node.body[0]
    text = _docstring(doc, " " * node.col_offset + INDENT) if doc else []
    start, end = first.lineno - 1, first.end_lineno or first.lineno
    before = lines[start][: first.col_offset].rstrip()
    if isinstance(node, ast.ClassDef):
        start -= len(getattr(first, "decorator_list", []))
        lines[start : end if _is_docstring(first) else start] = text
    elif before:
        lines[start:end] = [f"{before}\n", *text] if text else [f"{before} ...\n"]
    elif text:
        lines[start:end] = text
    else:
        lines[start - 1 : end] = [f"{lines[start - 1].rstrip()} ...\n"]


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _docstring(doc: str, indent: str) -> list[str]:
    prefix = "r" if "\\" in doc else ""
    first, *rest = doc.splitlines()
    if not rest:
        return [f'{indent}{prefix}"""{first}"""\n']
    body = [f"{indent}{line}\n" if line else "\n" for line in rest]
    return [f'{indent}{prefix}"""{first}\n', *body, f'{indent}"""\n']


def main() -> None:
    """Write the docstrings of the built module into the stub."""
    from ackwell import _native

    STUB.write_text(documented(STUB.read_text(), _native))


if __name__ == "__main__":
    main()
