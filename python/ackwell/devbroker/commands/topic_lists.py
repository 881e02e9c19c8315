"""Handlers of the commands that list or watch the topics of a namespace, for regex subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell.devbroker.watchers import Watcher, matching, topic_list_hash
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType, TopicsMode

if TYPE_CHECKING:
    from ackwell.devbroker.client_connection import ClientConnection


def topics_of_namespace(connection: ClientConnection, command: Any, _: bytes) -> None:
    """List the topics of a namespace. If the command has a pattern, list only the topics that match it."""
    names = [
        name
        for name in connection.state.topics_in(command.namespace)
        if command.mode == TopicsMode.ALL or name.persistent is (command.mode == TopicsMode.PERSISTENT)
    ]
    filtered = command.HasField("topics_pattern")
    found = sorted(map(str, names))
    if filtered:
        found = matching(found, command.topics_pattern)
    hash_ = topic_list_hash(found)
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


def watch(connection: ClientConnection, command: Any, _: bytes) -> None:
    """List the topics that match a pattern. Report each later change of this list."""
    found = matching(
        [str(name) for name in connection.state.topics_in(command.namespace) if name.persistent],
        command.topics_pattern,
    )
    watcher = Watcher(connection, command.watcher_id, command.namespace, command.topics_pattern)
    connection.state.watchers[connection, command.watcher_id] = watcher
    hash_ = topic_list_hash(found)
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


def unwatch(connection: ClientConnection, command: Any, _: bytes) -> None:
    """Stop watching a list of topics."""
    connection.state.watchers.pop((connection, command.watcher_id), None)
    connection.succeed(command.request_id)
