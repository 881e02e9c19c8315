"""Compare two states of a cursor: list the entries that are acknowledged in only one of them.

A state is read from persisted bytes of any form, or from the answer of a broker. Only an answer contains the
number of entries in a ledger. Without an answer, a ledger is assumed to end at the greatest entry that either
state contains. If the sources are two folders of answers, each subscription is compared separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ackwell.broker.names import same_subscription
from ackwell.broker.stats import SubscriptionStats, UnreadableSource, newest, parse_stats, read_each
from ackwell.cursor.cursor_state import CursorState
from ackwell.cursor.rules import acknowledged
from ackwell.diagnosis.printed import printed_values
from ackwell.errors import StatsError
from ackwell.object_paths import local_path
from ackwell.regular_files import file_kind, read_regular
from ackwell.sources import ANSWER_KINDS, STATE_KINDS, SourceKind, wrong_kind

if TYPE_CHECKING:
    from ackwell import Ledgers, PositionInfo, PositionRangeSet
    from ackwell.cluster.admin import Admin
    from ackwell.diagnosis.inspection import Inspection
    from ackwell.position import Position


# The name of a topic, and the name of one of its subscriptions.
Name: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """The entries that are acknowledged in only one of two states, and the ack sets that differ."""

    acked: PositionRangeSet
    """The entries that are wholly acknowledged in the second state, but not in the first."""
    unacked: PositionRangeSet
    """The entries that are wholly acknowledged in the first state, but not in the second."""
    ack_sets: Mapping[Position, tuple[Sequence[int] | None, Sequence[int] | None]]
    """Maps each entry whose ack set differs to its ack sets in the first and in the second state; None if it
    has none."""
    ledgers_known: bool
    """Whether a broker reported the ends of the ledgers. Otherwise they are guessed from the states."""

    def __bool__(self) -> bool:
        return bool(len(self.acked) or len(self.unacked) or self.ack_sets)

    def to_json(self) -> dict[str, Any]:
        """Return the difference as JSON values."""
        return {
            "acked": str(self.acked),
            "ackedEntries": self.acked.cardinality,
            "unacked": str(self.unacked),
            "unackedEntries": self.unacked.cardinality,
            "ackSets": {
                str(position): {"before": _words(before), "after": _words(after)}
                for position, (before, after) in self.ack_sets.items()
            },
            "ledgersKnown": self.ledgers_known,
        }


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between two sources with many subscriptions."""

    both: Mapping[Name, Difference]
    """Maps each subscription that is in both sources to its difference, in order of the names."""
    only_before: Sequence[Name]
    only_after: Sequence[Name]
    unread: Sequence[UnreadableSource]
    """The files that could not be read."""

    def __bool__(self) -> bool:
        return bool(any(self.both.values()) or self.only_before or self.only_after)

    def to_json(self) -> dict[str, Any]:
        """Return the differences as JSON values."""
        return {
            "subscriptions": [
                {"topic": topic, "subscription": subscription, **found.to_json()}
                for (topic, subscription), found in self.both.items()
            ],
            "onlyBefore": [list(name) for name in self.only_before],
            "onlyAfter": [list(name) for name in self.only_after],
            "unread": [each._asdict() for each in self.unread],
        }


def differences(
    before: Path,
    after: Path | Admin,
    *,
    subscription: str | None = None,
    topics: Sequence[str] = (),
) -> Differences:
    """Compare the answers of brokers in two files or folders.

    If a source contains several answers about a subscription, the newest answer is compared. `after` may also
    be a live broker. `topics` are then the topics to request from this broker. Without `topics`, the topics
    in `before` are requested.

    Raises `StatsError` if no subscription is in both sources.
    """
    unread: list[UnreadableSource] = []
    first = _newest(read_each([before]), subscription, unread)
    if isinstance(after, Path):
        second = _newest(read_each([after]), subscription, unread)
    else:
        second = _newest(after.read(topics or _topics(first, before)), subscription, unread)
        first = _named_as(first, second)
    both = {}
    for name in sorted(first.keys() & second.keys()):
        try:
            both[name] = difference(first[name], second[name])
        except StatsError as error:
            unread.append(UnreadableSource(error.source, name[0], error.reason))
    if not both:
        if unread and not (first.keys() - second.keys() and second.keys() - first.keys()):
            # No subscription is in both sources, because a source could not be read.
            raise StatsError(unread[0].reason, unread[0].source)
        where = after if isinstance(after, Path) else after.endpoint.address("")
        raise StatsError(
            f"no subscription is here and in {where}; here is {_some(first)}, there {_some(second)}",
            str(before),
        )
    return Differences(both, sorted(first.keys() - second), sorted(second.keys() - first), unread)


def _newest(
    source: Iterable[SubscriptionStats | UnreadableSource],
    subscription: str | None,
    unread: list[UnreadableSource],
) -> dict[Name, SubscriptionStats]:
    found = newest(source, unread)
    if subscription is None:
        return found
    return {name: found[name] for name in found if same_subscription(name[1], subscription)}


def _topics(found: Iterable[Name], source: Path) -> list[str]:
    """Return the topics to request from a broker.

    Raises `StatsError` if there is no topic, or if the name of a topic is not a full name, such as
    `persistent://public/default/orders`.
    """
    topics = sorted({topic for topic, _ in found})
    if not topics or not all("://" in topic for topic in topics):
        raise StatsError("does not name its topic: give the topic after it", str(source))
    return topics


def _named_as(found: dict[Name, SubscriptionStats], other: Iterable[Name]) -> dict[Name, SubscriptionStats]:
    """Give the topic in `found` the name of the topic in `other`, if both have only one topic.

    If the topic in `found` already has a full name, return `found` unchanged.
    """
    mine, theirs = {topic for topic, _ in found}, {topic for topic, _ in other}
    if len(mine) != 1 or len(theirs) != 1 or any("://" in topic for topic in mine):
        return found
    (topic,) = theirs
    return {(topic, name): replace(stats, topic=topic) for (_, name), stats in found.items()}


def _some(names: Iterable[Name]) -> str:
    """Return a text with the first three names. If there are more names, it states how many."""
    each = [f"{subscription!r} of {topic}" for topic, subscription in sorted(names)]
    return ", ".join(each[:3]) + (f" and {len(each) - 3:,} more" if len(each) > 3 else "") or "none"


def read_state(
    path: str | Path,
    *,
    subscription: str | None = None,
    compression: str | None = None,
    ledger: str | None = None,
) -> CursorState:
    """Read the acknowledgments of one subscription; see `read_position_info`."""
    found = _read(path, subscription, compression, ledger)
    return found if isinstance(found, SubscriptionStats) else CursorState.of(found)


def read_position_info(
    path: str | Path,
    *,
    subscription: str | None = None,
    compression: str | None = None,
    ledger: str | None = None,
) -> PositionInfo:
    """Read the state of one subscription from persisted bytes, a store's file, or the answer of a broker.

    `subscription` selects one of several subscriptions in an answer; `ledger` selects one of several ledgers
    in a store's file. Raises `StatsError` if there is not exactly one such state, and `CorruptStateError` for
    bytes that are not a state.
    """
    found = _read(path, subscription, compression, ledger)
    if not isinstance(found, SubscriptionStats):
        return found
    return (found if found.shows_acknowledgments else found.required()).to_position_info()


def _read(
    path: str | Path, subscription: str | None, compression: str | None, ledger: str | None
) -> SubscriptionStats | PositionInfo:
    from ackwell.diagnosis.inspection import inspect, inspect_store

    path = local_path(path)
    kind = file_kind(path)
    if kind is SourceKind.STORE:
        return _stored(inspect_store(path, ledger))
    if kind not in (*_BYTES, *ANSWER_KINDS, SourceKind.DECODED_CURSOR):
        raise StatsError(wrong_kind(kind, SourceKind.CURSOR, SourceKind.STATS), str(path))
    data = read_regular(path)
    # Without `compression`, text is the output of a tool. With it, bytes that look like text are compressed
    # bytes.
    is_text = kind is SourceKind.TEXT and compression is not None
    if kind in _BYTES or is_text or (compression is None and printed_values(data)):
        inspection = inspect(data, source=str(path), compression=compression)
        if inspection.info is None:
            raise StatsError(
                f"the state is in cursor ledger {inspection.cursor_ledger_id}, not here", str(path)
            )
        return inspection.info
    answers = list(parse_stats(data, str(path)))
    found = [
        stats
        for stats in answers
        if subscription is None or same_subscription(stats.subscription, subscription)
    ]
    if len(found) != 1:
        names = ", ".join(stats.subscription for stats in answers)
        raise StatsError(f"name one subscription with --subscription; here are: {names or 'none'}", str(path))
    return found[0]


_BYTES: Final = (*STATE_KINDS, SourceKind.EMPTY)


def _stored(found: Sequence[Inspection]) -> PositionInfo:
    """Return the only state in a store's file; raises `StatsError` if the file has no state or several."""
    if len(found) != 1:
        names = ", ".join(each.source for each in found) or "none"
        raise StatsError(f"name one ledger with --ledger; here are: {names}", "")
    (inspection,) = found
    if inspection.info is None:
        raise StatsError("no state was saved", inspection.source)
    return inspection.info


def difference(before: CursorState, after: CursorState) -> Difference:
    """Compare two states; O(ranges + ledgers).

    Raises `StatsError` if the states are two answers about different topics, or if an answer does not show
    the acknowledgments.
    """
    _refuse_two_topics(before, after)
    for state in (before, after):
        if isinstance(state, SubscriptionStats) and not state.persisted_only:
            state.required()
    ledgers = _ledgers((before, after))
    first, second = (
        acknowledged(ledgers, state.mark_delete_position, state.individually_deleted)
        for state in (before, after)
    )
    old, new = before.batch_deleted or {}, after.batch_deleted or {}
    return Difference(
        acked=second - first,
        unacked=first - second,
        ack_sets={
            position: (old.get(position), new.get(position))
            for position in sorted(old.keys() | new.keys())
            if _words(old.get(position)) != _words(new.get(position))
        },
        ledgers_known=any(state.ledgers is not None for state in (before, after)),
    )


def _refuse_two_topics(before: CursorState, after: CursorState) -> None:
    if not (isinstance(before, SubscriptionStats) and isinstance(after, SubscriptionStats)):
        return
    # If an answer does not name its topic, the source replaces the name of the topic.
    named = before.topic != before.source and after.topic != after.source
    if named and before.topic != after.topic:
        raise StatsError(
            f"is of topic {before.topic}, and {after.source} of {after.topic}: "
            "a position of one means nothing in the other",
            before.source,
        )


def _ledgers(states: Iterable[CursorState]) -> Ledgers:
    """Return the ledgers of all states. Each ledger ends at the greatest entry that any state contains."""
    from ackwell import Ledgers

    sizes: dict[int, int] = {}
    for state in states:
        ledger_ids, _, uppers = state.individually_deleted.to_arrays()
        named = [
            state.mark_delete_position,
            *dict(zip(ledger_ids.tolist(), uppers.tolist(), strict=True)).items(),
        ]
        last = ((ledger_id, entries - 1) for ledger_id, entries in state.ledgers or ())
        for ledger_id, entry_id in (*named, *last):
            sizes[ledger_id] = max(sizes.get(ledger_id, 0), entry_id + 1)
    return Ledgers(sizes)


def _words(words: Iterable[int] | None) -> list[int] | None:
    return None if words is None else list(words)
