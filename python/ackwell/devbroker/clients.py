"""What a broker and its topics ask of a client's connection; how frames travel is the connection's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class Client(Protocol):
    """A client that is connected."""

    producers: dict[int, Any]
    """By the client's number of each."""
    writable: bool
    """Whether it reads what it is sent."""
    address: str
    client_version: str
    commands: int
    """How many commands came, but for pings and pongs."""
    pongs: int
    """How many of our pings were answered."""

    def send(self, command_type: int, message: Any) -> None:
        """Send a command."""

    def send_messages(self, consumer: Any, frames: Iterable[bytes]) -> None:
        """Send the frames of messages to one of its consumers."""

    def send_active(self, consumer_id: int, *, active: bool) -> None:
        """Notify a consumer of whether it is the active one."""

    def send_ready(self, producer: Any, last_sequence_id: int) -> None:
        """Notify a producer that it may send, and of what is stored of it."""

    def ping(self) -> None:
        """Ask for a sign of life."""

    def flush(self) -> None:
        """Write what is held."""

    def close_producer(self, producer: Any) -> None:
        """Close a producer; its client opens it again."""

    def close_consumer(self, consumer: Any) -> None:
        """Close a consumer; its client subscribes again."""

    def close(self, reason: str) -> None:
        """Close the connection, and say why in the log."""

    def abort(self) -> None:
        """Close the connection as a crash does."""
