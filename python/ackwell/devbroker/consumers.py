"""A consumer as its connection sees it: where its messages go, and what the subscription calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from ackwell.devbroker.clients import Client

T = TypeVar("T")


class Consumer(Generic[T]):
    """One consumer of one connection; it holds its subscription for those who look it up."""

    __slots__ = (
        "bytes_out",
        "connected_ms",
        "connection",
        "consumer_id",
        "epoch",
        "key",
        "messages_out",
        "messages_per_entry",
        "metadata",
        "name",
        "next_s",
        "permits",
        "priority",
        "redelivered",
        "subscription",
    )

    def __init__(
        self,
        connection: Client,
        consumer_id: int,
        name: str,
        key: int,
        subscription: T,
        *,
        priority: int,
        epoch: int,
        metadata: dict[str, str],
        connected_ms: int,
    ) -> None:
        self.connection = connection
        self.consumer_id = consumer_id
        self.name = name
        self.key = key
        """What the subscription knows it by."""
        self.subscription = subscription
        self.priority = priority
        self.epoch = epoch
        self.metadata = metadata
        self.connected_ms = connected_ms
        self.permits = 0
        """About what it asked for and has not got: how far it is worth reading. The subscription decides."""
        self.next_s = 0.0
        """When the loop sends the next message, where a fault makes the consumer slow."""
        self.messages_out = 0
        self.messages_per_entry = 0
        """Of late: each delivery counts a tenth, as a broker reckons."""
        self.bytes_out = 0
        self.redelivered = 0

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r}>"
