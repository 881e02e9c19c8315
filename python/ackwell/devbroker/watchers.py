"""Clients that watch the topics of a namespace, for regex subscriptions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ackwell._native import crc32c
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.errors import ErrorCode
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.protocol.topic_name import TopicName


class Watcher(NamedTuple):
    """One client that watches those topics of a namespace whose names match a pattern."""

    client: ClientConnection
    watcher_id: int
    namespace: str
    pattern: str

    def notify(
        self,
        made: Iterable[TopicName],
        deleted: Iterable[TopicName],
        topics_in: Callable[[str], list[TopicName]],
    ) -> None:
        """Send the client the names of those created and deleted topics that match the pattern."""
        new, gone = self._watched(made), self._watched(deleted)
        if new or gone:
            now = matching([str(name) for name in topics_in(self.namespace)], self.pattern)
            self.client.send(
                CommandType.WATCH_TOPIC_UPDATE,
                messages.CommandWatchTopicUpdate(
                    watcher_id=self.watcher_id,
                    new_topics=new,
                    deleted_topics=gone,
                    topics_hash=topic_list_hash(now),
                ),
            )

    def _watched(self, names: Iterable[TopicName]) -> list[str]:
        watched = [str(name) for name in names if name.persistent and name.in_namespace == self.namespace]
        return matching(watched, self.pattern)


def matching(names: list[str], pattern: str) -> list[str]:
    """Return the names of topics that match a pattern.

    The domain, such as `persistent://`, is ignored. A partition such as `orders-partition-0` also matches if
    its name without `-partition-0` matches.
    """
    try:
        wanted = re.compile(re.sub(r"^(non-)?persistent://", "", pattern))
    except re.error as error:
        message = f"Invalid topics pattern: {pattern!r}: {error}"
        raise CommandRefusedError(ErrorCode.INVALID_TOPIC_NAME, message) from None
    return [
        name
        for name in names
        if wanted.fullmatch(re.sub(r"-partition-\d+$", "", name.partition("://")[2]))
        or wanted.fullmatch(name.partition("://")[2])
    ]


def topic_list_hash(names: Iterable[str]) -> str:
    """Return the hash of a list of topics: the CRC-32C of the sorted names, as in a Pulsar broker."""
    joined = ",".join(sorted(names))
    return f"{crc32c(joined.encode()):08x}"
