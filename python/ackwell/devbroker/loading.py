"""Reads the state of an incident from dumps, cursor bytes, recordings or subscriptions.

| source | contains | lacks |
|---|---|---|
| `stats-internal`, also with `stats`; a folder of `ackwell collect` | ledgers, holes | ack sets, delays |
| the same with a `cursor` from a broker's memory | also ack sets | delays |
| a recording (`ackwell record`) | recorded events, payloads if recorded | unrecorded events |
| cursor bytes; a store of ackwell | holes, ack sets | names, the length of ledgers |
| a `Subscription` | holes, ack sets, redelivery counts, delays | payloads |

The last column lists facts that the source does not contain. `LoadReport.unknown` lists the facts that no
source contains. An entry whose payload is unknown becomes a `Placeholder`. After a load, no consumer is
connected, so pending entries are delivered again.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackwell import PositionInfo
from ackwell.broker.dates import clock_ms
from ackwell.broker.documents import documents_of
from ackwell.broker.fields import object_of
from ackwell.broker.stats import (
    UNREADABLE_ERRORS,
    Answer,
    SubscriptionStats,
    UnreadableSource,
    answers_of,
    from_answer,
    stats_files,
)
from ackwell.cursor.ack_sets import from_words
from ackwell.devbroker.entry import LogEntry
from ackwell.devbroker.placeholders import KnownEntries, LoadedLedger
from ackwell.errors import StatsError
from ackwell.object_paths import local_path
from ackwell.position import Position
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.payload import read_payload
from ackwell.protocol.topic_name import TopicName
from ackwell.regular_files import file_kind, files_under, is_hidden, read_regular
from ackwell.replay.events import Kind
from ackwell.replay.files import read_events
from ackwell.replay.payloads import read_payloads
from ackwell.replay.sequence import TopicReplay
from ackwell.replay.states import Replay, states_of
from ackwell.sources import (
    ANSWER_KINDS,
    EVENT_SUFFIXES,
    STATE_SUFFIX,
    SourceKind,
    source_kind,
    wrong_kind,
)
from ackwell.subscription import Subscription, SubscriptionType
from ackwell.subscription.arguments import TIME_MAX_MS

if TYPE_CHECKING:
    from ackwell.broker.writes import CursorLedger
    from ackwell.diagnosis.inspection import Inspection

Source = str | Path | Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCursor:
    """A subscription that was read from a source."""

    info: PositionInfo
    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    properties: Mapping[str, str] = field(default_factory=dict)
    ledger: CursorLedger = "open"


@dataclass(slots=True, kw_only=True)
class LoadedTopic:
    """A topic that was read from a source.

    `ledgers` maps a ledger id to the number of entries and their size in bytes. `cursors` maps the name of a
    subscription to the subscription.
    """

    ledgers: dict[int, tuple[int, int]] = field(default_factory=dict)
    known: KnownEntries
    cursors: dict[str, LoadedCursor] = field(default_factory=dict)
    is_terminated: bool = False
    last_confirmed: Position | None = None

    def entries(self) -> dict[int, LoadedLedger]:
        """Return the entries of the topic, by ledger id."""
        return {
            ledger_id: LoadedLedger(ledger_id, count, self.known, size_bytes)
            for ledger_id, (count, size_bytes) in sorted(self.ledgers.items())
        }


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load: the loaded topics, the sources that cannot be used, and the missing facts."""

    topics: dict[str, LoadedTopic] = field(default_factory=dict)
    unread: list[UnreadableSource] = field(default_factory=list)
    """The sources that cannot be used, each with the reason. All other sources are loaded."""
    unknown: list[str] = field(default_factory=list)
    """One sentence for each fact that no source contains."""

    @property
    def subscriptions(self) -> int:
        """The number of loaded subscriptions of all topics."""
        return sum(len(topic.cursors) for topic in self.topics.values())

    def __str__(self) -> str:
        """Return the number of topics and of subscriptions, then one line for each error and missing fact."""
        head = f"loaded {len(self.topics)} topics with {self.subscriptions} subscriptions"
        return "\n".join([head, *(f"{each.source}: {each.reason}" for each in self.unread), *self.unknown])


def read(
    sources: Iterable[Source],
    topic: str | None = None,
    subscription: str | None = None,
    now_ms: int | None = None,
) -> LoadReport:
    """Read all sources. Return the loaded topics, the unusable sources and the missing facts.

    `topic` and `subscription` are used for a source that does not contain these names. Raises `StatsError` if
    no source can be used.
    """
    reader = _SourceReader(topic, subscription, clock_ms() if now_ms is None else now_ms)
    for source in sources:
        reader.read(source)
    found = reader.found
    if found.unread and not found.topics:
        raise StatsError(found.unread[0].reason, found.unread[0].source)
    return found


_BYTES: Final = (SourceKind.CURSOR, SourceKind.BINARY, SourceKind.EMPTY)


class _SourceReader:
    def __init__(self, topic: str | None, subscription: str | None, now_ms: int) -> None:
        self.found = LoadReport()
        self._topic = topic
        self._subscription = subscription
        self._now_ms = now_ms

    def read(self, source: Source) -> None:
        """Read one source. It can be of any kind."""
        if isinstance(source, Subscription):
            self._live(source)
            return
        path = local_path(source)
        if path.is_dir():
            self._folder(path)
        elif path.name.endswith(EVENT_SUFFIXES):
            self._recording([path])
        else:
            self._file(path)

    def _folder(self, folder: Path) -> None:
        files = files_under(folder)
        events = [
            path for path in files if path.name.endswith(EVENT_SUFFIXES) and not is_hidden(path, folder)
        ]
        if events:
            self._recording(events)
        states = [path for path in files if path.name.endswith(STATE_SUFFIX)]
        for path in states:
            self._file(path)
        try:
            for path in (Path(str(each)) for each in stats_files(folder)):
                self._file(path)
        except StatsError:
            if not events and not states:
                raise

    def _file(self, path: Path) -> None:
        from ackwell.diagnosis.inspection import inspect, inspect_store
        from ackwell.errors import CorruptStateError, StoreError

        try:
            kind = file_kind(path)
            if kind is SourceKind.STORE:
                for each in inspect_store(path):
                    # `ackwell replay --save` uses topic and subscription as the name of a ledger.
                    topic, _, subscription = each.source.removeprefix(f"{path}, ").partition(" ")
                    self._bytes(each, topic, subscription or topic)
                return
            if kind is SourceKind.EVENTS:
                self._recording([path])
                return
            data = read_regular(path)
            if kind in ANSWER_KINDS:
                self._stats(data, path)
            elif kind not in _BYTES:
                reason = wrong_kind(kind, SourceKind.STATS, SourceKind.CURSOR, SourceKind.EVENTS)
                raise StatsError(reason, str(path))
            else:
                self._bytes(inspect(data, source=str(path)), path.name.partition(".")[0], "sub")
        except OSError as error:
            raise StatsError(f"cannot be read: {error.strerror}", str(path)) from None
        except StatsError as error:
            self.found.unread.append(UnreadableSource(error.source, None, error.reason))
        except (CorruptStateError, StoreError) as error:
            self.found.unread.append(UnreadableSource(str(path), None, str(error)))

    # Admin API answers

    def _stats(self, data: bytes, path: Path) -> None:
        is_answer = False
        name = self._topic or path.name.partition(".")[0]
        for heading, document in documents_of(data, str(path)):
            for key, answer in answers_of(document, heading or name):
                is_answer = True
                self._answer(key, answer, str(path))
        if not is_answer:
            raise StatsError(wrong_kind(source_kind(data), SourceKind.STATS), str(path))

    def _answer(self, key: str, answer: Mapping[str, Any], source: str) -> None:
        described = list(from_answer(answer, key, source))
        self.found.unread.extend(each for each in described if isinstance(each, UnreadableSource))
        try:
            parts = Answer.of(answer, key, source)
        except UNREADABLE_ERRORS:
            # `unread` already contains the reason.
            return
        topic = str(TopicName.parse(self._topic or parts.topic))
        sizes: dict[Position, int] = {}
        confirmed = parts.internal.get("lastConfirmedEntry")
        made = LoadedTopic(
            ledgers={each.ledger_id: (each.entries, each.size_bytes) for each in parts.sizes},
            known=KnownEntries(batch_sizes=sizes, publish_ms=parts.time_ms or self._now_ms),
            is_terminated=parts.internal.get("state") == "Terminated",
            last_confirmed=Position.parse(confirmed) if confirmed else None,
        )
        for each in described:
            if isinstance(each, SubscriptionStats):
                try:
                    self._cursor(f"{topic}, {each.subscription}", made, each.required(), parts.stats, sizes)
                except StatsError as error:
                    self.found.unread.append(UnreadableSource(source, topic, error.reason))
        self._put(topic, made)

    def _cursor(
        self,
        name: str,
        made: LoadedTopic,
        stats: SubscriptionStats,
        topic_stats: Mapping[str, Any],
        sizes: dict[Position, int],
    ) -> None:
        if not stats.durable:
            self.found.unknown.append(f"{name}: not durable, so it ended with its reader")
            return
        if stats.batch_deleted is None:
            self.found.unknown.append(f"{name}: which parts of batches are acknowledged")
        if stats.delayed_messages:
            self.found.unknown.append(f"{name}: which {stats.delayed_messages} entries are delayed")
        ack_sets = stats.batch_deleted or {}
        for position, words in ack_sets.items():
            # A dump does not contain the size of a batch. The last unacknowledged message gives a minimum of
            # the size.
            sizes[position] = max(from_words(words).bit_length(), sizes.get(position, 2))
        shown = object_of(object_of(topic_stats, "subscriptions"), stats.subscription)
        try:
            given = object_of(shown, "subscriptionProperties")
        except TypeError as error:
            self.found.unknown.append(f"{name}: {error}")
            given = {}
        made.cursors[stats.subscription] = LoadedCursor(
            info=PositionInfo(
                *stats.mark_delete_position,
                individually_deleted=stats.individually_deleted,
                batch_deleted=ack_sets,
                properties=dict(stats.properties),
            ),
            type=_type(stats.subscription_type),
            properties={str(key): str(value) for key, value in given.items()},
            ledger=stats.cursor_ledger,
        )

    # States without a topic name

    def _bytes(self, state: Inspection, topic: str, subscription: str) -> None:
        if state.info is None:
            raise StatsError(
                f"the state is in cursor ledger {state.cursor_ledger_id}, not in these bytes", state.source
            )
        made = LoadedTopic(known=KnownEntries(publish_ms=self._now_ms))
        info = state.info
        lengths: dict[int, int] = {info.ledger_id: info.entry_id + 1}
        ends = [(ledger, last) for ledger, _, last in info.individually_deleted]
        for ledger_id, last in (*ends, *info.batch_deleted):
            lengths[ledger_id] = max(lengths.get(ledger_id, 0), last + 1)
        made.ledgers = {ledger_id: (count, 0) for ledger_id, count in lengths.items()}
        self.found.unknown.append(
            f"{state.source}: the entries after the last acknowledged entry of each ledger"
        )
        self._state(made, info, self._topic or topic, self._subscription or subscription, "Shared")

    def _live(self, source: Subscription) -> None:
        if self._topic is None or self._subscription is None:
            raise ValueError(
                "a Subscription names neither itself nor its topic; give topic= and subscription="
            )
        made = LoadedTopic(
            ledgers={ledger_id: (count, 0) for ledger_id, count in source.cursor.ledgers},
            known=KnownEntries(publish_ms=self._now_ms, deliver_at_ms=dict(_delays(source))),
        )
        self._state(made, source.stage().info, self._topic, self._subscription, str(source.type))

    def _state(
        self, made: LoadedTopic, info: PositionInfo, topic: str, subscription: str, type_: str
    ) -> None:
        sizes = {
            position: max(from_words(words).bit_length(), 2) for position, words in info.batch_deleted.items()
        }
        made.known = KnownEntries(
            batch_sizes=sizes, publish_ms=self._now_ms, deliver_at_ms=made.known.deliver_at_ms
        )
        made.cursors[subscription] = LoadedCursor(info=info, type=_type(type_))
        self._put(str(TopicName.parse(topic)), made)

    # Recordings

    def _recording(self, files: list[Path]) -> None:
        followed: dict[str, TopicReplay] = {}
        types: dict[tuple[str, str], str] = {}
        delays: dict[str, dict[Position, int]] = defaultdict(dict)
        newest_ms = 0
        replay, errors = Replay(), dict[tuple[str, str], str]()
        for event in read_events(files):
            newest_ms = max(newest_ms, event.time_ms or 0)
            if event.topic == "*":
                self.found.unknown.append(f"{event.file}: {event.detail}")
                continue
            followed.setdefault(event.topic, TopicReplay()).feed(event)
            replay.feed(event)
            if event.kind is Kind.CONSUMER_OPEN and event.detail:
                types[event.topic, event.subscription] = event.detail
            elif event.kind is Kind.PUBLISH and event.deliver_at_ms:
                assert event.ledger_id is not None
                assert event.entry_id is not None
                delays[event.topic][Position(event.ledger_id, event.entry_id)] = event.deliver_at_ms
        payloads, damaged = read_payloads({path.parent for path in files})
        self.found.unknown.extend(damaged)
        cursors = {
            (state.topic, state.subscription): state.cursor for state in states_of(replay.fold, errors)
        }
        for name, topic in followed.items():
            made = LoadedTopic(
                ledgers={ledger_id: (count, 0) for ledger_id, count in topic.ledgers().items()},
                known=KnownEntries(
                    entries={
                        position: _entry(data, delays[name].get(position, 0))
                        for position, data in payloads[name].items()
                    },
                    batch_sizes=topic.sizes(),
                    deliver_at_ms=delays[name],
                    publish_ms=newest_ms or self._now_ms,
                ),
            )
            for subscription, each in topic.subscriptions.items():
                error = topic.errors.get(subscription) or errors.get((name, subscription))
                if error is not None:
                    self.found.unread.append(UnreadableSource(str(files[0].parent), name, error))
                elif (name, subscription) in cursors:
                    info = each.saved_info(cursors[name, subscription])
                    type_ = _type(types.get((name, subscription)))
                    made.cursors[subscription] = LoadedCursor(info=info, type=type_)
            self._put(str(TopicName.parse(name)), made)

    def _put(self, name: str, made: LoadedTopic) -> None:
        """Add a topic. If another source already contained the topic, merge both."""
        before = self.found.topics.get(name)
        if before is None:
            self.found.topics[name] = made
            return
        before.cursors |= made.cursors
        for ledger_id, (count, size) in made.ledgers.items():
            known = before.ledgers.get(ledger_id, (0, 0))
            before.ledgers[ledger_id] = max(known[0], count), max(known[1], size)
        sizes = before.known.batch_sizes
        # Each subscription's ack set gives a minimum of the batch size. Keep the greatest one.
        more = {each: max(size, sizes.get(each, 0)) for each, size in made.known.batch_sizes.items()}
        before.known = KnownEntries(
            entries={**before.known.entries, **made.known.entries},
            batch_sizes={**sizes, **more},
            deliver_at_ms={**before.known.deliver_at_ms, **made.known.deliver_at_ms},
            publish_ms=max(before.known.publish_ms, made.known.publish_ms),
        )


def _type(name: str | None) -> SubscriptionType:
    try:
        return SubscriptionType(name or "")
    except ValueError:
        # A broker reports no type before the first consumer subscribes. That consumer then sets the type.
        return SubscriptionType.EXCLUSIVE


def _delays(source: Subscription) -> Iterator[tuple[Position, int]]:
    """Yield the delayed positions with their delivery times.

    The times are taken from a copy of the tracker, because the tracker removes the positions that it returns.
    """
    tracker = copy.deepcopy(source.delayed)
    if tracker is not None:
        times, *ids = (column.tolist() for column in tracker.pop_due(TIME_MAX_MS, max(len(tracker), 1)))
        yield from zip(map(Position, *ids), times, strict=True)


def _entry(data: bytes, deliver_at_ms: int) -> LogEntry:
    metadata = read_payload(data).metadata
    transaction = TransactionId.of(metadata) if metadata.HasField("txnid_most_bits") else None
    return LogEntry(data, metadata.num_messages_in_batch, metadata.publish_time, deliver_at_ms, transaction)
