"""The fold: from columns of events to partials and cursors of many subscriptions.

`Fold` gives each name a number and passes columns to `Partials`, the native structure. The number of a
(topic, subscription) is called a *pair*. No Python code runs per subscription, so the cost in Python does not
depend on the number of subscriptions. Local replay, Spark tasks and Spark streams use `Fold`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ackwell._native import Names
from ackwell.cursor import Cursor
from ackwell.cursor.ack_sets import BATCH_SIZE_MAX
from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.engine import native_engine
from ackwell.errors import CorruptStateError, EventError, Flaw, ProtocolError
from ackwell.json_values import json_value
from ackwell.replay.event_columns import NULL, Columns, Texts, code_at, codes_of
from ackwell.replay.events import EFFECTS, Action
from ackwell.replay.resets import NO_RESETS, Name, Resets

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ackwell import PositionInfo
    from ackwell.engine import Engine

    Ints = NDArray[np.int64]
    Codes = tuple[NDArray[np.int32] | None, NDArray[np.int32]]

ACTIONS: Final = {kind.value: effect.action for kind, effect in EFFECTS.items()}
"""Maps the name of each kind to its action."""


class Fold:
    """The partials of many subscriptions.

    A partial is the state of one subscription after some of its events. `resets` contains all resets, such as
    seeks; None means that they are not known before the first event. With `ordered`, each partial keeps the
    order of its acknowledgments, because a seek that is read later needs this order. If `resets` is given,
    every seek is known, so `ordered` may be False. `whole` states that this fold receives all events.
    Acknowledgments in transactions then wait for their commit, and the caller must call `end` before it
    requests cursors.
    """

    def __init__(
        self,
        resets: Resets | None = None,
        *,
        ordered: bool = True,
        whole: bool = False,
        engine: Engine | None = None,
    ) -> None:
        self._engine = engine or native_engine()
        self._resets = resets
        known = resets is not None
        self._partials = self._engine.Partials(
            ordered=ordered or not known, resets_known=known, batch_size_max=BATCH_SIZE_MAX
        )
        self._topics = _Numbers(Names())
        self._subscriptions = _Numbers(Names([""]))
        self._transactions = _Numbers(Names([""]))
        self._is_whole = whole
        self._waiting: list[Columns] = []
        """The acknowledgments in transactions whose commit has not been read yet. `end` folds them again."""
        self._begun = 0
        self._resets_of: dict[str, list[Name]] = {}
        for name in {**self._known.seeks, **self._known.clears, **self._known.unresolved_clears}:
            self._resets_of.setdefault(name[0], []).append(name)
        self._commits_of: dict[str, list[tuple[str, str, str]]] = {}
        for commit in self._known.committed:
            self._commits_of.setdefault(commit[0], []).append(commit)

    @property
    def _known(self) -> Resets:
        return self._resets or NO_RESETS

    def _begin(self) -> None:
        """Apply the known resets of each topic that was added after the last call of this method.

        The caller must call the method before it folds the first event of a topic.
        """
        first, self._begun = self._begun, len(self.topics)
        if self._resets_of or self._commits_of:
            for number in range(first, self._begun):
                self._begin_topic(self.topics[number])

    def _begin_topic(self, topic: str) -> None:
        if committed := self._commits_of.get(topic):
            names = self._transactions.names
            pairs = [self.pair((topic, subscription)) for _, subscription, _ in committed]
            numbers = [names.number(transaction) for _, _, transaction in committed]
            self._partials.commit_many(np.array(pairs, np.int64), np.array(numbers, np.int32))
        for name in self._resets_of.get(topic, ()):
            pair = self.pair(name)
            if name in self._known.seeks:
                (file, sequence), position, ack_set = self._known.seeks[name]
                self._partials.seek(pair, self._file(file), sequence, *position, ack_set)
            if name in self._known.clears:
                (file, sequence), position = self._known.clears[name]
                self._partials.clear(pair, self._file(file), sequence, *position)
            if name in self._known.unresolved_clears:
                file, sequence = self._known.unresolved_clears[name]
                self._partials.note_flaw(pair, self._file(file), sequence, Flaw.CLEARED_BLINDLY)

    def pair(self, name: Name) -> int:
        """Return the number that identifies a (topic, subscription). A new pair gets a new number."""
        topic, subscription = self.topics.number(name[0]), self.subscriptions.number(name[1])
        self._begin()
        number: int = self._partials.pair(topic, subscription)
        return number

    @property
    def topics(self) -> Any:
        """The native `Names` of the topics. The index of a topic is its number."""
        return self._topics.names

    @property
    def subscriptions(self) -> Any:
        """The native `Names` of the subscriptions. The index of a subscription is its number.

        The name with the number 0 is empty, and means the topic as a whole.
        """
        return self._subscriptions.names

    def _file(self, name: str) -> int:
        number: int = self._partials.file(name)
        return number

    def feed(self, columns: Columns) -> bool:
        """Fold events, and return whether a row was not an event. O(rows)."""
        return self._take(columns)

    def _take(self, columns: Columns, *, ends: bool = False) -> bool:
        topics = columns.topics[0], self._topics.of(columns.topics[1])
        subscriptions = columns.subscriptions[0], self._subscriptions.of(columns.subscriptions[1])
        kinds = columns.kinds[0], _actions(columns.kinds[1])
        self._begin()
        if columns.transactions is not None:
            kinds = self._resolve(columns, topics, subscriptions, kinds, ends=ends)
        files = None
        if columns.files is not None:
            files = columns.files[0], np.array([self._file(name) for name in columns.files[1]], np.int32)
        ack_sets = None
        if columns.ack_sets is not None and columns.words is not None:
            ack_sets = *columns.ack_sets, columns.words
        flawed = self._partials.feed(
            topics,
            subscriptions,
            kinds,
            columns.ledger_ids,
            columns.entry_ids,
            batches=(columns.batch_indexes, columns.batch_sizes),
            ack_sets=ack_sets,
            order=(columns.sequences, files),
        )
        for row, detail in (columns.settings or {}).items():
            pair = self._partials.pair(
                int(topics[1][code_at(topics, row)]), int(subscriptions[1][code_at(subscriptions, row)])
            )
            file = 0 if files is None else files[1][code_at(files, row)]
            sequence = NULL if columns.sequences is None else int(columns.sequences[row])
            self._partials.set_settings(pair, int(file), sequence, detail)
        return flawed is not None

    def _resolve(
        self, columns: Columns, topics: Codes, subscriptions: Codes, kinds: Codes, *, ends: bool
    ) -> Codes:
        """Replace the action of each acknowledgment whose transaction is not yet committed.

        Return the new `kinds`. If this fold receives all events, such an acknowledgment has no effect yet: it
        is kept until the fold reads the commit. With `ends`, no commit follows, so these acknowledgments are
        void.
        """
        assert columns.transactions is not None
        transactions = columns.transactions[0], self._transactions.of(columns.transactions[1])
        uncertain = self._partials.uncommitted_rows(
            topics,
            subscriptions,
            kinds,
            transactions,
            columns.ledger_ids,
            takes_commits=self._is_whole,
        )
        if not len(uncertain):
            return kinds
        if self._is_whole:
            self._waiting.append(columns.take(uncertain))
            what = Action.VOID if ends else Action.NOTHING
        else:
            what = Action.VOID if self._resets is not None else Action.IN_TRANSACTION
        codes, actions = codes_of(kinds, len(columns.ledger_ids)).copy(), kinds[1]
        codes[uncertain] = len(actions)
        return codes, np.append(actions, np.int32(what))

    def end(self) -> bool:
        """Fold the waiting acknowledgments whose transaction is committed by now.

        Return whether any of these rows was not an event. The caller may feed more events and commits later.
        """
        waiting, self._waiting = self._waiting, []
        flawed = [self._take(columns, ends=True) for columns in waiting]
        return any(flawed)

    def absorb(self, other: Fold) -> None:
        """Move the content of the fold `other` into this fold. Both folds must have the same resets."""
        topics, subscriptions, transactions = (
            _join(ours.names, theirs.names)
            for ours, theirs in (
                (self._topics, other._topics),
                (self._subscriptions, other._subscriptions),
                (self._transactions, other._transactions),
            )
        )
        self._begin()
        self._partials.absorb(other._partials, topics, subscriptions, transactions)
        waiting, other._waiting = other._waiting, []
        self._waiting += waiting

    def start(self, name: Name, info: PositionInfo, ledgers: Iterable[tuple[int, int]] = ()) -> None:
        """Set the initial state of a subscription and the known ledgers of its topic.

        Call the method before the first event.
        """
        self._partials.start(self.pair(name), info, list(ledgers))

    def pairs(self, topics: NDArray[np.int32], subscriptions: NDArray[np.int32]) -> Ints:
        """Return an array: for each row, the number of its (topic, subscription) pair.

        `topics` has the number of each row's topic, and `subscriptions` the number of its subscription.
        """
        self._begin()
        pairs: Ints = self._partials.pair_many(topics, subscriptions)
        return pairs

    def merge(self, pairs: Ints, ledger_ids: Ints, states: list[bytes]) -> None:
        """Merge encoded partials into this fold. `Partials.encode` returns them.

        `pairs` has the number of each partial's (topic, subscription), `ledger_ids` its ledger, and `states`
        its bytes.
        """
        wrong = ledger_ids[(ledger_ids < 0) & (ledger_ids != NULL)]
        if len(wrong):
            raise CorruptStateError(f"a partial of ledger {wrong[0]}", 0)
        self._partials.merge(pairs, ledger_ids, states)

    def set_ledgers(self, name: Name, ledgers: Iterable[tuple[int, int]]) -> None:
        """Set the ledgers of a subscription's topic, instead of the ledgers that the events show."""
        rows = sorted(ledgers)
        ids = np.array([row[0] for row in rows], np.int64)
        self._partials.set_ledgers(self.pair(name), ids, np.array([row[1] for row in rows], np.int64))

    def names(self) -> list[Name]:
        """Return the list of all (topic, subscription). The index in the list is the number of the pair."""
        numbers = self._partials.names()
        texts = [list(self.topics), list(self.subscriptions)]
        names = [map(own.__getitem__, of.tolist()) for own, of in zip(texts, numbers, strict=True)]
        return list(zip(*names, strict=True))

    @property
    def partials(self) -> Any:
        """The native `Partials` of the fold."""
        return self._partials

    def raise_flaw(self, *, all_flaws: bool = True) -> None:
        """Raise `EventError` for the first invalid event. Return if all events are valid.

        Without `all_flaws`, raise it only for an incomplete event that has no subscription.
        """
        pair = self._partials.first_flawed()
        if pair is None:
            return
        names = self.names()
        nameless = [
            number for number, name in enumerate(names) if not name[1] and self._partials.flaw(number)
        ]
        for number in [pair] if all_flaws else nameless:
            found = self._partials.flaw(number)
            flaw = Flaw(found["flaw"])
            if all_flaws or flaw is Flaw.INCOMPLETE:
                where = ", ".join(name for name in names[number] if name)
                raise EventError(
                    f"{where}: {found['message']}",
                    file=found["file"] or None,
                    line=found["sequence"],
                    flaw=flaw,
                )

    def settings(self) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
        """Return two maps: from pair to broker settings, and from pair to the error in the settings.

        A pair is the number of a (topic, subscription). Settings that are not JSON are an error.
        """
        settings, errors = {}, {}
        parsed: dict[str, Any] = {}
        for pair, detail in self._partials.settings():
            try:
                if detail not in parsed:
                    parsed[detail] = json_value(detail)
            except ValueError as error:
                errors[pair] = f"the settings are not JSON: {error}"
            else:
                settings[pair] = parsed[detail] if isinstance(parsed[detail], dict) else {}
        return settings, errors

    def cursor(self, pair: int, settings: dict[str, Any]) -> tuple[Cursor, dict[tuple[int, int], int]]:
        """Return the cursor of a subscription, and the batch size of each entry that is a batch.

        `pair` is the number of the (topic, subscription). Raises `ProtocolError` if its events are invalid.
        """
        chosen = cursor_settings(settings)
        try:
            info, ledgers, sizes = self._partials.cursor(pair, batch_index_acks=chosen.batch_index_acks)
        except ProtocolError as error:
            name = self.names()[pair]
            message = f"{', '.join(name)}: {error}"
            raise ProtocolError(message, error.position, subscription=name) from None
        cursor = Cursor.from_position_info(info, ledgers, settings=chosen, engine=self._engine)
        return cursor, {(ledger_id, entry_id): size for ledger_id, entry_id, size in sizes}


class _Numbers:
    """Converts the texts of one column to numbers. `names` contains the number of each known text."""

    def __init__(self, names: Any) -> None:
        self.names = names
        self._last: tuple[Texts | None, NDArray[np.int32]] = None, np.empty(0, np.int32)

    def of(self, texts: Texts) -> NDArray[np.int32]:
        """Convert each text to its number.

        If `texts` is the same object as in the last call, only the texts that were added to it are looked up.
        """
        known = self._last[1] if self._last[0] is texts else np.empty(0, np.int32)
        if len(known) < len(texts):
            if isinstance(texts, list):
                more = np.array([self.names.number(text) for text in texts[len(known) :]], np.int32)
            else:
                offsets, data = texts.to_arrays(len(known))  # type: ignore[attr-defined]
                more = self.names.number_many(offsets, np.frombuffer(data, np.uint8))
            known = np.concatenate((known, more))
        self._last = texts, known
        return known


def _join(ours: Any, theirs: Any) -> NDArray[np.int32]:
    """Add the names in `theirs` to `ours`. Return the numbers in `ours` of all names in `theirs`."""
    offsets, data = theirs.to_arrays()
    numbers: NDArray[np.int32] = ours.number_many(offsets, np.frombuffer(data, np.uint8))
    return numbers


def cursor_settings(settings: dict[str, Any]) -> CursorSettings:
    """Return the cursor settings that follow from the broker settings of a `meta` event.

    Acknowledgment of parts of batches is enabled unless the broker settings disable it, as in Pulsar 4.2.
    """
    value = str(settings.get("acknowledgmentAtBatchIndexLevelEnabled", True)).lower()
    return CursorSettings(batch_index_acks=value != "false")


def _actions(kinds: Sequence[str | None]) -> NDArray[np.int32]:
    actions = [Action.MISSING if kind is None else ACTIONS.get(kind, Action.UNKNOWN) for kind in kinds]
    return np.array(actions, np.int32)
