"""What the broker does with each command, a room for each kind."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from ackwell.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ackwell.devbroker.connection import Handler
    from ackwell.protocol.codes import CommandType

E = TypeVar("E")

_HANDLERS: dict[int, Handler] = {}
"""Those of the rooms that are imported."""
_COMPLETE: dict[int, Handler] = {}
"""The same, once all rooms are."""


ROOMS: Final = (
    "sessions",
    "looking_up",
    "producing",
    "consuming",
    "acking",
    "topic_lists",
    "schemas",
    "transactions",
)
"""The modules of this package; each says of its functions which command they handle."""


def handles(command_type: CommandType) -> Callable[[Handler], Handler]:
    """Make a function the handler of a command."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[command_type] = handler
        return handler

    return register


def enum_of(kind: Callable[[int], E], value: int) -> E:
    """Return the member of an enumeration; `FrameError` for a number that no member has."""
    try:
        return kind(value)
    except ValueError as error:
        raise FrameError(str(error)) from None


def handler_of(command_type: int) -> Handler | None:
    """Return the handler of a command, None for one that is not supported."""
    if not _COMPLETE:
        for room in ROOMS:
            import_module(f"{__name__}.{room}")
        _COMPLETE.update(_HANDLERS)
    return _COMPLETE.get(command_type)
