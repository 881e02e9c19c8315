"""The cursor of a subscription: its rules, its settings, and its saves in a store."""

from ackwell.cursor.cursor import Cursor
from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.cursor.cursor_state import CursorState
from ackwell.cursor.rules import CursorRules

__all__ = ["Cursor", "CursorRules", "CursorSettings", "CursorState"]
