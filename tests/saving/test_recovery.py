"""Loading from a damaged ledger: the exact state, or an error that names the newest undamaged state."""

from __future__ import annotations

import pytest

from ackwell import (
    CorruptStateError,
    Ledgers,
    NotLoadedError,
    PositionInfo,
    StoreError,
)
from ackwell.saving import recovery
from ackwell.saving.journal import DELTAS_MAX, Journal
from ackwell.saving.parts import Part, Save, cut
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.subscription import Subscription
from tests.saving.helpers import damage, loaded, saved
from tests.saving.saves import states


@pytest.mark.parametrize("saves", [3, 4, 7, 8])
def test_any_one_damaged_entry_but_the_last_leaves_the_exact_state(saves: int) -> None:
    last = saves - 1
    for damaged in range(last):
        ledger = saved(*states(9, saves, resets=False))
        expected = loaded(ledger)
        assert expected is not None
        damage(ledger, damaged)
        journal = Journal(MemoryStore(ledger))
        recovery = journal.load()
        assert recovery.position_info == expected
        assert not recovery.older
        if recovery.damaged:
            assert [skip.entry_id for skip in recovery.damaged] == [damaged]
            assert f"damaged entry {damaged}: the checksum does not match" in str(recovery)
            # Two more full saves.
            assert journal.save(expected.replace(entry_id=90)).kind == "full"


def test_both_bases_damaged_is_an_error_that_names_what_is_whole() -> None:
    lives = list(states(9, 8, resets=False))
    ledger = saved(*lives)
    damage(ledger, 6)
    damage(ledger, 5)
    with pytest.raises(
        CorruptStateError, match=r"entry 7 is damaged \(builds on entry .*state is at entry 4"
    ):
        loaded(ledger)
    journal = Journal(MemoryStore(ledger))
    recovery = journal.load(take_older=True)
    assert recovery.position_info == lives[4]
    assert recovery.older
    assert [skip.entry_id for skip in recovery.damaged] == [7, 6, 5]
    assert "an older state was used" in str(recovery)
    assert journal.save(lives[7]).kind == "full"
    assert loaded(ledger) == lives[7]


@pytest.mark.parametrize("form", ["compact", "pulsar-ranges"])
def test_a_damaged_last_entry_is_an_error_and_an_older_state_is_taken_only_when_asked_for(form: str) -> None:
    for saves in (2, 3, 4):
        lives = list(states(9, saves, resets=False))
        ledger = saved(*lives, form=form)
        damage(ledger, saves - 1)
        store = MemoryStore(ledger)
        journal = Journal(store, form=form)
        with pytest.raises(
            CorruptStateError, match=rf"entry {saves - 1} is damaged.*take_older=True"
        ) as caught:
            journal.load()
        assert str(lives[-2].position) in str(caught.value)
        # A refusal does not fence the owner, and the damaged save cannot be replaced by accident.
        assert (store.generation, ledger.generation) == (0, 1)
        with pytest.raises(NotLoadedError):
            journal.save(lives[-1])
        assert journal.load(take_older=True).position_info == lives[-2]


@pytest.mark.parametrize("damaged", [5, 7])
def test_where_an_entry_is_damaged_the_next_save_is_a_full_one_though_nothing_changed(damaged: int) -> None:
    """Without this, the save would succeed, and the next load would still find the damage."""
    for kind in ("state", "subscription"):
        lives = list(states(9, 8, resets=False))
        ledger = saved(*lives)
        damage(ledger, damaged)
        store = MemoryStore(ledger)
        if kind == "state":
            journal = Journal(store)
            found = journal.load(take_older=True)
            assert found.position_info == lives[6 if damaged == 7 else 7]
            assert found.damaged
            assert journal.save(found.position_info).kind == "full"
            assert journal.save(found.position_info).kind == "unchanged"
        else:
            ledgers = Ledgers({3: 1000, 4: 1000})
            subscription = Subscription.load("Shared", store, ledgers, take_older=True)
            subscription.save(store)
            assert Subscription.load("Shared", MemoryStore(ledger), ledgers).cursor == subscription.cursor
        assert not Journal(MemoryStore(ledger)).load().damaged
        assert ledger.last_id == 8


def test_a_missing_entry_is_damage() -> None:
    lives = list(states(9, 6, resets=False))
    for missing in range(6):
        ledger = saved(*lives)
        del ledger.entries[missing]
        if missing == 5:
            with pytest.raises(CorruptStateError, match="entry 5 is missing"):
                loaded(ledger)
        else:
            assert loaded(ledger) == lives[-1]


def test_one_bit_of_the_first_save_does_not_empty_a_cursor_of_200() -> None:
    ledger = saved(*(PositionInfo(3, -1, [(3, 0, 2 + entry_id)]) for entry_id in range(200)))
    damage(ledger, 0)
    damage(ledger, 1)
    with pytest.raises(CorruptStateError, match="no save is undamaged"):
        loaded(ledger)
    with pytest.raises(CorruptStateError, match="no save is undamaged"):
        Journal(MemoryStore(ledger)).load(take_older=True)
    journal = Journal(MemoryStore(ledger))
    journal.save(PositionInfo(3, 7), replace=True)
    assert loaded(ledger) == PositionInfo(3, 7)
    assert len(ledger.entries) == 201


def test_an_entry_overwritten_by_any_other_is_found() -> None:
    lives = list(states(9, 12, resets=False))
    whole = saved(*lives)
    found = 0
    for at in whole.entries:
        for other in whole.entries:
            ledger = MemoryLedger(entries=dict(whole.entries), last_id=whole.last_id)
            ledger.entries[at] = whole.entries[other]
            try:
                assert loaded(ledger) == lives[-1]
            except CorruptStateError:
                assert at == whole.last_id
                found += 1
    assert found == 11


@pytest.mark.parametrize("form", ["compact", "pulsar-ranges"])
@pytest.mark.parametrize("entry_bytes_max", [16, 1 << 20])
def test_every_changed_bit_of_a_history_leaves_the_exact_state_or_is_an_error(
    form: str, entry_bytes_max: int
) -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), form=form, entry_bytes_max=entry_bytes_max)
    for state in states(2, 5, resets=False):
        journal.save(state)
    exact = refused = 0
    for entry_id, entry in list(ledger.entries.items()):
        for bit in range(8 * len(entry)):
            damage(ledger, entry_id, bit)
            try:
                assert loaded(ledger) == state
                exact += 1
            except CorruptStateError:
                refused += 1
            ledger.entries[entry_id] = entry
    assert loaded(ledger) == state
    assert exact > 500
    assert refused > 200


def test_where_appends_can_tear_only_the_last_entry_is_skipped_and_recovery_says_so() -> None:
    class TearingStore(MemoryStore):
        atomic_appends = False

    lives = list(states(9, 6, resets=False))
    whole = saved(*lives)
    for length in range(len(whole.entries[5])):
        ledger = MemoryLedger(entries=dict(whole.entries), last_id=5)
        ledger.entries[5] = ledger.entries[5][:length]
        recovery = Journal(TearingStore(ledger)).load()
        assert recovery.position_info == lives[4]
        assert [skip.entry_id for skip in recovery.skipped] == [5]
        assert not recovery.older
        assert not recovery.damaged
        assert "skipped entry 5" in str(recovery)
        with pytest.raises(CorruptStateError):
            Journal(MemoryStore(ledger)).load()
    # A crash leaves at most one damaged entry.
    damage(ledger, 4)
    with pytest.raises(CorruptStateError, match="entry 4 is damaged"):
        Journal(TearingStore(ledger)).load()


def test_a_ledger_whose_entries_were_all_deleted_is_no_new_one() -> None:
    for first_id in (1, 2, 500):
        with pytest.raises(CorruptStateError, match="earlier entries were deleted"):
            loaded(MemoryLedger(first_id=first_id, last_id=first_id - 1))


def test_a_delta_without_a_save_before_its_full_one_is_followed_by_a_full_save() -> None:
    """A disk lost the third full save, and kept the deletion after it."""
    states = [PositionInfo(3, 0, [(3, 7, upper)]) for upper in (9, 10, 11, 12)]
    ledger = saved(*states[:3])
    MemoryStore(ledger).delete_up_to(0)
    journal = Journal(MemoryStore(ledger))
    journal.load()
    assert journal.save(states[3]).kind == "full"
    damage(ledger, 1)
    assert loaded(ledger) == states[3]


def test_a_delta_on_itself_or_on_a_later_save_is_refused_at_once() -> None:
    change = PositionInfo(3, 6).encode("compact")
    for entry_id in (0, 3):
        for bases in ((entry_id,), (entry_id + 1,), (entry_id, entry_id)):
            data = Part(entry_id, 0, 1, 0, Save(change, bases)).encode()
            with pytest.raises(CorruptStateError):
                Part.decode(data, entry_id)
    # The base is a part of the same save.
    whole = cut(Save(change, (0,)), 1, len(change) // 2 + 1)
    ledger = saved(PositionInfo(3, 5))
    ledger.entries |= dict(enumerate(whole, 1))
    ledger.last_id = 2
    assert loaded(ledger) == PositionInfo(3, 6)
    last = Part.decode(whole[1], 2)
    ledger.entries[2] = last._replace(save=last.save._replace(bases=(1,))).encode()
    with pytest.raises(CorruptStateError, match="builds on entry 1: part 1 of 2"):
        loaded(ledger)


def test_a_long_chain_on_damaged_entries_is_walked_once() -> None:
    ledger = saved(*(PositionInfo(3, entry_id) for entry_id in range(DELTAS_MAX)))
    ledger.entries[0] = ledger.entries[1] = b"damaged"
    store = CountingStore(ledger)
    with pytest.raises(CorruptStateError, match="no save is undamaged"):
        Journal(store).load()
    assert DELTAS_MAX <= store.reads <= 2 * DELTAS_MAX


def test_a_load_stops_at_the_limit_of_missing_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "MISSING_MAX", 3)
    store = CountingStore(MemoryLedger(last_id=50))
    with pytest.raises(StoreError, match="more than 3 entries up to entry 47 are missing"):
        Journal(store).load()
    assert store.reads == 4


def test_a_delta_after_a_delta_reads_no_entry() -> None:
    store = CountingStore(MemoryLedger())
    journal = Journal(store)
    kinds, reads = zip(
        *((journal.save(PositionInfo(3, entry_id)).kind, store.reads) for entry_id in range(6)), strict=True
    )
    assert kinds == ("full", "full", "delta", "delta", "delta", "delta")
    assert reads[2:] == (reads[2],) * 4


def test_the_numbers_of_a_recovery_without_a_save() -> None:
    for found in (recovery.Recovery(), Journal(MemoryStore()).load()):
        assert (found.full_first_id, found.full_last_id, found.entry_id, found.last_id) == (-1, -1, -1, -1)
        assert (found.full_bytes, found.deltas, found.delta_bytes) == (0, 0, 0)
        assert (found.entries_read, found.bytes_read) == (0, 0)


class CountingStore(MemoryStore):
    reads = 0

    def read(self, entry_id: int) -> bytes:
        self.reads += 1
        return super().read(entry_id)
