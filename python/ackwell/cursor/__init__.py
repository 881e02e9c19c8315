"""The cursor of a subscription: its rules, its settings, and its saves in a store.

Each name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackwell.cursor.cursor import Cursor as Cursor
    from ackwell.cursor.cursor_settings import CursorSettings as CursorSettings
    from ackwell.cursor.cursor_state import CursorState as CursorState
    from ackwell.cursor.rules import CursorRules as CursorRules

_HOMES = {
    "Cursor": "cursor",
    "CursorRules": "rules",
    "CursorSettings": "cursor_settings",
    "CursorState": "cursor_state",
}
"""The module of each public name."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
