"""The stub of the native module has its docstrings."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from ackwell import _native

pytestmark = pytest.mark.checkout


@pytest.fixture
def stubs() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[1] / "rust" / "python" / "stubs.py"))


def test_the_stub_has_the_docstrings_of_the_built_module(stubs: dict[str, Any]) -> None:
    stub = stubs["STUB"].read_text()
    assert stub == stubs["documented"](stub, _native), "make lab-stubs brings it up to date"


def test_a_docstring_is_put_in_replaced_and_taken_out(stubs: dict[str, Any]) -> None:
    class Module:
        class Thing:
            """A thing."""

            def act(self) -> None:
                """Act.

                Twice.
                """

        def go() -> None:  # type: ignore[misc]
            """Go."""

    bare = (
        "class Thing:\n    x: int\n    def act(\n        self,\n    ) -> None: ...\ndef go() -> None: ...\n"
    )
    full = (
        'class Thing:\n    """A thing."""\n    x: int\n    def act(\n        self,\n    ) -> None:\n'
        '        """Act.\n\n        Twice.\n        """\ndef go() -> None:\n    """Go."""\n'
    )
    assert full == stubs["documented"](bare, Module)
    assert full == stubs["documented"](full, Module)
    Module.Thing.__doc__ = Module.Thing.act.__doc__ = Module.go.__doc__ = None
    assert bare == stubs["documented"](full, Module)
