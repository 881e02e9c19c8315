"""Pauses of single modules, recorded instead of slept."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


class Clock:
    """The module `time`, except that `sleep` only records."""

    def __init__(self, pauses: list[float]) -> None:
        self.sleep = pauses.append

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def recorded_pauses(monkeypatch: pytest.MonkeyPatch, *modules: str) -> list[float]:
    """Record the pauses of these modules for the rest of the test; return the list, in seconds.

    `time.sleep` itself stays as it is, because the threads of other tests call it too.
    """
    pauses: list[float] = []
    for name in modules:
        module = importlib.import_module(name)
        assert module.__dict__["time"] is time, f"{name} does not import the module time"
        monkeypatch.setattr(module, "time", Clock(pauses))
    return pauses
