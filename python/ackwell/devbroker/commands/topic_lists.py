"""Lists of a namespace's topics, once and watched: what regex subscriptions ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ackwell._native import crc32c
from ackwell.devbroker.commands import handles
from ackwell.devbroker.refusals import RefusedError
from ackwell.protocol import messages
from ackwell.protocol.codes import CommandType, ServerError, TopicsMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ackwell.devbroker.connection import Connection
    from ackwell.devbroker.names import TopicName


@handles(CommandType.GET_TOPICS_OF_NAMESPACE)
def topics_of_namespace(connection: Connection, command: Any, _: bytes) -> None:
    """List the topics of a namespace, filtered where the client gives a pattern."""
    names = [
        name
        for name in connection.state.topics_in(command.namespace)
        if command.mode == TopicsMode.ALL or name.persistent is (command.mode == TopicsMode.PERSISTENT)
    ]
    filtered = command.HasField("topics_pattern")
    found = sorted(map(str, names))
    if filtered:
        found = matching(found, command.topics_pattern)
    hash_ = hash_of(found)
    changed_ = not (command.HasField("topics_hash") and command.topics_hash == hash_)
    connection.send(
        CommandType.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        messages.CommandGetTopicsOfNamespaceResponse(
            request_id=command.request_id,
            topics=found if changed_ else [],
            filtered=filtered,
            topics_hash=hash_,
            changed=changed_,
        ),
    )


@handles(CommandType.WATCH_TOPIC_LIST)
def watch(connection: Connection, command: Any, _: bytes) -> None:
    """List the topics that a pattern names, and report changes from now on."""
    found = matching(
        [str(name) for name in connection.state.topics_in(command.namespace) if name.persistent],
        command.topics_pattern,
    )
    connection.state.watchers[connection, command.watcher_id] = (command.namespace, command.topics_pattern)
    hash_ = hash_of(found)
    known = command.HasField("topics_hash") and command.topics_hash == hash_
    connection.send(
        CommandType.WATCH_TOPIC_LIST_SUCCESS,
        messages.CommandWatchTopicListSuccess(
            request_id=command.request_id,
            watcher_id=command.watcher_id,
            topic=[] if known else found,
            topics_hash=hash_,
        ),
    )


@handles(CommandType.WATCH_TOPIC_LIST_CLOSE)
def unwatch(connection: Connection, command: Any, _: bytes) -> None:
    """Stop watching."""
    connection.state.watchers.pop((connection, command.watcher_id), None)
    connection.succeed(command.request_id)


def changed(
    connection: Connection,
    watcher_id: int,
    watched: tuple[str, str],
    made: Iterable[TopicName],
    deleted: Iterable[TopicName],
) -> None:
    """Send a watcher the names of the topics it watches that were made or deleted."""
    namespace, pattern = watched

    def of(names: Iterable[TopicName]) -> list[str]:
        return matching(
            [str(name) for name in names if name.persistent and name.in_namespace == namespace], pattern
        )

    new, gone = of(made), of(deleted)
    if new or gone:
        now = matching([str(name) for name in connection.state.topics_in(namespace)], pattern)
        connection.send(
            CommandType.WATCH_TOPIC_UPDATE,
            messages.CommandWatchTopicUpdate(
                watcher_id=watcher_id, new_topics=new, deleted_topics=gone, topics_hash=hash_of(now)
            ),
        )


def matching(names: list[str], pattern: str) -> list[str]:
    """Return the names that a pattern matches without their domain; a partition by its topic's name."""
    try:
        wanted = re.compile(re.sub(r"^(non-)?persistent://", "", pattern))
    except re.error as error:
        raise RefusedError(ServerError.NOT_ALLOWED_ERROR, f"the pattern {pattern!r}: {error}") from None
    return [
        name
        for name in names
        if wanted.fullmatch(re.sub(r"-partition-\d+$", "", name.partition("://")[2]))
        or wanted.fullmatch(name.partition("://")[2])
    ]


def hash_of(names: Iterable[str]) -> str:
    """Return a hash of a list of topics, whatever its order, as the broker works it out (CRC-32C)."""
    joined = ",".join(sorted(names))
    return f"{crc32c(joined.encode()):08x}"
