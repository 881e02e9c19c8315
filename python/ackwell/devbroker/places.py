"""Message ids on the wire and positions in a log: what earliest, latest and a message's own id mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ackwell.protocol import messages
from ackwell.wire import signed64

if TYPE_CHECKING:
    from ackwell.devbroker.content import TopicContent

_LATEST: Final = 2**63 - 1
"""The ledger id of the client's `MessageId.latest`; `MessageId.earliest` has -1."""


def place_of(topic: TopicContent, wanted: Any) -> tuple[int, int]:
    """Return the position of a `MessageIdData`, the first one for earliest, the end for latest."""
    ledger_id, entry_id = signed64(wanted.ledgerId), signed64(wanted.entryId)
    if ledger_id < 0:
        return topic.first_place
    if ledger_id == _LATEST:
        return topic.end_place
    place = ledger_id, max(entry_id, 0)
    if place < topic.first_place:
        return topic.first_place
    ledgers = topic.log.ledgers
    return place if ledgers.contains(*place) else ledgers.next_valid(ledger_id, max(entry_id - 1, -1))


def message_id(place: tuple[int, int], *, partition: int = -1) -> Any:
    """Return a `MessageIdData`; ids below 0 as the client writes them."""
    made = messages.MessageIdData(ledgerId=place[0] % 2**64, entryId=place[1] % 2**64)
    if partition >= 0:
        made.partition = partition
    return made
