"""Dispatch: choose the positions to read, and the consumer of each entry that was read."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from ackwell.cursor.ack_sets import WHOLE, all_messages, to_words
from ackwell.errors import LimitError
from ackwell.position import Position
from ackwell.subscription.outcome import NonDelivery
from ackwell.subscription.policies import Run
from ackwell.subscription.quarantine import Quarantine
from ackwell.subscription.reads import Read, entries_allowed
from ackwell.subscription.stall import stall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ackwell.arrays import Int64s
    from ackwell.subscription.consumer import Consumer, ConsumerKey
    from ackwell.subscription.entries import Bools, Entries
    from ackwell.subscription.policies.run import Owners
    from ackwell.subscription.state import State
    from ackwell.subscription.subscription_settings import LostCounts


SINGLE_ENTRIES_MAX: Final = 20
"""Up to this number, entries are dispatched one by one. Building columns for them would cost more than it
saves."""


class Delivery(NamedTuple):
    """Entries that are delivered to one consumer together, in delivery order."""

    consumer: ConsumerKey
    ledger_ids: Int64s
    entry_ids: Int64s
    redelivery_counts: Int64s | None
    """The redelivery count of each entry; `None` if no entry of the subscription has one."""
    ack_sets: Mapping[Position, tuple[int, ...]]
    """Position of each partly acknowledged or partly held batch → its ack set as words: bit set = neither
    acknowledged nor held by a transaction."""
    epoch: int
    """The epoch of the consumer at the delivery (see `Subscription.redeliver`)."""
    lost_counts: LostCounts
    """The setting `lost_counts`: the deliveries that count as a redelivery if their consumer is lost."""


class Dispatcher:
    """Delivers queued and unread entries to the consumers that the policy chooses.

    If no consumer gets an entry, the entry stays unread or in the replay queue. Dispatch skips no unread
    entry: if an entry is offered while an earlier entry is unread, the offered entry stays unread. There are
    two exceptions. On Key_Shared, an unread entry that must wait moves to the queue, so that entries of other
    keys can pass it. On Shared, such an entry moves to the queue if it is a suspect, or if it is dispatched
    in a broker's read (see `reads`).

    With order per key, an entry waits while an earlier entry of its hash waits. Three places check this: the
    choice of positions from the queue, the dispatch of a single entry, and the dispatch of many entries at
    once.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._quarantine = Quarantine(state)

    def stall(self) -> NonDelivery | None:
        """Return the reason why no unread entry can be read now; `None` if reading may continue."""
        state = self._state
        self._quarantine.arrange()
        reason = stall(
            state.policy,
            state.consumers,
            state.settings,
            waiting=len(state.replay) if state.policy.by_key else 0,
            fixed_delay=state.delayed is not None and state.delayed.waits_for_fixed_delay,
            ranges=0 if state.settings.pause_above_ranges is None else len(state.cursor.individually_deleted),
        )
        no_permits = reason in (NonDelivery.NO_PERMITS, NonDelivery.CONSUMER_BLOCKED)
        return NonDelivery.QUARANTINE if no_permits and state.consumers.quarantined else reason

    def next_reads(self, limit: int) -> tuple[Int64s, Int64s]:
        """Return the positions to read next, at most `limit`, as ledger ids and entry ids."""
        import numpy as np

        state = self._state
        state.policy.begin_round()
        state.forget_trimmed()
        again = self._quarantine.arrange()[: max(limit, 0)]
        if limit > len(again) and state.replay.active and state.policy.stall(new=False) is None:
            again += self._to_replay(limit - len(again))
        ledger_ids = entry_ids = np.empty(0, dtype=np.int64)
        if limit > len(again) and self.stall() is None:
            ledger_ids, entry_ids = state.unread.first(limit - len(again))
        if not again:
            return ledger_ids, entry_ids
        columns = np.array(again, dtype=np.int64).T
        return np.concatenate([columns[0], ledger_ids]), np.concatenate([columns[1], entry_ids])

    def dispatch(
        self,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        batch_size: int,
        sticky_key_hash: int,
        deliver_at_ms: int,
    ) -> ConsumerKey | NonDelivery:
        """Choose the consumer of one entry and deliver it; return the consumer, or the reason for none."""
        state = self._state
        unread = state.unread
        place = ledger_id, entry_id
        new = unread.position <= place
        if unread.position == place:
            is_next = unread.ledgers.contains(ledger_id, entry_id)
        else:
            is_next = (unread.is_next if new else state.replay.contains)(ledger_id, entry_id)
        if not is_next:
            return NonDelivery.NOT_NEXT
        # For most entries only the acknowledgment must be checked. The other cases are checked only if they
        # can occur.
        reason: NonDelivery | None = None
        suspect = False
        held = state.transactions
        if state.delayed is not None or held.open or state.counts.active or held.kept:
            reason = self._take_out_undeliverable(
                new, ledger_id, entry_id, now_ms, deliver_at_ms, sticky_key_hash
            )
            suspect = state.counts.is_suspect(ledger_id, entry_id)
        elif state.cursor.is_acked(ledger_id, entry_id):
            reason = NonDelivery.ACKNOWLEDGED
            self._pass(new, ledger_id, entry_id)
        if reason is not None:
            return reason
        policy = state.policy
        # Entries that wait are rare, so most entries do not need `_choose_if_first`.
        some_wait = suspect or (policy.in_key_order and (state.replay.active or state.retrying.active))
        consumer = (
            self._choose_if_first(new, ledger_id, entry_id, sticky_key_hash)
            if some_wait
            else policy.choose(sticky_key_hash, new=new)
        )
        # Faster than `isinstance`, and equivalent, because an enum with members has no subclasses.
        if type(consumer) is NonDelivery:
            self._wait(new, ledger_id, entry_id, sticky_key_hash)
            return consumer
        if new:
            unread.position = ledger_id, entry_id + 1
        else:
            state.replay.discard(ledger_id, entry_id)
        remaining = 1 if batch_size == 1 else self._remaining(ledger_id, entry_id, batch_size)
        if policy.individual:
            state.consumers.deliver(consumer, ledger_id, entry_id, remaining, sticky_key_hash, now_ms)
            if remaining != batch_size:
                state.consumers.report_batch_size(consumer, Position(ledger_id, entry_id), batch_size)
        else:
            consumer.permits -= remaining
        return consumer.key

    def dispatch_many(self, entries: Entries, now_ms: int) -> list[Delivery]:
        """Dispatch many entries; return the deliveries.

        If no new entry can be a special case (see `_must_dispatch_singly`), the policy can decide on many new
        entries at once.
        """
        state = self._state
        again, new = entries.split(state.unread.position)
        if state.counts.suspecting and state.settings.reads_by_permits:
            # A suspect is delivered alone, outside of reads.
            if (suspects := self._suspects_among(again)).any():
                return self._dispatch_singly(again.pick(suspects), now_ms)
            if (suspects := self._suspects_among(new)).any():
                first = int(suspects.argmax())
                if first == 0 and not again.entries:
                    return self._dispatch_singly(new.pick(slice(1)), now_ms)
                new = new.pick(slice(first))
        if state.settings.reads_by_permits and state.policy.individual:
            before = self._delays()
            if not again.entries and state.replay.acknowledged.active:
                self._read_acknowledged()
            deliveries = self._by_reads(again, now_ms, new=False, new_follow=new.entries > 0)
            # A broker reads the queue again as soon as an entry has left the queue.
            gone = deliveries or self._delays() != before
            return deliveries if gone else self._by_reads(new, now_ms, new=True)
        deliveries = self._dispatch_singly(again, now_ms)
        if not new.entries:
            return deliveries
        owners = None
        plain = new.entries > SINGLE_ENTRIES_MAX and new.matches(*state.unread.first(new.entries))
        if plain and not self._must_dispatch_singly(new, now_ms):
            owners = state.policy.choose_many(self._run(new))
        if owners is None:
            return deliveries + self._dispatch_singly(new, now_ms, changed=bool(deliveries))
        return deliveries + self._in_groups(new, owners, now_ms)

    def _suspects_among(self, entries: Entries) -> Bools:
        return self._state.counts.suspects.contains_many(entries.ledger_ids, entries.entry_ids)

    def _in_groups(self, new: Entries, owners: Owners, now_ms: int) -> list[Delivery]:
        """Deliver unread entries to the consumers that the policy chose, and move the read position.

        Entries without an owner stay unread. They are always the last entries.
        """
        import numpy as np

        state = self._state
        served = int(np.count_nonzero(owners >= 0))
        if served:
            if state.delayed is not None:
                state.delayed.note_undelayed()
            state.unread.position = int(new.ledger_ids[served - 1]), int(new.entry_ids[served - 1]) + 1
        return self._deliver_groups(new, owners, now_ms, counted=False)

    def _deliver_groups(self, new: Entries, owners: Owners, now_ms: int, *, counted: bool) -> list[Delivery]:
        """Deliver entries to their owners, and return the deliveries.

        An entry with owner -1 is not delivered. `counted` is true if the counters of the consumers already
        include the messages.
        """
        consumers = list(self._state.consumers)
        # With one consumer, the entries without an owner are the last ones.
        groups = (
            [new.pick(slice(int((owners >= 0).sum())))]
            if len(consumers) == 1
            else new.grouped(owners, len(consumers))
        )
        pairs = zip(consumers, groups, strict=True)
        return [self._deliver(who, mine, now_ms, counted=counted) for who, mine in pairs if mine.entries]

    def _by_reads(
        self, entries: Entries, now_ms: int, *, new: bool, new_follow: bool = False
    ) -> list[Delivery]:
        """Dispatch entries in reads of the size that a broker uses, until no consumer may get entries.

        A broker reads its replay queue before it reads new entries. So if the queue has entries, and this
        call has already delivered or delayed an entry, the loop stops before the next read.

        `new_follow` is true if `entries` are queued and new entries follow them. The loop then also stops
        after a read that delivered nothing, if a broker would read new entries next (see `looks_ahead`).
        """
        state = self._state
        policy = state.policy
        if not entries.entries:
            return []
        plain = new and entries.matches(*state.unread.first(entries.entries))
        plain = plain and not state.replay.active and not self._must_dispatch_singly(entries, now_ms)
        plain = plain and not self._held_among(entries)
        if plain and self.stall() is None:
            owners = policy.choose_many(self._run(entries, by_reads=True))
            if owners is not None:
                return self._in_groups(entries, owners, now_ms)
        deliveries: list[Delivery] = []
        start = 0
        if plain:
            start, owners = self._whole_reads(entries)
            deliveries = self._deliver_groups(
                entries.pick(slice(start)), owners[:start], now_ms, counted=True
            )
        before = self._delays()
        while start < entries.entries:
            if state.replay.active and (deliveries or self._delays() != before):
                break
            if (self.stall() if new else policy.stall(new=False)) is not None:
                break
            read = self._begin_read(entries, start, new=new)
            start += read.entries
            try:
                deliveries += self._dispatch_singly(read, now_ms, changed=bool(deliveries))
            finally:
                self._end_read()
            if (new_follow and not deliveries) and policy.looks_ahead(read.hashes) and self.stall() is None:
                break
        return deliveries

    def _run(self, entries: Entries, *, by_reads: bool = False) -> Run:
        return Run([*self._state.consumers], entries.sizes, entries.hashes, entries.entries, by_reads)

    def _delays(self) -> int:
        """Return the number of messages that wait for their delivery time."""
        return 0 if self._state.delayed is None else len(self._state.delayed)

    def _begin_read(self, entries: Entries, start: int, *, new: bool) -> Entries:
        """Begin the read whose first entry has the index `start`; return the entries of the read."""
        policy, consumers = self._state.policy, self._state.consumers
        size = min(consumers.readable(), consumers.read_max)
        allowed = None
        if not new and self._state.replay.acknowledged.active:
            size, allowed = self._places_left(entries.pick(slice(start, start + size)), size)
        read = entries.pick(slice(start, start + size))
        held = self._held_among(read) if new else []
        if held:
            read, held = _fit_into_read(read, held, size)
        messages = read.entries if read.sizes is None else int(read.sizes.sum())
        messages += sum(map(self._state.transactions.batch_size, held))
        policy.begin_round()
        policy.read = Read(consumers, read.entries + len(held), messages)
        if allowed is not None:
            policy.read.restrict(allowed)
        return read

    def _places_left(self, read: Entries, size: int) -> tuple[int, dict[ConsumerKey, int] | None]:
        """Return how many entries of `read` fit into a broker's next read of its queue.

        The broker's read has `size` places. A broker removes an acknowledged position from its replay queue
        only when it reads the position. So acknowledged positions take places in the read. A read that
        contains only acknowledged positions is skipped. On Key_Shared, also return how many entries each
        consumer may get.
        """
        policy, replay = self._state.policy, self._state.replay
        rows = zip(read.ledger_ids.tolist(), read.entry_ids.tolist(), strict=True)
        positions = [Position(*row) for row in rows]
        queued = {position: replay.hash_of(position) for position in positions}
        place_of = {position: place for place, position in enumerate(positions, 1)}
        gone = replay.acknowledged
        gone.remove_up_to(self._state.cursor.mark_delete_position)
        while True:
            left = {position: known or None for position, known in gone.positions().items()}
            found, used = self._first_places({**queued, **left}, size)
            taken = [position for position in found if position not in queued]
            for position in taken:
                gone.discard(*position)
            kept = [place_of[position] for position in found if position in queued]
            if kept or not taken:
                break
        if not policy.by_key:
            return max(kept, default=1), None
        assert read.hashes is not None
        allowed = {key: sum(position in queued for position in mine) for key, mine in used.items()}
        most = Read(self._state.consumers, 1, 1)
        for place in kept:
            if queued[positions[place - 1]] is None:
                consumer = policy.choose(int(read.hashes[place - 1]), new=False)
                if not isinstance(consumer, NonDelivery):
                    counted = allowed.get(consumer.key, 0) + 1
                    allowed[consumer.key] = min(counted, most.allows(consumer))
        return max(kept, default=1), allowed

    def _first_places(
        self, queue: Mapping[Position, int | None], size: int
    ) -> tuple[list[Position], dict[ConsumerKey, list[Position]]]:
        """Return the first positions that a broker reads from its queue, at most `size`.

        On Key_Shared, also return a map from each consumer to its positions. Positions whose hash is unknown
        are not in the map.
        """
        policy = self._state.policy
        found: list[Position] = []
        used: dict[ConsumerKey, list[Position]] = {}
        for position, sticky_key_hash in sorted(queue.items(), key=itemgetter(0)):
            if len(found) == size:
                break
            if policy.by_key and sticky_key_hash is not None:
                consumer = policy.choose(sticky_key_hash, new=False)
                if isinstance(consumer, NonDelivery):
                    continue
                mine = used.setdefault(consumer.key, [])
                if len(mine) >= entries_allowed(self._state.consumers, consumer):
                    continue
                mine.append(position)
            found.append(position)
        return found, used

    def _read_acknowledged(self) -> None:
        """Remove the positions that were acknowledged while they were queued.

        A broker removes them from its queue before it reads new entries.
        """
        state = self._state
        if state.policy.stall(new=False) is not None:
            return
        for position, sticky_key_hash in state.replay.acknowledged.positions().items():
            if not (state.policy.by_key and sticky_key_hash) or not isinstance(
                state.policy.choose(sticky_key_hash, new=False), NonDelivery
            ):
                state.replay.acknowledged.discard(*position)

    def _held_among(self, read: Entries) -> list[Position]:
        """Return the entries that open transactions hold and that are before the last entry of a read.

        A broker reads these entries, too, and does not deliver them.
        """
        state = self._state
        if not state.settings.reads_by_permits or not state.transactions.open or not read.entries:
            return []
        return [*state.unread.held_before((int(read.ledger_ids[-1]), int(read.entry_ids[-1])))]

    def _end_read(self) -> None:
        policy = self._state.policy
        assert policy.read is not None
        policy.read.end()
        policy.read = None

    def _whole_reads(self, entries: Entries) -> tuple[int, Owners]:
        """Choose the owners of entries, one whole read after the other.

        Stops after a read in which an entry has no owner, or before a read that needs single decisions.
        Returns the number of entries that were decided, and the owner of each entry; -1 means no owner. The
        counters of the consumers already include the messages of the decided entries. Decided entries without
        an owner are in the queue.
        """
        import numpy as np

        state = self._state
        owners: Owners = np.full(entries.entries, -1, dtype=np.int16)
        start = 0
        while start < entries.entries and not state.replay.active and self.stall() is None:
            read = self._begin_read(entries, start, new=True)
            chosen = state.policy.choose_many(self._run(read))
            self._end_read()
            if chosen is None:
                break
            owners[start : start + read.entries] = chosen
            start += read.entries
            state.unread.position = int(read.ledger_ids[-1]), int(read.entry_ids[-1]) + 1
            if state.delayed is not None:
                state.delayed.note_undelayed()
            if chosen.min() < 0:
                left = read.pick(chosen < 0)
                hashes = np.zeros(left.entries, dtype=np.int64) if left.hashes is None else left.hashes
                state.replay.add_many(left.ledger_ids, left.entry_ids, hashes)
        return start, owners

    def record_delivery(
        self, consumer: Consumer, position: Position, now_ms: int, batch_size: int, sticky_key_hash: int
    ) -> None:
        """Record a delivery that another program decided, for example a broker."""
        state = self._state
        if position >= state.unread.position:
            if position != state.unread.position:
                for skipped in state.unread.before(position):
                    state.replay.add(*skipped)
            state.unread.position = position.ledger_id, position.entry_id + 1
        else:
            state.replay.discard(*position)
            if state.delayed is not None and state.delayed.contains(*position):
                # Remove the entry from the tracker. `add` does this if the given delivery time is due.
                state.delayed.add(now_ms, *position, now_ms)
        remaining = 1 if batch_size == 1 else self._remaining(*position, batch_size)
        if state.policy.individual and state.unread.needs_delivery(*position):
            state.consumers.take_back(*position, consumer)
            state.consumers.deliver(consumer, *position, remaining, sticky_key_hash, now_ms)
            if remaining != batch_size:
                state.consumers.report_batch_size(consumer, position, batch_size)
            state.policy.record_delivery(consumer, sticky_key_hash)
        else:
            consumer.permits -= remaining

    def ack_set(self, position: Position) -> tuple[int, ...] | None:
        """Return the ack set of a batch as words: bit set = neither acknowledged nor held by a transaction.

        `None` means that all messages are to be delivered.
        """
        unacked = self._state.cursor.unacked_bits(*position)
        transactions = self._state.transactions
        held = transactions.left_out(position)
        if unacked is None and held not in (0, WHOLE):
            # The bits that are stored outside the cursor include all bits past the end of the batch.
            unacked = ~held if held < 0 else all_messages(transactions.batch_size(position))
        return None if unacked is None else to_words(unacked & ~held)

    def _to_replay(self, limit: int) -> list[Position]:
        state = self._state
        suspecting = state.counts.suspecting
        if not state.policy.by_key and not suspecting:
            return state.replay.first(limit)
        found: list[Position] = []
        blocked: set[int] = set()
        for position in state.replay.positions():
            if len(found) == limit:
                break
            sticky_key_hash = state.replay.hash_of(position)
            if suspecting and state.counts.is_suspect(*position):
                # The quarantine chooses the suspects that can be delivered.
                if sticky_key_hash is not None and state.policy.in_key_order:
                    blocked.add(sticky_key_hash)
            elif sticky_key_hash is None:
                found.append(position)
            elif sticky_key_hash not in blocked:
                if self._is_held_back(position, sticky_key_hash):
                    blocked.add(sticky_key_hash)
                else:
                    found.append(position)
        return found

    def _is_held_back(self, position: Position, sticky_key_hash: int) -> bool:
        """Return whether no consumer can get a queued entry now. Such an entry need not be read."""
        state = self._state
        if state.policy.in_key_order and state.retrying.has_earlier(*position, sticky_key_hash):
            return True
        return isinstance(state.policy.choose(sticky_key_hash, new=False), NonDelivery)

    def _take_out_undeliverable(
        self,
        new: bool,
        ledger_id: int,
        entry_id: int,
        now_ms: int,
        deliver_at_ms: int,
        sticky_key_hash: int,
    ) -> NonDelivery | None:
        """Remove an entry from the entries to deliver if it is acknowledged, a dead letter or delayed.

        Returns the reason, or `None` if the entry can be delivered. The delivery time of an entry is examined
        only once. So an entry that the tracker has released is not delayed again.
        """
        state = self._state
        self._advance_over_held(new, (ledger_id, entry_id))
        reason = None
        if not state.unread.needs_delivery(ledger_id, entry_id):
            reason = NonDelivery.ACKNOWLEDGED
        elif state.counts.active and state.counts.is_dead(ledger_id, entry_id):
            state.retrying.discard(ledger_id, entry_id)
            reason = NonDelivery.DEAD_LETTER
        elif state.delayed is not None:
            if deliver_at_ms > now_ms and (new or state.replay.is_unseen(ledger_id, entry_id)):
                unassigned = self._queue_if_unassigned(new, ledger_id, entry_id, sticky_key_hash)
                if unassigned is not None:
                    return unassigned
                if state.delayed.add(deliver_at_ms, ledger_id, entry_id, now_ms):
                    reason = NonDelivery.DELAYED
            if reason is None:
                state.delayed.note_undelayed()
        if reason is not None:
            self._pass(new, ledger_id, entry_id)
        return reason

    def _queue_if_unassigned(
        self, new: bool, ledger_id: int, entry_id: int, sticky_key_hash: int
    ) -> NonDelivery | None:
        """Queue a delayed entry if no consumer can get it now, and return the reason.

        Return `None` if the entry was not queued. A broker chooses the consumer first and then checks the
        delay. So an entry without a consumer waits in the queue, and its delay is checked later.
        """
        state, policy = self._state, self._state.policy
        if policy.read is None:
            return None
        waits = policy.in_key_order and self._key_waits(ledger_id, entry_id, sticky_key_hash)
        chosen = NonDelivery.KEY_WAITS if waits else policy.choose(sticky_key_hash, new=new)
        if not isinstance(chosen, NonDelivery):
            return None
        self._wait(new, ledger_id, entry_id, sticky_key_hash)
        state.replay.add_unseen(Position(ledger_id, entry_id), sticky_key_hash)
        return chosen

    def _choose_if_first(
        self, new: bool, ledger_id: int, entry_id: int, sticky_key_hash: int
    ) -> Consumer | NonDelivery:
        """Choose the consumer of an entry. Before this, check the order of its key and the quarantine.

        Return the consumer, or the reason why none gets the entry.
        """
        state = self._state
        if state.policy.in_key_order and self._key_waits(ledger_id, entry_id, sticky_key_hash):
            return NonDelivery.KEY_WAITS
        if state.counts.is_suspect(ledger_id, entry_id):
            return self._quarantine.choose(Position(ledger_id, entry_id), sticky_key_hash)
        return state.policy.choose(sticky_key_hash, new=new)

    def _key_waits(self, ledger_id: int, entry_id: int, sticky_key_hash: int) -> bool:
        """Return whether an older message of this hash must be delivered first."""
        return self._state.key_waits(ledger_id, entry_id, sticky_key_hash)

    def _pass(self, new: bool, ledger_id: int, entry_id: int) -> None:
        """Move the read position past an entry if `new` is true, else remove the entry from the queue."""
        if new:
            self._state.unread.position = ledger_id, entry_id + 1
        else:
            self._state.replay.discard(ledger_id, entry_id)

    def _advance_over_held(self, new: bool, place: tuple[int, int]) -> None:
        """Move the read position past the held entries before `place`, until no consumer can get one.

        Held entries are those that open transactions hold. A broker reads them, so they take places in its
        reads.
        """
        state = self._state
        policy = state.policy
        if not new or not state.settings.reads_by_permits:
            return
        if policy.by_key or (policy.individual and policy.read is None):
            # On Key_Shared the hash of a held entry is unknown, so its consumer is also unknown.
            return
        for position in state.unread.held_before(place):
            if isinstance(policy.choose(0, new=True), NonDelivery):
                break
            state.unread.position = position.ledger_id, position.entry_id + 1

    def _wait(self, new: bool, ledger_id: int, entry_id: int, sticky_key_hash: int) -> None:
        state = self._state
        policy = state.policy
        suspect = policy.individual and state.counts.is_suspect(ledger_id, entry_id)
        if policy.by_key or policy.read is not None or suspect:
            state.replay.add(ledger_id, entry_id, sticky_key_hash)
            if new:
                state.unread.position = ledger_id, entry_id + 1

    def _remaining(self, ledger_id: int, entry_id: int, batch_size: int) -> int:
        """Return how many messages of a batch are neither acknowledged nor held by a transaction."""
        state = self._state
        if not (state.cursor.partly_acked or state.transactions.leaves_out):
            return batch_size
        unacked = state.cursor.unacked_bits(ledger_id, entry_id)
        held = state.transactions.left_out(Position(ledger_id, entry_id))
        if unacked is not None:
            return (unacked & ~held).bit_count()
        # At least one, because a transaction may have named a wrong batch size.
        return max((all_messages(batch_size) & ~held).bit_count(), 1)

    def _must_dispatch_singly(self, new: Entries, now_ms: int) -> bool:
        """Return whether the entries must be dispatched one by one.

        This is so if an entry may be delayed, partly acknowledged, a dead letter, a suspect or blocked by its
        key.
        """
        state = self._state
        transactions = state.transactions
        in_part = transactions.leaves_out or state.cursor.partly_acked > 0
        return (
            (state.delayed is not None and new.has_delayed(now_ms))
            or (new.sizes is not None and in_part)
            or (state.counts.limited and state.counts.active)
            or state.counts.suspecting
            or (state.retrying.active and (new.hashes is None or state.retrying.has_any(new.hashes)))
        )

    def _dispatch_singly(self, entries: Entries, now_ms: int, *, changed: bool = False) -> list[Delivery]:
        """Dispatch entries one by one, and return the deliveries.

        If the tracker of delayed messages is full, the loop stops. The error is raised if this happens at the
        first entry and `changed` is false. In all other cases the error is not raised, because earlier
        deliveries would be lost.
        """
        indexes_of: dict[ConsumerKey, list[int]] = {}
        read = self._state.policy.read
        for index, row in enumerate(entries.rows()):
            ledger_id, entry_id, batch_size, sticky_key_hash, deliver_at_ms = row
            try:
                key = self.dispatch(ledger_id, entry_id, now_ms, batch_size, sticky_key_hash, deliver_at_ms)
            except LimitError:
                if not changed and index == 0:
                    raise
                break
            if not isinstance(key, NonDelivery):
                indexes_of.setdefault(key, []).append(index)
                if read is not None:
                    read.count_sent(key, batch_size)
        consumers = self._state.consumers
        return [self._delivery(consumers[key], entries.at(indexes)) for key, indexes in indexes_of.items()]

    def _deliver(self, consumer: Consumer, mine: Entries, now_ms: int, *, counted: bool = False) -> Delivery:
        consumers = self._state.consumers
        messages = 0 if counted else mine.entries if mine.sizes is None else int(mine.sizes.sum())
        if self._state.policy.individual:
            consumers.deliver_many(consumer, *mine[:4], now_ms)
            consumers.count(consumer, messages)
        else:
            consumer.permits -= messages
        return self._delivery(consumer, mine)

    def _delivery(self, consumer: Consumer, entries: Entries) -> Delivery:
        counts = self._state.counts.counts_of(entries.ledger_ids, entries.entry_ids)
        ack_sets: dict[Position, tuple[int, ...]] = {}
        transactions = self._state.transactions
        if self._state.cursor.partly_acked or transactions.leaves_out:
            pairs = zip(entries.ledger_ids.tolist(), entries.entry_ids.tolist(), strict=True)
            for position in (Position(*pair) for pair in pairs):
                words = self.ack_set(position)
                if words is not None:
                    ack_sets[position] = words
        return Delivery(
            consumer.key,
            entries.ledger_ids,
            entries.entry_ids,
            counts,
            ack_sets,
            consumer.epoch,
            self._state.settings.lost_counts,
        )


def _fit_into_read(read: Entries, held: list[Position], size: int) -> tuple[Entries, list[Position]]:
    """Shorten a read so that it has at most `size` entries, including held entries.

    Return the entries of `read` that remain, and the held entries before the last of them. If many held
    entries precede the first entry of `read`, a broker first makes reads that contain only held entries and
    deliver nothing. The held entries of these reads are not returned.
    """
    rows = [*zip(read.ledger_ids.tolist(), read.entry_ids.tolist(), strict=True)]
    before = bisect_left(held, rows[0])
    held = held[before - before % size :]
    count = len(rows)
    while count > 1 and count + bisect_left(held, rows[count - 1]) > size:
        count -= 1
    return read.pick(slice(count)), held[: bisect_left(held, rows[count - 1])]
