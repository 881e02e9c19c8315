"""Read a broker's statistics of its subscriptions: `stats-internal`, alone or together with `stats`.

The reader detects the kind of a file by its content. A file may be gzipped or pasted by hand:

- the answer of `pulsar-admin topics stats-internal` or `partitioned-stats-internal`;
- several answers in one file: one after the other, each optionally under a line with its topic; as an array;
  or as an object that maps topics to answers;
- the answers of `stats-internal` and `stats` about one topic in one file, also with the answer of
  `info-internal`, which contains the persisted cursors;
- recorded objects `{internalStats, stats, cursor}`.

A value that the file does not show is `None` in `SubscriptionStats`, never a guess.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from ackwell.broker.batch_sizes import BatchSizes
from ackwell.broker.contradictions import Contradiction, DumpFields, DumpPart, contradictions_of
from ackwell.broker.dispatch import DispatchStats, dispatch_of
from ackwell.broker.documents import HOW_TO, LongRanges, documents_of
from ackwell.broker.fields import (
    count,
    flag,
    integer,
    known_count,
    known_integer,
    object_of,
    shortened,
    text,
    words,
)
from ackwell.broker.info import is_info, ledgers_of, persisted_cursor
from ackwell.broker.names import INTERNAL_SUBSCRIPTIONS, decoded_name, subscription_name
from ackwell.cursor.ack_sets import from_words, to_words
from ackwell.cursor.cursor_state import AckSetMapping, CursorState, backlog_beyond, existing
from ackwell.errors import CorruptStateError, LimitError, StatsError
from ackwell.integers import INT64_MAX
from ackwell.object_paths import AnyPath, any_path, require_paths
from ackwell.position import Position
from ackwell.regular_files import files_under, read_regular
from ackwell.sources import ANSWER_KINDS, ANSWER_SUFFIXES, SourceKind, source_kind, wrong_kind

if TYPE_CHECKING:
    from ackwell import Ledgers, PositionRangeSet
    from ackwell.broker.writes import CursorLedger


_TIME_END_MS: Final = 253_402_300_800_000
"""The start of the year 10000, in milliseconds since 1970. `datetime` cannot represent this or a later
time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSize:
    """A ledger in the broker's list of a topic's ledgers."""

    ledger_id: int
    entries: int
    size_bytes: int
    is_offloaded: bool = False


class SubscriptionOverview(NamedTuple):
    """The facts that a broker's overview shows about a subscription without ranges.

    See `ackwell.broker.overview`.
    """

    backlog_entries: int
    """The number of entries in the backlog; 0 without a backlog. Consumers receive and acknowledge the
    messages of the backlog. If they did not, the topic would need a closer look."""
    delivered_nothing: bool
    """Whether no message of the topic was delivered since the broker loaded it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStats(CursorState):
    """The state of one subscription at one moment, from the statistics of its broker."""

    topic: str
    """The topic: from the metadata of a ledger, else from the key of the answer, else from its file name."""
    subscription: str
    source: str
    """The file or address from which the statistics were read."""
    ledgers: Ledgers
    read_position: Position | None
    ledger_sizes: tuple[LedgerSize, ...]
    cursor_ledger: CursorLedger
    batch_sizes: BatchSizes
    persisted_mark_delete: Position | None
    """The mark-delete position on disk; None if the source does not show it. In the admin API, only
    `info-internal` shows it."""
    delayed_messages: int | None
    subscription_type: str | None
    durable: bool
    time_ms: int | None
    mark_delete_moved_ms: int | None
    """The time at which the mark-delete position last moved; None if the broker reports no such move."""
    dispatch: DispatchStats | None
    """The state of the delivery; None without an answer of `stats`."""
    internal_cursor: bool
    """Whether this is a cursor of the broker itself, for replication, deduplication or compaction."""
    backlog_end: Position | None = None
    """The last entry of the counted backlog; None if the backlog was not counted, or contains markers."""
    markers_only: bool = False
    """Whether the backlog was counted and contains only markers of transactions or replication."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Properties of the cursor, such as the compacted ledger of `__compaction`; not of the subscription."""
    topic_properties: Mapping[str, Any] = field(default_factory=dict)
    untouched: bool = False
    """Whether no consumer has connected since the broker loaded the topic; the type of the subscription is
    `None` until then."""
    unreadable: tuple[str, ...] = ()
    """The errors in the fields about the delivery. If there are any, `dispatch` is None."""
    shows_cursor: bool = True
    """False for an answer of `stats` alone: positions, ranges and ledgers are unknown and empty."""
    persisted: CursorState | None = None
    """The acknowledgments in the metadata store, from `info-internal`; None if the source does not show
    them."""
    persisted_only: bool = False
    """True for an answer of `info-internal` alone: the acknowledgments are the persisted ones."""
    owner: str | None = None
    """The admin address of the broker that owns the topic; None if the source does not show it."""
    cursor_state: str | None = None
    """The state of the cursor, such as `Open` or `NoLedger`."""
    cursor_ledger_id: int | None = None
    """The id of the ledger to which the cursor is written; -1 without a ledger."""
    cursor_ledger_last_entry: int | None = None
    """The id of the last entry of the cursor ledger. Each write of the cursor adds one entry."""
    entries_added: int | None = None
    """The number of entries published since the broker loaded the topic."""
    split_ranges: int = 0
    """The number of ranges that are added when ranges over several ledgers are split into one per ledger.
    The broker counts the pieces of such a range as one range."""
    contradictions: tuple[Contradiction, ...] = ()
    """The fields of the dump that cannot all be right."""
    overview: SubscriptionOverview | None = None
    """The facts from the broker's overview, if only the overview was read; `shows_cursor` is then False."""

    @property
    def unknown(self) -> frozenset[DumpPart]:
        """The parts of the dump that are missing or contradictory."""
        missing: tuple[DumpPart, ...] = ()
        if not self.shows_cursor:
            missing = (DumpPart.LEDGERS, DumpPart.ACKNOWLEDGMENTS, DumpPart.WRITES)
        elif self.persisted_only:
            missing = (DumpPart.LEDGERS, DumpPart.WRITES)
        return frozenset(missing).union(*(each.unknown for each in self.contradictions))

    @property
    def shows_acknowledgments(self) -> bool:
        """Whether the mark-delete position and the ranges are known."""
        return DumpPart.ACKNOWLEDGMENTS not in self.unknown

    @property
    def shows_ledgers(self) -> bool:
        """Whether it is known which entries exist."""
        return DumpPart.LEDGERS not in self.unknown

    def required(self) -> Self:
        """Return `self` if the entries and acknowledgments of the subscription are known.

        Raises `StatsError` otherwise; the message names the missing answer or the contradiction.
        """
        if not self.shows_cursor:
            raise StatsError(
                f"subscription {shortened(self.subscription)}: an answer of `topics stats` alone does not "
                f"show the cursor; {HOW_TO}",
                self.source,
            )
        if self.persisted_only:
            raise StatsError(
                f"subscription {shortened(self.subscription)}: `info-internal` shows only the persisted "
                f"acknowledgments; {HOW_TO}",
                self.source,
            )
        if not (self.shows_acknowledgments and self.shows_ledgers):
            first = next(each for each in self.contradictions if each.unknown)
            raise StatsError(f"subscription {shortened(self.subscription)}: {first}", self.source)
        return self

    @property
    def blocked_ms(self) -> int | None:
        """The time since the mark-delete position last moved; None if the source does not show it."""
        if self.time_ms is None or self.mark_delete_moved_ms is None:
            return None
        return max(self.time_ms - self.mark_delete_moved_ms, 0)

    @property
    def quiet_ms(self) -> int | None:
        """The time since the last acknowledgment; None if the source does not show it.

        A broker reports the last acknowledgment of connected consumers only. If the counters show that a
        disconnected consumer received messages, the time is unknown.
        """
        dispatch = self.dispatch
        if self.time_ms is None or dispatch is None or not dispatch.consumers:
            return None
        received = [each.messages_out for each in dispatch.consumers]
        if dispatch.messages_out is None or dispatch.messages_out != sum(each or 0 for each in received):
            return None
        acked = [each.last_acked_ms for each in dispatch.consumers]
        # The time is 0 for a consumer that has acknowledged nothing, such as the second consumer of a
        # Failover subscription.
        if None in acked or not any(acked):
            return None
        return max(self.time_ms - max(self.mark_delete_moved_ms or 0, *(each or 0 for each in acked)), 0)

    @property
    def range_count(self) -> int | None:
        """The number of ranges; None if it is unknown."""
        if self.overview is not None:
            return 0
        return len(self.individually_deleted) if self.shows_acknowledgments else None

    @property
    def backlog_entries(self) -> int | None:
        """The number of existing entries that are not wholly acknowledged; None if it is unknown."""
        if self.overview is not None:
            return self.overview.backlog_entries
        if not (self.shows_acknowledgments and self.shows_ledgers):
            return None
        acked = existing(self.individually_deleted, self.ledgers)
        return backlog_beyond(self.ledgers, self.mark_delete_position, acked)


class UnreadableSource(NamedTuple):
    """A source that cannot be read. The commands report and count it, and examine the other sources."""

    source: str
    topic: str | None
    """The topic, if the source has only one."""
    reason: str


def read_each(sources: Iterable[str | AnyPath]) -> Iterator[SubscriptionStats | UnreadableSource]:
    """Yield every subscription of files and folders, and an `UnreadableSource` for each damaged file."""
    require_paths(sources)
    for source in sources:
        try:
            files = stats_files(source)
        except StatsError as error:
            yield UnreadableSource(error.source, None, error.reason)
            continue
        for file in files:
            try:
                yield from parse_each(_read(file), str(file), name=file.name)
            except StatsError as error:
                yield UnreadableSource(error.source, None, error.reason)


def newest(
    found: Iterable[SubscriptionStats | UnreadableSource], unread: list[UnreadableSource]
) -> dict[tuple[str, str], SubscriptionStats]:
    """Return the newest dump of each subscription, by topic and name. Add unreadable sources to `unread`."""
    newest: dict[tuple[str, str], SubscriptionStats] = {}
    for each in found:
        if isinstance(each, UnreadableSource):
            unread.append(each)
            continue
        name = each.topic, each.subscription
        if name not in newest or (each.time_ms or 0) >= (newest[name].time_ms or 0):
            newest[name] = each
    return newest


def stats_files(source: str | AnyPath) -> list[AnyPath]:
    """Return the file `source`, or each `.json` and `.json.gz` file under the folder `source`, by name."""
    try:
        path = any_path(source)
        if not path.is_dir():
            return [path]
        files = [each for each in files_under(path) if each.name.endswith(ANSWER_SUFFIXES)]
    except OSError as error:
        raise StatsError(f"cannot be read: {error.strerror or error}", str(source)) from None
    if not files:
        raise StatsError(f"no .json or .json.gz file in the folder; {HOW_TO}, a file a topic", str(source))
    return files


def read_stats(source: str | AnyPath) -> Iterator[SubscriptionStats]:
    """Yield every subscription of a file, or of each `.json` and `.json.gz` file under a folder.

    Raises `StatsError`, which names the file and the error.
    """
    for file in stats_files(source):
        yield from parse_stats(_read(file), str(file), name=file.name)


def parse_stats(data: bytes, source: str, *, name: str | None = None) -> Iterator[SubscriptionStats]:
    """Yield every subscription of one answer; `name` is its topic if the answer does not name one.

    Raises `StatsError` if the data is not an answer of a broker, or if it lacks a required field of a cursor.
    """
    for found in parse_each(data, source, name=name):
        if isinstance(found, UnreadableSource):
            raise StatsError(found.reason, found.source)
        yield found


def parse_each(
    data: bytes, source: str, *, name: str | None = None
) -> Iterator[SubscriptionStats | UnreadableSource]:
    """Yield every subscription of one answer, and an `UnreadableSource` for each unreadable subscription.

    Raises `StatsError` if the data is not an answer of a broker.
    """
    kind = source_kind(data)
    if kind not in _READABLE:
        raise StatsError(wrong_kind(kind, SourceKind.STATS), source)
    found, document = False, None
    documents = documents_of(data, source, pasted=True)
    # A dump may be large, so its bytes are released early.
    del data
    for heading, document in _of_one_topic(documents):
        for key, answer in answers_of(document, heading or name or source):
            found = True
            yield from _subscriptions(answer, key, source)
        if not found:
            for key, stats in _stats_of(document, heading or name or source):
                found = True
                yield from _of_stats_alone(stats, key, source)
    if not found:
        raise StatsError(_description_of(document), source)


_READABLE: Final = (*ANSWER_KINDS, SourceKind.HTML, SourceKind.BINARY, SourceKind.EMPTY)
"""Files of these kinds are passed to the JSON decoder, which reports their error."""


def _of_one_topic(documents: Iterator[tuple[str | None, Any]]) -> Iterator[tuple[str | None, Any]]:
    """Join the documents of a file to one dump if all of them are answers about the same topic.

    The documents may be in any order. If they are not all about the same topic, yield them unchanged.
    """
    first = list(islice(documents, 4))
    parts: dict[str, Any] = {}
    headings = {heading for heading, _ in first if heading is not None}
    if 1 < len(first) < 4 and len(headings) < 2:
        parts = {kind: document for _, document in first if (kind := _kind_of(document)) is not None}
    if len(parts) == len(first) and "internalStats" in parts and _names_agree(parts):
        first = [(next(iter(headings), None), parts)]
    yield from first
    yield from documents


def _kind_of(document: Any) -> str | None:
    """Return the key of an answer in a dump, such as `stats`; None if the document is not an answer."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("subscriptions"), dict) and document["subscriptions"]:
        return "stats"
    if not isinstance(document.get("cursors"), dict):
        return None
    return "info" if is_info(document) else "internalStats"


def _names_agree(parts: Mapping[str, Any]) -> bool:
    """Return whether the answers can be about the same topic.

    The result is True if `stats-internal` has a cursor for each subscription in the other answers.
    """
    cursors: Set[str] = parts["internalStats"]["cursors"].keys()
    names = set(map(decoded_name, cursors)) | cursors
    info: Set[str] = parts.get("info", {}).get("cursors", {}).keys()
    shown: Set[str] = parts.get("stats", {}).get("subscriptions", {}).keys()
    return shown <= names and info <= cursors


def from_answer(
    answer: Mapping[str, Any], topic: str, source: str
) -> Iterator[SubscriptionStats | UnreadableSource]:
    """Yield every subscription of one decoded answer: `stats-internal`, or `{internalStats, stats}`."""
    return _subscriptions(answer, topic, source)


def _read(path: AnyPath) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise StatsError(f"cannot be read: {error.strerror}", str(path)) from None


def answers_of(value: Any, topic: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each broker answer in a document, with its topic.

    The topic is the one that the answer names, or else the nearest key above the answer in the document, or
    else `topic`. Only keys that contain `://` count as topics.
    """
    # This is a loop, because JSON may be nested deeper than Python's limit of recursion.
    left: list[tuple[Any, str]] = [(value, topic)]
    while left:
        value, topic = left.pop()
        if isinstance(value, list):
            left += [(item, topic) for item in reversed(value)]
        elif isinstance(value, dict):
            internal = value.get("internalStats", value)
            if is_info(value):
                yield topic, {"info": value, "internalStats": {"ledgers": [], "cursors": value["cursors"]}}
            elif isinstance(internal, dict) and isinstance(internal.get("cursors"), dict):
                # A dump of `ackwell collect` names its topic.
                named = value.get("topic")
                yield named if isinstance(named, str) else topic, value
            else:
                items = [(item, key if "://" in key else topic) for key, item in value.items()]
                left += [(item, key) for item, key in reversed(items) if isinstance(item, dict | list)]


def _stats_of(value: Any, topic: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each answer of `stats` in a document, with its topic.

    A partitioned topic has one answer for each partition.
    """
    left: list[tuple[Any, str]] = [(value, topic)]
    while left:
        value, topic = left.pop()
        if isinstance(value, list):
            left += [(item, topic) for item in reversed(value)]
        elif isinstance(value, dict):
            partitions = value.get("partitions")
            if isinstance(value.get("subscriptions"), dict) and not partitions:
                yield topic, value
            else:
                inner = partitions if isinstance(partitions, dict) and partitions else value
                items = [(item, key if "://" in key else topic) for key, item in inner.items()]
                left += [(item, key) for item, key in reversed(items) if isinstance(item, dict | list)]


def _description_of(document: Any) -> str:
    """Describe a JSON document without an answer of a broker, for an error message."""
    if isinstance(document, dict):
        if isinstance(document.get("reason"), str):
            return f"the admin API refused: {document['reason']}"
        keys = ", ".join(list(document)[:5]) or "none"
        return f"no `cursors` in this JSON object (its keys: {keys}); {HOW_TO}"
    return f"a JSON {type(document).__name__} without `cursors`; {HOW_TO}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer about a topic, split into its parts; a missing part is empty."""

    topic: str
    source: str
    internal: Mapping[str, Any]
    stats: Mapping[str, Any]
    memory: Mapping[str, Any]
    """A dump of the memory of one cursor. It names the subscription of the cursor."""
    policies: Mapping[str, Any]
    backlogs: Mapping[str, Any]
    info: Mapping[str, Any]
    """The answer of `info-internal`."""
    persisted_only: bool
    ledgers_are_cut: bool
    sizes: tuple[LedgerSize, ...]
    ledgers: Ledgers
    time_ms: int | None
    owner: str | None

    @classmethod
    def of(cls, answer: Mapping[str, Any], name: str, source: str) -> Answer:
        """Split an answer. Raises an error of `UNREADABLE_ERRORS` if a part has the wrong type."""
        internal, info = object_of(answer, "internalStats") or answer, object_of(answer, "info")
        persisted_only = bool(info) and internal.get("cursors") is info.get("cursors")
        if persisted_only:
            internal = {"ledgers": ledgers_of(info), "cursors": info["cursors"]}
        listed = internal.get("ledgers")
        ledgers_are_cut = isinstance(listed, str) and _is_cut_off(listed)
        if ledgers_are_cut:
            internal = {**internal, "ledgers": []}
        sizes = ledger_sizes(internal)
        return cls(
            topic=topic_of(internal) or name,
            source=source,
            internal=internal,
            stats=object_of(answer, "stats"),
            memory=object_of(answer, "cursor"),
            policies=object_of(answer, "policies"),
            backlogs=object_of(answer, "backlogs"),
            info=info,
            persisted_only=persisted_only,
            ledgers_are_cut=ledgers_are_cut,
            sizes=sizes,
            ledgers=_ledgers(sizes),
            time_ms=_time(answer, "t"),
            owner=owner if isinstance(owner := answer.get("owner"), str) else None,
        )


def _subscriptions(
    answer: Mapping[str, Any], name: str, source: str
) -> Iterator[SubscriptionStats | UnreadableSource]:
    try:
        parts = Answer.of(answer, name, source)
        cursors = object_of(parts.internal, "cursors")
    except UNREADABLE_ERRORS as error:
        yield UnreadableSource(source, name, f"{name}: {_reason_of(error)}")
        return
    for subscription in cursors:
        reasons: Iterable[str]
        try:
            found = _checked(parts, subscription, object_of(cursors, subscription))
        except UNREADABLE_ERRORS as error:
            # The other subscriptions of the topic are still examined.
            reasons = [_reason_of(error)]
        else:
            yield found
            reasons = found.unreadable
        for reason in reasons:
            where = f"{name}: subscription {shortened(subscription)}"
            yield UnreadableSource(source, parts.topic, f"{where}: {reason}")


def _of_stats_alone(
    stats: Mapping[str, Any], topic: str, source: str
) -> Iterator[SubscriptionStats | UnreadableSource]:
    """Yield the subscriptions of `topics stats`, which shows consumers and permits, but not the cursor."""
    cursor = {"markDeletePosition": "-1:-1", "individuallyDeletedMessages": "[]"}
    answer = {"internalStats": {"ledgers": [], "cursors": dict.fromkeys(stats["subscriptions"], cursor)}}
    for found in _subscriptions({**answer, "stats": stats}, topic, source):
        if isinstance(found, UnreadableSource):
            yield found
        elif found.dispatch is not None:
            yield replace(found, shows_cursor=False)


UNREADABLE_ERRORS: Final = (KeyError, CorruptStateError, LimitError, ValueError, TypeError)
"""The errors that are raised if a part of an answer is missing or has the wrong type."""


def _reason_of(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no {error.args[0]!r} in the answer; {HOW_TO}"
    return str(error)


def _checked(answer: Answer, name: str, cursor: Mapping[str, Any]) -> SubscriptionStats:
    """Return a subscription of an answer, with the contradictions between its fields."""
    cut = [
        Contradiction(f"{part} are cut off", f"the text of the {part} is cut off", frozenset(unknown))
        for part, is_cut, unknown in (
            ("ranges", _is_cut_off(cursor.get("individuallyDeletedMessages")), (DumpPart.ACKNOWLEDGMENTS,)),
            ("ledgers", answer.ledgers_are_cut, (DumpPart.LEDGERS, DumpPart.BATCH_SIZES)),
        )
        if is_cut
    ]
    if cut:
        cursor = {"individuallyDeletedMessages": "[]", **_without_cuts(cursor)}
    found = _subscription(answer, name, cursor)
    fields = DumpFields(
        internal=answer.internal,
        cursor=cursor,
        topic_stats=answer.stats,
        stats=_shown(answer, found.subscription),
        mark_delete=found.mark_delete_position,
        read_position=found.read_position,
        ranges=found.individually_deleted,
        split_ranges=found.split_ranges,
        ledgers=found.ledgers,
        batch_sizes=found.batch_sizes,
        time_ms=found.time_ms,
    )
    # If a part is cut off, the checks would only report the cut once more.
    contradictions = tuple(cut or contradictions_of(fields))
    if any(DumpPart.BATCH_SIZES in each.unknown for each in contradictions):
        found = replace(found, batch_sizes=BatchSizes(each=None))
    return replace(found, contradictions=contradictions) if contradictions else found


_CUT_OFF: Final = re.compile(r"\.{3,}|…")


def _is_cut_off(text: Any) -> bool:
    """Return whether `...` replaces a part of a text of ranges."""
    if isinstance(text, LongRanges):
        return text.is_cut_off
    return isinstance(text, str) and _CUT_OFF.search(text) is not None


def _without_cuts(cursor: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cursor.items() if not _is_cut_off(value)}


def _shown(answer: Answer, subscription: str) -> Mapping[str, Any]:
    """Return the statistics of a subscription from `stats`; an empty mapping if `stats` does not list it."""
    return object_of(object_of(answer.stats, "subscriptions"), subscription)


def _subscription(answer: Answer, name: str, cursor: Mapping[str, Any]) -> SubscriptionStats:
    stats, ledgers = answer.stats, answer.ledgers
    subscription = subscription_name(name, object_of(stats, "subscriptions"))
    memory = answer.memory if answer.memory.get("name", name) in (name, subscription) else {}
    policies, backlog = object_of(answer.policies, subscription), object_of(answer.backlogs, subscription)
    shown = _shown(answer, subscription)
    if answer.persisted_only:
        cursor = persisted_cursor(cursor)
    mark_delete = _mark_delete(cursor["markDeletePosition"], ledgers)
    ranges, split_ranges = _ranges(cursor["individuallyDeletedMessages"], answer.sizes)
    persisted = object_of(memory, "persistentMarkDelete")
    read_position = text(cursor, "readPosition")
    dispatch, unreadable = _delivery(shown, cursor, stats, policies)
    # An unpaired surrogate is not valid text, and no output can contain it.
    f"{answer.topic}{subscription}".encode()
    return SubscriptionStats(
        topic=answer.topic,
        subscription=subscription,
        source=answer.source,
        mark_delete_position=mark_delete,
        read_position=_read_position(read_position) if read_position else None,
        individually_deleted=ranges,
        batch_deleted=_ack_sets(memory),
        ledgers=ledgers,
        ledger_sizes=answer.sizes,
        cursor_ledger=_cursor_ledger(cursor),
        batch_sizes=_batch_sizes(answer.internal, stats, backlog),
        persisted_mark_delete=Position(integer(persisted, "ledger"), integer(persisted, "entry"))
        if persisted
        else None,
        persisted=_persisted(answer, name),
        persisted_only=answer.persisted_only,
        delayed_messages=None if unreadable else known_count(shown, "msgDelayed"),
        subscription_type=text(shown, "type"),
        durable=_is_durable(shown, cursor),
        time_ms=answer.time_ms,
        mark_delete_moved_ms=_time(shown, "lastMarkDeleteAdvancedTimestamp") or None,
        dispatch=dispatch,
        unreadable=unreadable,
        internal_cursor=(bool(stats) and not shown) or subscription in INTERNAL_SUBSCRIPTIONS,
        backlog_end=_backlog_end(backlog),
        markers_only=_is_whole(backlog) and not count(backlog, "entries") and _markers(backlog) > 0,
        properties=object_of(cursor, "properties"),
        topic_properties=object_of(answer.internal, "properties"),
        untouched=shown.get("type") == "None" and not shown.get("consumers"),
        owner=answer.owner,
        cursor_state=text(cursor, "state"),
        cursor_ledger_id=known_integer(cursor, "cursorLedger"),
        cursor_ledger_last_entry=known_integer(cursor, "cursorLedgerLastEntry"),
        entries_added=known_count(answer.internal, "entriesAddedCounter"),
        split_ranges=split_ranges,
    )


def _persisted(answer: Answer, name: str) -> CursorState | None:
    """Return the acknowledgments of a cursor in the metadata store; None if the answer does not show them."""
    cursor = object_of(object_of(answer.info, "cursors"), name)
    if not cursor or integer(cursor, "cursorsLedgerId", -1) >= 0:
        return None
    found = persisted_cursor(cursor)
    ranges, _ = _ranges(found["individuallyDeletedMessages"], answer.sizes)
    mark_delete = _mark_delete(found["markDeletePosition"], answer.ledgers)
    return CursorState(mark_delete, ranges, ledgers=answer.ledgers)


def _delivery(
    shown: Mapping[str, Any], cursor: Mapping[str, Any], stats: Mapping[str, Any], policies: Mapping[str, Any]
) -> tuple[DispatchStats | None, tuple[str, ...]]:
    """Return the state of delivery and no errors, or None and the error in a damaged field.

    The state is also None if `shown` is empty. An error does not affect the restart verdict, which does not
    need the state of delivery.
    """
    if not shown:
        return None, ()
    try:
        return dispatch_of(shown, cursor, stats, policies), ()
    except (TypeError, ValueError) as error:
        return None, (str(error),)


def _time(values: Mapping[str, Any], name: str) -> int | None:
    """Return a time in ms, or None; a time after the year 9999 is an error."""
    if values.get(name) is None:
        return None
    time_ms = integer(values, name)
    if not 0 <= time_ms < _TIME_END_MS:
        raise ValueError(f"{name} is {time_ms}; expected milliseconds since 1970")
    return time_ms


_RANGE: Final = re.compile(r"\((\d+):(-?\d+)\.\.(\d+):(-?\d+)\]")


def _ranges(shown: Any, sizes: tuple[LedgerSize, ...]) -> tuple[PositionRangeSet, int]:
    """Parse ranges. Return the ranges, and the number of ranges that were added by splitting.

    With `managedLedgerUnackedRangesOpenCacheSetEnabled=false`, a range may begin in one ledger and end in
    another. Such a range is split at the end of each ledger.
    """
    from ackwell import PositionRangeSet

    try:
        return shown.ranges() if isinstance(shown, LongRanges) else PositionRangeSet.parse(shown), 0
    except CorruptStateError:
        printed = shown.text() if isinstance(shown, LongRanges) else shown
        joined = [tuple(map(int, each)) for each in _RANGE.findall(printed)]
        over_an_end = [each for each in joined if each[0] < each[2]]
        is_whole = re.sub(r"\s", "", printed) == _text_of(joined)
        if not is_whole or not over_an_end or max(map(max, joined)) >= INT64_MAX:
            raise
        found = PositionRangeSet.parse(_text_of(each for each in joined if each[0] >= each[2]))
        before = len(found)
        for each in over_an_end:
            for piece in _pieces(each, sizes):
                found.add_range(*piece)
        return found, max(len(found) - before - len(over_an_end), 0)


def _text_of(ranges: Iterable[tuple[int, ...]]) -> str:
    """Return ranges as a broker prints them."""
    return "[" + ",".join("({}:{}..{}:{}]".format(*each) for each in ranges) + "]"


def _pieces(over_an_end: tuple[int, ...], sizes: tuple[LedgerSize, ...]) -> Iterator[tuple[int, int, int]]:
    """Split a range at the end of each ledger; yield pieces `(ledger_id, lower, upper)`.

    Keep both ends of the range, even if the ledgers do not have these entries. `contradictions_of` then finds
    the contradiction.
    """
    first, lower, last, upper = over_an_end
    entries = {each.ledger_id: each.entries for each in sizes if first <= each.ledger_id <= last}
    if entries.get(first, 0) <= lower:
        yield first, lower, lower + 1
    for ledger_id, size in entries.items():
        start = lower if ledger_id == first else -1
        end = upper if ledger_id == last else size - 1
        if start < end:
            yield ledger_id, start, end
    if last not in entries and upper >= 0:
        yield last, -1, upper


def _position(text: Any) -> Position:
    """Parse a position. Raises `ValueError` unless both ids are from -1 to 2^63 - 2."""
    if not isinstance(text, str):
        raise ValueError(f"expected a position such as '3:5', got {text!r}")
    position = Position.parse(text)
    if not (-1 <= position.ledger_id < INT64_MAX and -1 <= position.entry_id < INT64_MAX):
        raise ValueError(f"position {text}: ids are from -1 to 2^63 - 2")
    return position


def _is_durable(shown: Mapping[str, Any], cursor: Mapping[str, Any]) -> bool:
    """Return whether a cursor may be durable. A broker persists durable cursors only.

    The flags `isDurable` and `durable` show whether a cursor is durable. The result is False only if one of
    them is false, neither is true, and no cursor ledger exists.
    """
    flags = [flag(shown, name) for name in ("isDurable", "durable")]
    return False not in flags or True in flags or (known_integer(cursor, "cursorLedger") or -1) >= 0


def _read_position(text: str) -> Position:
    """Parse a read position, and ignore a note about an ack set.

    After a seek and before the next read, a broker prints the read position as `5589:1 (ackSet with long[]
    size of 1)` or `540:3 (ackSet is null)`.
    """
    return _position(text.partition(" (ackSet ")[0])


def _mark_delete(text: Any, ledgers: Ledgers) -> Position:
    """Parse a mark-delete position. An unused cursor has `-1:-1`, the position before the first entry."""
    position = _position(text)
    if position.ledger_id >= 0:
        return position
    first = ledgers.first_position
    return Position(0 if first is None else first.ledger_id, -1)


def _cursor_ledger(cursor: Mapping[str, Any]) -> CursorLedger:
    if text(cursor, "state") != "NoLedger":
        return "open"
    return "read-only" if integer(cursor, "cursorLedger", -1) >= 0 else "none"


def _ack_sets(memory: Mapping[str, Any]) -> AckSetMapping | None:
    """Return the ack sets in a memory dump; None without a dump, because the admin API shows no ack sets."""
    if "batchDeletedIndexes" in memory:
        shown = object_of(memory, "batchDeletedIndexes")
        return {_position(position): to_words(from_words(words(shown, position))) for position in shown}
    # A cursor without a ledger that delivered nothing may have ack sets, too, because a client may
    # acknowledge messages of batches that it received before the topic was loaded.
    return None


def _batch_sizes(
    internal: Mapping[str, Any], stats: Mapping[str, Any], backlog: Mapping[str, Any]
) -> BatchSizes:
    """Derive the batch sizes from the counters, as far as the counters prove them.

    The counters cover all entries only if all were published since the broker loaded the topic. Equal numbers
    of messages and entries then mean one message per entry, unless the topic has entries without messages
    (markers of transactions or replication). In all other cases the totals only bound the sizes.
    `avgMessagesPerEntry` is a rounded moving mean per consumer, so it proves nothing about a single entry,
    even if it is a whole number.
    `backlog` is the answer of `analyze-backlog`, or empty.
    """
    messages, entries = count(stats, "msgInCounter", 0), count(internal, "entriesAddedCounter", 0)
    covered = messages > 0 and "numberOfEntries" in internal and entries >= count(internal, "numberOfEntries")
    markers = any(stats.get(name) for name in _MARKER_SIGNS)
    if covered and not markers and messages == entries:
        return BatchSizes(each=1)
    sizes = BatchSizes(each=None)
    if covered and not markers and messages > entries:
        sizes = replace(sizes, total_messages=messages, total_entries=entries)
    if _is_whole(backlog) and not markers:
        # A marker is an entry without a message; the answer counts markers separately.
        entries, counted = (count(backlog, each) + _markers(backlog) for each in ("entries", "messages"))
        sizes = replace(sizes, backlog_entries=entries, backlog_messages=counted)
    return sizes


def _is_whole(backlog: Mapping[str, Any]) -> bool:
    """Return whether `analyze-backlog` answered and counted the whole backlog."""
    return flag(backlog, "aborted") is False


def _markers(backlog: Mapping[str, Any]) -> int:
    return count(backlog, "markerMessages", 0)


def _backlog_end(backlog: Mapping[str, Any]) -> Position | None:
    last = text(backlog, "lastMessageId")
    if not _is_whole(backlog) or _markers(backlog) or last is None:
        return None
    # The id may contain a batch index.
    return _position(":".join(last.split(":")[:2]))


_MARKER_SIGNS: Final = ("ongoingTxnCount", "abortedTxnCount", "committedTxnCount", "replication")
"""Fields of `stats`. If one of them is neither 0 nor empty, the topic may hold entries without messages."""


def ledger_sizes(internal: Mapping[str, Any]) -> tuple[LedgerSize, ...]:
    """List the ledgers with their sizes.

    A broker lists the open ledger with 0 entries; its size is in other fields of the answer.
    """
    last = _position(internal.get("lastConfirmedEntry", "-1:-1"))
    listed = internal["ledgers"]
    if not isinstance(listed, list) or not all(isinstance(info, dict) for info in listed):
        raise TypeError(f"ledgers is {shortened(listed)}; expected an array of objects")
    sizes = []
    for info in listed:
        ledger_id, entries = integer(info, "ledgerId"), count(info, "entries")
        size_bytes = count(info, "size", 0)
        if info is listed[-1] and not entries:
            entries = count(internal, "currentLedgerEntries", 0)
            size_bytes = count(internal, "currentLedgerSize", 0)
        if ledger_id == last.ledger_id:
            entries = max(entries, last.entry_id + 1)
        offloaded = info.get("offloaded") is True
        sizes.append(
            LedgerSize(ledger_id=ledger_id, entries=entries, size_bytes=size_bytes, is_offloaded=offloaded)
        )
    return tuple(sizes)


def _ledgers(sizes: tuple[LedgerSize, ...]) -> Ledgers:
    from ackwell import Ledgers

    return Ledgers((ledger.ledger_id, ledger.entries) for ledger in sizes)


_MANAGED_LEDGER: Final = re.compile(r"pulsar/managed-ledger=base64:([A-Za-z0-9+/=]+)")


def topic_of(internal: Mapping[str, Any]) -> str | None:
    """Return the topic in the metadata of a ledger (`stats-internal --metadata`); None if it is missing."""
    for info in internal["ledgers"]:
        found = _MANAGED_LEDGER.search(text(info, "metadata") or "")
        if found:
            try:
                tenant, namespace, domain, topic = base64.b64decode(found[1]).decode().split("/", 3)
            except (binascii.Error, ValueError):
                continue
            return f"{domain}://{tenant}/{namespace}/{decoded_name(topic)}"
    return None
