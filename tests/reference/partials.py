"""The effect of events on many subscriptions, with sets and dictionaries, row by row."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ackwell.cursor.ack_sets import from_words, to_signed_words, to_words
from ackwell.errors import CorruptStateError, Flaw, LimitError, NewerVersionError, ProtocolError
from ackwell.position import Position
from ackwell.replay.events import Action
from ackwell.wire import varint
from tests.reference.ledgers import Ledgers
from tests.reference.position_info import PositionInfo
from tests.reference.range_set import PositionRangeSet

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Codes = tuple[NDArray[np.int32] | None, NDArray[np.int32]]

NULL = -(2**63)
TOPIC = 0
MAGIC, VERSION = b"AKPT", 2

Order = tuple[str, int]
FIRST: Order = ("", NULL)

NOTHING, PLACED, EXISTS, ACK, UP_TO, CLEAR, SEEK, *_MORE = Action
TRIM, DELETE, IN_TRANSACTION, UNKNOWN, MISSING, VOID, NAMED, DELIVERED, COMMIT = _MORE
NEEDS_SUBSCRIPTION = set(Action) - {NOTHING, EXISTS, TRIM, COMMIT, UNKNOWN, MISSING}
NEEDS_POSITION = set(Action) - {NOTHING, NAMED, CLEAR, DELETE, COMMIT, UNKNOWN, MISSING}
INCOMPLETE, UNKNOWN_KIND, NO_POSITION, NEGATIVE, BATCH_TOO_LARGE, SEEK_BETWEEN, BLIND, UNRESOLVED = Flaw
FLAWS = (
    "the event has no kind, no sequence or no subscription",
    "unknown event kind",
    "no position; this kind needs a ledger id and an entry id",
    "a negative ledger id, entry id, sequence, batch index or batch size, or an entry id above 2^63 - 2",
    "the batch index, batch size or ack set is beyond the largest batch",
    "a seek between acknowledgments that were folded together; fold these events again, with the seek",
    "backlog cleared without a position; record the last position published before it",
    "an acknowledgment in a transaction; whether it was committed is not known here",
)


def _title(name: str) -> str:
    return name.title().replace("_", "")


@dataclass
class _Ledger:
    entries: int = 0
    up_to: int | None = None
    acked: set[int] = field(default_factory=set)
    sizes: dict[int, int] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    """The bits that are not acknowledged; negative for a batch of unknown size."""

    def has_size(self, entry_id: int, size: int) -> None:
        if size > 0:
            self.sizes[entry_id] = max(self.sizes.get(entry_id, 0), size)

    def leave(self, entry_id: int, bits: int) -> None:
        self.left[entry_id] = self.left.get(entry_id, -1) & bits

    def acknowledge_up_to(self, entry_id: int) -> None:
        self.up_to = entry_id if self.up_to is None else max(self.up_to, entry_id)

    def forget_acknowledgments(self) -> None:
        self.up_to = None
        self.acked, self.left = set(), {}


@dataclass
class _Pair:
    topic: int
    subscription: int
    ledgers: dict[int, _Ledger] = field(default_factory=dict)
    seek: tuple[Order, Position] | None = None
    acked: tuple[Order, Order] | None = None
    settings: tuple[Order, str] | None = None
    flaw: tuple[Order, int] | None = None
    deleted: Order | None = None
    trimmed_before: int = 0
    directory: list[tuple[int, int]] | None = None

    def ledger(self, ledger_id: int) -> _Ledger:
        return self.ledgers.setdefault(ledger_id, _Ledger())

    def note_flaw(self, order: Order, flaw: int) -> None:
        if self.flaw is None or (order, flaw) < self.flaw:
            self.flaw = order, flaw

    def cover(self, first: Order, last: Order) -> None:
        known = self.acked or (first, last)
        self.acked = min(known[0], first), max(known[1], last)

    def voids(self, order: Order) -> bool:
        """Return whether the seek cancels an event at `order`; an initial state cancels nothing."""
        return self.seek is not None and self.seek[0] != FIRST and order <= self.seek[0]

    def forget_acknowledgments(self) -> None:
        self.acked = None
        for ledger in self.ledgers.values():
            ledger.forget_acknowledgments()


class Partials:
    """See `ackwell._native.Partials`."""

    ACTIONS: ClassVar[list[str]] = [_title(action.name) for action in Action]
    ACTIONS_BY_PROPERTY: ClassVar[list[list[Action]]] = [
        sorted(actions) for actions in (NEEDS_SUBSCRIPTION, NEEDS_POSITION, {EXISTS, DELIVERED}, {ACK, UP_TO})
    ]
    FLAWS: ClassVar[list[str]] = [_title(flaw.name) for flaw in Flaw]

    def __init__(
        self, *, ordered: bool = True, resets_known: bool = False, batch_size_max: int = 1 << 20
    ) -> None:
        self._ordered = ordered
        self._resets_known = resets_known
        self._batch_size_max = batch_size_max
        self._files = [""]
        self._pairs: list[_Pair] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._committed: set[tuple[int, int]] = set()

    def __len__(self) -> int:
        return len(self._pairs)

    def pair(self, topic: int, subscription: int) -> int:
        """Return the number that identifies a (topic, subscription)."""
        if (topic, subscription) not in self._numbers:
            self._numbers[topic, subscription] = len(self._pairs)
            self._pairs.append(_Pair(topic, subscription))
        return self._numbers[topic, subscription]

    def pair_many(self, topics: NDArray[np.int32], subscriptions: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the number of each row's (topic, subscription)."""
        if len(topics) != len(subscriptions):
            raise ValueError("columns of different lengths")
        rows = zip(topics.tolist(), subscriptions.tolist(), strict=True)
        return np.array([self.pair(*row) for row in rows], np.int64)

    def names(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the topic and the subscription of each pair."""
        topics = np.array([pair.topic for pair in self._pairs], np.int64)
        return topics, np.array([pair.subscription for pair in self._pairs], np.int64)

    def file(self, name: str) -> int:
        """Return the number of a file."""
        if name not in self._files:
            self._files.append(name)
        return self._files.index(name)

    def _known(self, pair: int, file: int = 0) -> _Pair:
        if not (0 <= pair < len(self._pairs) and 0 <= file < len(self._files)):
            raise ValueError("a pair or a file that is not known")
        return self._pairs[pair]

    def seek(
        self,
        pair: int,
        file: int,
        sequence: int,
        ledger_id: int,
        entry_id: int,
        ack_set: Sequence[int] | None = None,
    ) -> None:
        """Take a seek."""
        _check_position(ledger_id, entry_id)
        known = self._known(pair, file)
        self._seek(known, (self._files[file], sequence), Position(ledger_id, entry_id), ack_set)

    def _seek(
        self, pair: _Pair, order: Order, position: Position, ack_set: Sequence[int] | None = None
    ) -> None:
        if pair.seek is not None and pair.seek[0] >= order:
            return
        pair.seek = order, position
        if pair.acked is not None and pair.acked[1] > order:
            if pair.acked[0] <= order:
                pair.note_flaw(order, SEEK_BETWEEN)
        elif order != FIRST:
            # All events follow an initial state, also events without an order.
            pair.forget_acknowledgments()
        if ack_set is not None and any(ack_set):
            pair.ledger(position.ledger_id).leave(position.entry_id, from_words(ack_set))
            if self._ordered:
                pair.cover(order, order)

    def clear(self, pair: int, file: int, sequence: int, ledger_id: int, entry_id: int) -> None:
        """Take a cleared backlog."""
        _check_position(ledger_id, entry_id)
        known = self._known(pair, file)
        known.ledger(ledger_id).acknowledge_up_to(entry_id)
        known.cover((self._files[file], sequence), (self._files[file], sequence))

    def set_settings(self, pair: int, file: int, sequence: int, detail: str) -> None:
        """Take settings if they are later than the present ones."""
        known, order = self._known(pair, file), (self._files[file], sequence)
        if known.settings is None or known.settings[0] < order:
            known.settings = order, detail

    def settings(self) -> list[tuple[int, str]]:
        """Return the settings of the pairs with settings."""
        return [(n, pair.settings[1]) for n, pair in enumerate(self._pairs) if pair.settings is not None]

    def start(self, pair: int, info: Any, ledgers: Iterable[tuple[int, int]]) -> None:  # noqa: C901 (every case in one place)
        """Take the state that a subscription had before all events."""
        known, ledgers = self._known(pair), list(ledgers)
        if any(min(row) < 0 for row in ledgers):
            raise ValueError("a negative ledger id or number of entries")

        def exists(ledger_id: int, entry_id: int) -> None:
            ledger = known.ledger(ledger_id)
            ledger.entries = max(ledger.entries, entry_id + 1)

        for ledger_id, entries in ledgers:
            exists(ledger_id, entries - 1)
        if not ledgers:
            exists(*info.position)
        if known.seek is not None:
            return
        self._seek(known, FIRST, Position(info.position.ledger_id, info.position.entry_id + 1))
        known.cover(FIRST, FIRST)
        for ledger_id, lower, upper in info.individually_deleted.ranges():
            if not ledgers:
                exists(ledger_id, upper)
            if upper < known.ledger(ledger_id).entries:
                known.ledger(ledger_id).acked.update(range(lower + 1, upper + 1))
        for (ledger_id, entry_id), words in info.batch_deleted.items():
            if not ledgers:
                exists(ledger_id, entry_id)
            if entry_id < known.ledger(ledger_id).entries:
                known.ledger(ledger_id).leave(entry_id, from_words(words))

    def set_ledgers(self, pair: int, ledger_ids: ArrayLike, entries: ArrayLike) -> None:
        """Take the ledgers of a pair's topic."""
        rows = zip(np.asarray(ledger_ids).tolist(), np.asarray(entries).tolist(), strict=False)
        self._known(pair).directory = list(Ledgers(list(rows)))

    def note_flaw(self, pair: int, file: int, sequence: int, flaw: int) -> None:
        """Keep a flaw of a pair."""
        self._known(pair).note_flaw((self._files[file], sequence), Flaw(flaw))

    def flaw(self, pair: int) -> dict[str, Any] | None:
        """Return the flaw of a pair."""
        found = self._known(pair).flaw
        if found is None:
            return None
        (file, sequence), flaw = found
        sequence_or_none = None if sequence == NULL else sequence
        return {"file": file, "sequence": sequence_or_none, "flaw": flaw, "message": FLAWS[flaw]}

    def first_flawed(self) -> int | None:
        """Return the pair with the first flaw."""
        flawed = [(pair.flaw, n) for n, pair in enumerate(self._pairs) if pair.flaw is not None]
        return min(flawed)[1] if flawed else None

    def is_deleted(self, pair: int) -> bool:
        """Return whether the subscription was deleted and not created again."""
        known = self._known(pair)
        return known.deleted is not None and (known.seek is None or known.seek[0] < known.deleted)

    def last_published(self, pair: int) -> tuple[int, int] | None:
        """Return the last known position."""
        topic = self._numbers.get((self._known(pair).topic, TOPIC), pair)
        ledgers = [each for number in {pair, topic} for each in self._pairs[number].ledgers.items()]
        return max(((id_, ledger.entries - 1) for id_, ledger in ledgers if ledger.entries), default=None)

    def feed(  # noqa: C901 (every case in one place)
        self,
        topics: Codes,
        subscriptions: Codes,
        kinds: Codes,
        ledger_ids: ArrayLike,
        entry_ids: ArrayLike,
        *,
        batches: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
        ack_sets: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
        order: tuple[ArrayLike | None, Codes | None] = (None, None),
    ) -> int | None:
        """Take rows of events; return the first invalid row."""
        (batch_indexes, batch_sizes), (sequences, files) = batches, order
        count = len(np.asarray(ledger_ids))

        def column(values: ArrayLike | None) -> list[int]:
            return [NULL] * count if values is None else np.asarray(values).tolist()

        def numbers(codes: Codes | None, end: int | None = None) -> list[int]:
            return [0] * count if codes is None else _numbers_of(codes, count, end)

        starts, ends = (column(None), column(None)) if ack_sets is None else map(column, ack_sets[:2])
        every_word = [] if ack_sets is None else np.asarray(ack_sets[2]).tolist()
        columns = [
            numbers(topics),
            numbers(subscriptions),
            numbers(kinds, len(Action)),
            column(ledger_ids),
            column(entry_ids),
            column(batch_indexes),
            column(batch_sizes),
            starts,
            ends,
            [0] * count if sequences is None else column(sequences),
            numbers(files, len(self._files)),
        ]
        if any(len(values) != count for values in columns):
            raise ValueError("columns of different lengths")
        if any(s != NULL and not 0 <= s <= e <= len(every_word) for s, e in zip(starts, ends, strict=True)):
            raise ValueError("an ack set outside its words")
        rows = [
            _Row(
                values[0],
                values[1],
                values[2],
                values[3],
                values[4],
                values[5],
                values[6],
                ack_set=None if values[7] == NULL else every_word[values[7] : values[8]],
                sequence=values[9],
                order=(self._files[values[10]], NULL if sequences is None else values[9]),
            )
            for values in zip(*columns, strict=True)
        ]
        if not self._resets_known:
            for row in rows:
                if row.kind == SEEK and row.flaw(self._batch_size_max) is None:
                    self._take(row)
        first = None
        for number, row in enumerate(rows):
            pair = self._pairs[self.pair(row.topic, row.subscription)]
            flaw = row.flaw(self._batch_size_max)
            if flaw is None and (row.kind != SEEK):
                flaw = self._take(row)
            if flaw is not None:
                pair.note_flaw(row.order, flaw)
                first = number if first is None else first
        return first

    def _take(self, row: _Row) -> int | None:
        pair = self._pairs[self.pair(row.topic, row.subscription)]
        match row.kind:
            case _ if row.kind in (EXISTS, DELIVERED):
                ledger = pair.ledger(row.ledger_id)
                ledger.entries = max(ledger.entries, row.entry_id + 1)
                size = row.batch_size
                if size == NULL and row.batch_index != NULL:
                    size = row.batch_index + 1
                ledger.has_size(row.entry_id, size)
            case _ if row.kind in (ACK, UP_TO, VOID):
                self._acknowledge(pair, row, cumulative=row.kind == UP_TO)
            case _ if row.kind == CLEAR and NULL not in (row.ledger_id, row.entry_id):
                self._acknowledge(pair, row, cumulative=True)
            case _ if row.kind == CLEAR and not self._resets_known:
                return BLIND
            case _ if row.kind == SEEK:
                self._seek(pair, row.order, Position(row.ledger_id, row.entry_id), row.ack_set)
            case _ if row.kind == TRIM:
                pair.trimmed_before = max(pair.trimmed_before, row.ledger_id)
            case _ if row.kind == DELETE:
                pair.deleted = row.order if pair.deleted is None else max(pair.deleted, row.order)
            case _ if row.kind == IN_TRANSACTION:
                return UNRESOLVED
        return None

    def _acknowledge(self, pair: _Pair, row: _Row, *, cumulative: bool) -> None:
        if row.batch_size != NULL:
            pair.ledger(row.ledger_id).has_size(row.entry_id, row.batch_size)
        if row.kind == VOID or pair.voids(row.order):
            return
        if self._ordered:
            pair.cover(row.order, row.order)
        ledger, entry_id = pair.ledger(row.ledger_id), row.entry_id
        if row.ack_set is not None:
            bits = from_words(row.ack_set)
        elif row.batch_index == NULL:
            bits = 0
        else:
            bits = -1 << (row.batch_index + 1) if cumulative else ~(1 << row.batch_index)
        if bits:
            ledger.leave(entry_id, bits)
        if cumulative:
            ledger.acknowledge_up_to(entry_id - 1 if bits else entry_id)
        elif not bits:
            ledger.acked.add(entry_id)

    def commit_many(self, pairs: ArrayLike, transactions: NDArray[np.int32]) -> None:
        """Take the commits of transactions."""
        rows = list(zip(np.asarray(pairs).tolist(), transactions.tolist(), strict=True))
        for pair, _ in rows:
            self._known(pair)
        self._committed.update(rows)

    def uncommitted_rows(
        self,
        topics: Codes,
        subscriptions: Codes,
        kinds: Codes,
        transactions: Codes,
        ledger_ids: ArrayLike,
        *,
        takes_commits: bool,
    ) -> NDArray[np.int64]:
        """Return the rows of acknowledgments in transactions without a known commit."""
        count = len(np.asarray(ledger_ids))
        columns = [
            _numbers_of(topics, count),
            _numbers_of(subscriptions, count),
            _numbers_of(kinds, count, len(Action)),
            _numbers_of(transactions, count),
        ]
        if any(len(values) != count for values in columns):
            raise ValueError("columns of different lengths")
        rows = [row for row in enumerate(zip(*columns, strict=True)) if row[1][3] != 0]
        for _, (topic, subscription, kind, transaction) in rows:
            if takes_commits and kind == COMMIT:
                self._committed.add((self.pair(topic, subscription), transaction))
        found = [
            number
            for number, (topic, subscription, kind, transaction) in rows
            if kind in (ACK, UP_TO) and (self.pair(topic, subscription), transaction) not in self._committed
        ]
        return np.array(found, np.int64)

    def encode(self, start: int = 0, max_bytes: int = 4_194_304) -> dict[str, Any]:
        """Return the states of pairs as rows."""
        pairs: list[int] = []
        ledger_ids: list[int] = []
        states: list[bytes] = []
        number = start
        while number < len(self._pairs) and sum(map(len, states)) < max_bytes:
            pair = self._pairs[number]
            more = pair.settings or pair.flaw or pair.deleted or pair.trimmed_before or not pair.ledgers
            for ledger_id in ([None] if more else []) + sorted(pair.ledgers):
                pairs.append(number)
                ledger_ids.append(NULL if ledger_id is None else ledger_id)
                states.append(_encode(pair, ledger_id))
            number += 1
        offsets = np.cumsum([0, *map(len, states)]).astype(np.int32)
        return {
            "taken": number - start,
            "pairs": np.array(pairs, np.int64),
            "ledger_ids": np.array(ledger_ids, np.int64),
            "states": {"offsets": offsets, "data": b"".join(states)},
        }

    def absorb(
        self,
        other: Partials,
        topics: NDArray[np.int32],
        subscriptions: NDArray[np.int32],
        transactions: NDArray[np.int32],
    ) -> None:
        """Join other partials."""
        theirs, other._pairs, other._numbers = other._pairs, [], {}
        ours = [self.pair(int(topics[part.topic]), int(subscriptions[part.subscription])) for part in theirs]
        for number, part in zip(ours, theirs, strict=True):
            self._merge(self._pairs[number], part)
        committed, other._committed = other._committed, set()
        self._committed |= {(ours[pair], int(transactions[number])) for pair, number in committed}

    def merge(self, pairs: ArrayLike, ledger_ids: ArrayLike, states: Sequence[bytes]) -> None:
        """Join states."""
        rows = zip(np.asarray(pairs).tolist(), np.asarray(ledger_ids).tolist(), states, strict=True)
        for number, ledger_id, state in rows:
            part = _decode(state, None if ledger_id == NULL else ledger_id)
            self._merge(self._known(number), part)

    def _merge(self, pair: _Pair, part: _Pair) -> None:  # noqa: C901 (every case in one place)
        if part.settings is not None and (pair.settings is None or pair.settings[0] < part.settings[0]):
            pair.settings = part.settings
        if part.flaw is not None:
            pair.note_flaw(*part.flaw)
        if part.deleted is not None:
            pair.deleted = max(pair.deleted or FIRST, part.deleted)
        pair.trimmed_before = max(pair.trimmed_before, part.trimmed_before)
        if part.seek is not None:
            self._seek(pair, *part.seek)
        knows = pair.seek is None or (part.seek is not None and part.seek[0] == pair.seek[0])
        if not knows and pair.seek is not None and part.acked is not None and pair.voids(part.acked[0]):
            if part.acked[1] > pair.seek[0]:
                pair.note_flaw(pair.seek[0], SEEK_BETWEEN)
            part.forget_acknowledgments()
        if part.acked is not None:
            pair.cover(*part.acked)
        for ledger_id, theirs in part.ledgers.items():
            ours = pair.ledger(ledger_id)
            ours.entries = max(ours.entries, theirs.entries)
            ours.acked |= theirs.acked
            if theirs.up_to is not None:
                ours.acknowledge_up_to(theirs.up_to)
            for entry_id, size in theirs.sizes.items():
                ours.has_size(entry_id, size)
            for entry_id, bits in theirs.left.items():
                ours.leave(entry_id, bits)

    def cursor(
        self, pair: int, *, batch_index_acks: bool = True
    ) -> tuple[PositionInfo, Ledgers, list[tuple[int, int, int]]]:
        """Return a pair's state."""
        known = self._known(pair)
        topic_number = self._numbers.get((known.topic, TOPIC))
        topic = None if topic_number in (None, pair) else self._pairs[topic_number]
        for each in (known, topic):
            if each is not None and each.flaw is not None:
                raise ProtocolError(_flaw_text(each))
        return _settle(known, topic, batch_index_acks)

    def cursors(
        self, pairs: ArrayLike, whole_acks: Sequence[int] | None = None, max_bytes: int = 4_194_304
    ) -> dict[str, Any]:
        """Return the cursors of pairs as columns; only the native engine implements this."""
        raise NotImplementedError("the reference engine gives cursors one by one")


@dataclass(frozen=True)
class _Row:
    topic: int
    subscription: int
    kind: int
    ledger_id: int
    entry_id: int
    batch_index: int
    batch_size: int
    ack_set: list[int] | None
    sequence: int
    order: Order

    def flaw(self, batch_size_max: int) -> int | None:
        """Return the flaw of the row."""
        ids = self.ledger_id, self.entry_id
        if (
            self.kind == MISSING
            or self.sequence == NULL
            or (self.subscription == TOPIC and self.kind in NEEDS_SUBSCRIPTION)
        ):
            return INCOMPLETE
        if self.kind == UNKNOWN:
            return UNKNOWN_KIND
        if NULL in ids and self.kind in NEEDS_POSITION:
            return NO_POSITION
        numbers = (*ids, self.sequence, self.batch_index, self.batch_size)
        if any(value < 0 and value != NULL for value in numbers) or self.entry_id == 2**63 - 1:
            return NEGATIVE
        words = len(self.ack_set or ())
        too_large = self.batch_index >= batch_size_max or self.batch_size > batch_size_max
        return BATCH_TOO_LARGE if too_large or words > batch_size_max // 64 else None


def _numbers_of(codes: Codes, count: int, end: int | None = None) -> list[int]:
    """Return the number of each row."""
    known = codes[1].tolist()
    own = [0] * count if codes[0] is None else codes[0].tolist()
    if any(not 0 <= code < len(known) for code in ([0] if codes[0] is None else own)) or (
        end is not None and any(not 0 <= number < end for number in known)
    ):
        raise ValueError("a code that is not known")
    return [known[code] for code in own]


def _check_position(ledger_id: int, entry_id: int) -> None:
    if min(ledger_id, entry_id) < 0:
        raise ValueError(f"position {ledger_id}:{entry_id}: ledger and entry ids are at least 0")


def _flaw_text(pair: _Pair) -> str:
    assert pair.flaw is not None
    (file, sequence), code = pair.flaw
    if sequence == NULL:
        return FLAWS[code]
    return f"{file}, sequence {sequence}: {FLAWS[code]}" if file else f"sequence {sequence}: {FLAWS[code]}"


def _settle(  # noqa: C901 (every case in one place)
    pair: _Pair, topic: _Pair | None, batch_index_acks: bool
) -> tuple[PositionInfo, Ledgers, list[tuple[int, int, int]]]:
    told = {} if topic is None else topic.ledgers
    parts = {ledger_id: pair.ledgers.get(ledger_id, _Ledger()) for ledger_id in {*pair.ledgers, *told}}
    entries = {
        ledger_id: max(part.entries, told[ledger_id].entries if ledger_id in told else 0)
        for ledger_id, part in parts.items()
    }
    first_published = min((ledger_id for ledger_id, count in entries.items() if count), default=None)

    def is_earlier(ledger_id: int) -> bool:
        return first_published is None or ledger_id < first_published

    for ledger_id, part in parts.items():
        if is_earlier(ledger_id):
            acked = [*part.acked, *part.left, -1 if part.up_to is None else part.up_to]
            entries[ledger_id] = max(acked) + 1
    rows = sorted((ledger_id, count) for ledger_id, count in entries.items() if count)
    try:
        ledgers = Ledgers(rows if pair.directory is None else pair.directory)
    except LimitError as error:
        raise LimitError(str(error)) from None
    last = ledgers.last_position
    trimmed = max(pair.trimmed_before, 0 if topic is None else topic.trimmed_before)
    ledgers.trim_before(min(trimmed, 0 if last is None else last.ledger_id))
    parts = {
        ledger_id: part for ledger_id, part in sorted(parts.items()) if ledger_id >= ledgers.trimmed_before
    }
    up_to = max(
        (Position(n, part.up_to) for n, part in parts.items() if part.up_to is not None), default=None
    )
    _refuse_unpublished(parts, ledgers, up_to)
    acked_set = PositionRangeSet()
    for ledger_id, part in parts.items():
        for entry_id in part.acked:
            acked_set.add(ledger_id, entry_id)
    sizes = {
        (n, entry_id): max(size, told[n].sizes.get(entry_id, 0) if n in told else 0)
        for n, part in parts.items()
        for entry_id, size in {**(told[n].sizes if n in told else {}), **part.sizes}.items()
    }
    left: dict[Position, int] = {}
    for ledger_id, part in parts.items():
        for entry_id, bits in sorted(part.left.items()):
            position = Position(ledger_id, entry_id)
            bits = _within(position, bits, sizes.get(position), unknown=is_earlier(ledger_id))
            if bits:
                left[position] = bits
            else:
                acked_set.add(*position)
    mark_delete = ledgers.first_position or Position(0, -1)
    if pair.seek is not None:
        mark_delete = ledgers.previous_valid(*pair.seek[1])
    if up_to is not None:
        reached = ledgers.previous_valid(up_to.ledger_id, 0) if up_to.entry_id < 0 else up_to
        mark_delete = max(mark_delete, reached)
    acked_set.remove_up_to(*mark_delete)
    while (first := acked_set.first_range()) is not None:
        start = first[0], first[1]
        if start > mark_delete and ledgers.entries_between(mark_delete, start):
            break
        mark_delete = Position(first[0], first[2])
        acked_set.remove_up_to(*mark_delete)
    kept: dict[tuple[int, int], tuple[int, ...]] = {
        position: to_words(bits)
        for position, bits in left.items()
        if batch_index_acks and position > mark_delete and position not in acked_set
    }
    info = PositionInfo(*mark_delete, individually_deleted=acked_set, batch_deleted=kept)
    return info, ledgers, [(*at, size) for at, size in sorted(sizes.items())]


def _refuse_unpublished(parts: dict[int, _Ledger], ledgers: Ledgers, up_to: Position | None) -> None:
    entries = dict(ledgers)
    for ledger_id, part in parts.items():
        told = [*part.acked, *part.left]
        if up_to is not None and up_to.ledger_id == ledger_id and up_to.entry_id >= 0:
            told.append(up_to.entry_id)
        beyond = [entry_id for entry_id in told if entry_id >= entries.get(ledger_id, 0)]
        if beyond:
            # The native engine stores only the end of a range.
            ends = {entry_id for entry_id in beyond if entry_id + 1 not in part.acked}
            position = Position(ledger_id, min(ends))
            raise ProtocolError(
                f"acknowledgment of {position}, which was never published; "
                f"last position: {ledgers.last_position or 'none'}",
                position,
            )


def _within(position: Position, bits: int, size: int | None, *, unknown: bool) -> int:
    if bits >= 0:
        return bits
    greatest = (~bits).bit_length() - 1
    if greatest < 0:
        return bits & (1 << (size or 0)) - 1
    if size is None and unknown:
        size = (greatest // 64 + 1) * 64
    if size is None:
        raise ProtocolError(
            f"acknowledgment of a part of {position}, but no event says how many messages it holds", position
        )
    if greatest >= size:
        raise ProtocolError(
            f"acknowledgment of batch index {greatest} of {position}, which holds {size} messages", position
        )
    return bits & (1 << size) - 1


def _text(text: str) -> bytes:
    return varint(len(text.encode())) + text.encode()


def _order(order: Order) -> bytes:
    return _text(order[0]) + varint(0 if order[1] == NULL else order[1] + 1)


def _encode(pair: _Pair, ledger_id: int | None) -> bytes:
    whole = ledger_id is None
    parts = [
        (1, pair.seek is not None and _order(pair.seek[0]) + b"".join(map(varint, pair.seek[1]))),
        (2, pair.acked is not None and b"".join(map(_order, pair.acked))),
        (4, whole and pair.settings is not None and _order(pair.settings[0]) + _text(pair.settings[1])),
        (8, whole and pair.flaw is not None and _order(pair.flaw[0]) + bytes([pair.flaw[1]])),
        (16, whole and pair.deleted is not None and _order(pair.deleted)),
        (32, whole and pair.trimmed_before > 0 and varint(pair.trimmed_before)),
        (64, not whole and _encode_ledger(pair.ledgers[ledger_id or 0])),
    ]
    present = [(flag, part) for flag, part in parts if part is not False]
    body = MAGIC + bytes([VERSION, sum(flag for flag, _ in present)]) + b"".join(part for _, part in present)
    return body + zlib.crc32(body).to_bytes(4, "little")


def _encode_ledger(ledger: _Ledger) -> bytes:
    up_to = 0 if ledger.up_to is None else ledger.up_to + 2
    out = [varint(ledger.entries), varint(up_to), _encode_entries(ledger.acked), varint(len(ledger.sizes))]
    before = 0
    for entry_id, size in sorted(ledger.sizes.items()):
        out += [varint(entry_id - before), varint(size)]
        before = entry_id
    out.append(varint(len(ledger.left)))
    before = 0
    for entry_id, bits in sorted(ledger.left.items()):
        words = to_signed_words(bits)
        packed = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
        out += [varint(entry_id - before), bytes([bits < 0]), varint(len(words)), packed]
        before = entry_id
    return b"".join(out)


def _encode_entries(entries: set[int]) -> bytes:
    if not entries:
        return b"\0"
    ranges: list[list[int]] = []
    for entry_id in sorted(entries):
        if ranges and ranges[-1][1] == entry_id - 1:
            ranges[-1][1] = entry_id
        else:
            ranges.append([entry_id - 1, entry_id])
    out = [b"\1", varint(len(ranges))]
    end = -1
    for lower, upper in ranges:
        out += [varint(lower - end), varint(upper - lower)]
        end = upper
    return b"".join(out)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 6

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise CorruptStateError(f"{count} bytes expected, {len(self.data) - self.at} left", self.at)
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        return self.take(self.varint()).decode()

    def order(self) -> Order:
        file, sequence = self.text(), self.varint()
        return file, NULL if sequence == 0 else sequence - 1


def _decode(state: bytes, ledger_id: int | None) -> _Pair:  # noqa: C901 (every case in one place)
    body, checksum = state[:-4], state[-4:]
    if len(state) < 10 or body[:4] != MAGIC or zlib.crc32(body).to_bytes(4, "little") != checksum:
        raise CorruptStateError("not a whole partial", 0)
    if body[4] > VERSION:
        message = f"a partial of version {body[4]}, newer than {VERSION}; update ackwell"
        raise NewerVersionError(message, 4)
    if body[4] != VERSION:
        raise CorruptStateError(f"partial of version {body[4]}; this ackwell reads version {VERSION}", 4)
    flags, reader, part = body[5], _Bytes(body), _Pair(0, 0)
    if bool(flags & 64) != (ledger_id is not None):
        raise CorruptStateError(f"flags {flags:#b} of ledger {ledger_id}", 5)
    if flags & 1:
        part.seek = reader.order(), Position(reader.varint(), reader.varint())
    if flags & 2:
        part.acked = reader.order(), reader.order()
    if flags & 4:
        part.settings = reader.order(), reader.text()
    if flags & 8:
        part.flaw = reader.order(), reader.take(1)[0]
    if flags & 16:
        part.deleted = reader.order()
    if flags & 32:
        part.trimmed_before = reader.varint()
    if ledger_id is not None:
        part.ledgers[ledger_id] = _decode_ledger(reader)
    if reader.at != len(body):
        raise CorruptStateError(f"{len(body) - reader.at} bytes too many", reader.at)
    return part


def _decode_ledger(reader: _Bytes) -> _Ledger:
    ledger = _Ledger(entries=reader.varint())
    up_to = reader.varint()
    ledger.up_to = None if up_to == 0 else up_to - 2
    ledger.acked = set(_decode_entries(reader))
    entry_id = 0
    for _ in range(reader.varint()):
        entry_id += reader.varint()
        ledger.sizes[entry_id] = reader.varint()
    entry_id = 0
    for _ in range(reader.varint()):
        entry_id += reader.varint()
        endless, count = reader.take(1)[0], reader.varint()
        words = [int.from_bytes(reader.take(8), "little") for _ in range(count)]
        bits = sum(word << 64 * n for n, word in enumerate(words))
        ledger.left[entry_id] = bits | -1 << 64 * count if endless else bits
    return ledger


def _decode_entries(reader: _Bytes) -> Iterator[int]:
    form = reader.take(1)[0]
    if form == 1:
        end = -1
        for _ in range(reader.varint()):
            lower = end + reader.varint()
            end = lower + reader.varint()
            yield from range(lower + 1, end + 1)
    elif form == 2:
        first, count = reader.varint(), reader.varint()
        for number in range(count):
            word = int.from_bytes(reader.take(8), "little")
            yield from (64 * (first + number) + bit for bit in range(64) if word >> bit & 1)
