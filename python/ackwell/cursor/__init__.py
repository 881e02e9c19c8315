"""The cursor of a subscription: its rules, its settings, and its saves in a store."""

from ackwell.cursor.cursor import Cursor
from ackwell.cursor.rules import CursorRules
from ackwell.cursor.settings import CursorSettings
from ackwell.cursor.state import CursorState

__all__ = ["Cursor", "CursorRules", "CursorSettings", "CursorState"]
