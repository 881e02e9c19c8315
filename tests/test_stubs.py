"""The stub of the native module has its docstrings."""

from __future__ import annotations

import runpy
from pathlib import Path

from ackwell import _native

ROOT = Path(__file__).parents[1]
STUBS = runpy.run_path(str(ROOT / "rust" / "python" / "stubs.py"))


def test_the_stub_has_the_docstrings_of_the_built_module() -> None:
    stub = STUBS["STUB"].read_text()
    assert stub == STUBS["documented"](stub, _native), "make stubs brings it up to date"


def test_a_docstring_is_put_in_replaced_and_taken_out() -> None:
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
    assert full == STUBS["documented"](bare, Module)
    assert full == STUBS["documented"](full, Module)
    Module.Thing.__doc__ = Module.Thing.act.__doc__ = Module.go.__doc__ = None
    assert bare == STUBS["documented"](full, Module)
