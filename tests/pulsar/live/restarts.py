"""Predictions of `ackwell.broker` for a restart or an unload, compared with the real state after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ackwell import Cursor, Ledgers, Position, PositionRangeSet
from ackwell.broker.broker_settings import BrokerSettings
from ackwell.broker.writes import CursorLedger, MemoryState, Restart, read_back
from tests.pulsar.live.compare import joined

if TYPE_CHECKING:
    from tests.pulsar.live.operations import Sequence
    from tests.pulsar.live.ours import Ours

AT_BATCH_INDEX_LEVEL = ("acknowledgmentAtBatchIndexLevelEnabled=true",)


class Prediction:
    """The state in memory, and the part of it that each kind of restart keeps."""

    def __init__(self, before: dict[str, Any], ours: Ours, sequence: Sequence, version: str) -> None:
        cursor = ours.subscription.cursor
        self._ours = ours
        self._ledger = _cursor_ledger(before["cursor"])
        self._state = MemoryState.from_state(cursor.to_state())
        self._sought = None
        """The state that a seek wrote, if no whole entry was acknowledged since."""
        sought = ours.sought
        if sought is not None and (sought.mark_delete_position, 0) == (
            cursor.mark_delete_position,
            len(cursor.individually_deleted),
        ):
            self._sought = MemoryState.from_state(sought)
        values = [f"{name}={str(value).lower()}" for name, value in sequence.settings.items()]
        self._settings = BrokerSettings.of(version).with_values([*AT_BATCH_INDEX_LEVEL, *values])

    def missed_by(self, dump: dict[str, Any], restart: Restart) -> list[str]:
        """Return the differences from the prediction."""
        found = self._missed_by(self._state, dump, restart)
        if found and restart == "crash" and self._sought is not None:
            # If an acknowledgment from before the seek waited to be written, the broker wrote once more.
            found = self._missed_by(self._sought, dump, restart) and found
        return found

    def _missed_by(self, state: MemoryState, dump: dict[str, Any], restart: Restart) -> list[str]:
        kept = read_back(state, self._settings, restart, self._ledger)
        kept.ranges = kept.ranges.copy()
        kept.ranges.remove_up_to(*state.mark_delete_position)
        mark_delete, ranges, ack_sets = _recovered(dump)
        ledgers = self._ours.ledgers
        ranges = _existing(ranges, ledgers)
        ack_sets = {each: words for each, words in ack_sets.items() if ledgers.contains(*each)}
        found = []
        predicted = joined(state.mark_delete_position, kept.ranges, ledgers)
        came = joined(mark_delete, ranges, ledgers)
        if ledgers.next_valid(*came[0]) != ledgers.next_valid(*predicted[0]):
            found.append(f"mark-delete: predicted {state.mark_delete_position}, came back {mark_delete}")
        if came[1] != predicted[1]:
            found.append(f"ranges: predicted {kept.ranges}, came back {ranges}; {kept}")
        certain = kept.ack_sets.keys() - kept.uncertain_ack_sets.keys()
        if not certain <= ack_sets.keys() <= kept.ack_sets.keys() | kept.uncertain_ack_sets.keys():
            found.append(
                f"ack sets: predicted {sorted(certain)}, perhaps {sorted(kept.uncertain_ack_sets)}, "
                f"came back {ack_sets}"
            )
        found += [
            f"ack set of {position}: predicted {state.batch_deleted[position]}, came back {words}"
            for position, words in ack_sets.items()
            if words != tuple(state.batch_deleted.get(position, words))
        ]
        return found

    def kept(self, dump: dict[str, Any], cursor: Cursor) -> list[str]:
        """Return the differences between a cursor from the broker's bytes and the broker's cursor."""
        mark_delete, ranges, _ = _recovered(dump)
        _, after = joined(mark_delete, ranges, self._ours.ledgers)
        saved = cursor.to_position_info().individually_deleted
        return [] if tuple(saved) == after else [f"acknowledged: ours keeps {saved}, the broker {ranges}"]

    def cursor(self, dump: dict[str, Any]) -> Cursor:
        """Return our cursor in the state of the broker's cursor after the restart."""
        mark_delete, ranges, ack_sets = _recovered(dump)
        engine = self._ours.engine
        copied = engine.PositionRangeSet()
        for each in ranges:
            copied.add_range(*each)
        info = engine.PositionInfo(*mark_delete, copied, batch_deleted=ack_sets)
        settings = self._ours.cursor_settings
        return Cursor.from_position_info(info, self._ours.ledgers, settings=settings, engine=engine)


def _recovered(dump: dict[str, Any]) -> tuple[Position, PositionRangeSet, dict[Position, tuple[int, ...]]]:
    cursor = dump["cursor"]
    ranges = PositionRangeSet()
    for _, lower, ledger_id, upper in cursor["ranges"]:
        ranges.add_range(ledger_id, lower, upper)
    ack_sets = {Position.parse(text): tuple(words) for text, words in cursor["batchDeletedIndexes"].items()}
    mark_delete = Position(*cursor["markDelete"])
    # 4.0 keeps some from before a seek; like ack sets there, they mean nothing.
    ranges.remove_up_to(*mark_delete)
    return mark_delete, ranges, {each: words for each, words in ack_sets.items() if each > mark_delete}


def _existing(ranges: PositionRangeSet, ledgers: Ledgers) -> PositionRangeSet:
    """Return the ranges of ledgers that exist, or that a trim took."""
    newest = max(ledger_id for ledger_id, _ in ledgers)
    found = PositionRangeSet()
    for ledger_id, lower, upper in ranges:
        if ledger_id <= newest:
            found.add_range(ledger_id, lower, upper)
    return found


def _cursor_ledger(cursor: dict[str, Any]) -> CursorLedger:
    if cursor["state"] == "Open":
        return "open"
    return "read-only" if cursor["cursorLedger"] >= 0 else "none"
