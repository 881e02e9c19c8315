"""The cursor of a subscription: the rules, the settings, and the saves in a store.

Each public name is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ackwell.lazy_names import lazy_names

if TYPE_CHECKING:
    from ackwell.cursor.cursor import Cursor as Cursor
    from ackwell.cursor.cursor_settings import CursorSettings as CursorSettings
    from ackwell.cursor.cursor_state import CursorState as CursorState
    from ackwell.cursor.rules import CursorRules as CursorRules

_HOMES = {
    "Cursor": ".cursor",
    "CursorRules": ".rules",
    "CursorSettings": ".cursor_settings",
    "CursorState": ".cursor_state",
}
"""Maps each public name to the module that defines it."""

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
