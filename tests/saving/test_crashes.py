"""A crash at any point of a save leaves the previous save or this save, in every form.

The tests cover three kinds of stores. *Atomic* appends are done or not done: loading always gives one of the
two states. *Torn* appends may cut the last entry or miss sectors of it: loading gives one of the two states,
too. *Weaker* stores damage or lose other entries: loading gives one of the two states or raises an error, and
uses an older state only on request.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ackwell import CorruptStateError
from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore
from tests.saving.crashes import SimulatedStore, copy_of, reordered
from tests.saving.saves import states

if TYPE_CHECKING:
    from ackwell import PositionInfo
    from tests.saving.crashes import Crash

FORMS = ("pulsar-ranges", "pulsar-long-array", "pulsar-auto", "compact")
#: The minimum number of crash points over all forms and sizes of parts.
CRASHES_MIN = 15_000

#: The minimum number of each outcome.
OUTCOMES_MIN = {"before": 5_000, "in flight": 400, "refused": 400, "older, asked for": 400}

#: Saves of a life; two changes of the owner.
SAVES = 15
SAVES_IN_PROOF = 30
FORMS_AND_SIZES: dict[str, tuple[str, int, str]] = {
    **{
        f"{form} {name}": (form, size, "NONE")
        for form in FORMS
        for size, name in ((40, "in parts"), (1 << 20, "whole"))
    },
    "pulsar-ranges in compressed parts": ("pulsar-ranges", 40, "LZ4"),
}


class Life:
    """One cursor's saves, crashed at every point and recovered."""

    def __init__(
        self, form: str, entry_bytes_max: int, compression: str, seed: int, saves: int = SAVES
    ) -> None:
        self.settings = {"form": form, "entry_bytes_max": entry_bytes_max, "compression": compression}
        self.outcomes: Counter[str] = Counter()
        self.after_crash = next(states(seed + 1, 1))
        ledger = MemoryLedger()
        self.before: PositionInfo | None = None
        for number, state in enumerate(states(seed, saves)):
            # The owner changes every few saves, so that deltas also begin after a recovery.
            if number % 7 == 0:
                store = SimulatedStore(ledger)
                journal = Journal(store, **self.settings)  # type: ignore[arg-type]
                assert journal.load().position_info == self.before
            store.writes.clear()
            journal.save(state)
            self.state = state
            for write in store.writes:
                for crash in write.crashes(sector_bytes=16):
                    torn = crash.ledger.entries.keys() - write.before.entries.keys()
                    torn = {key for key in torn if crash.ledger.entries[key] != write.after.entries[key]}
                    self.recover(crash, number, tears=bool(torn))
            # The writes of a save may also reach the disk in any order.
            for crash in reordered(store.writes):
                self.recover_from_less(crash, number)
            assert Journal(MemoryStore(copy_of(ledger))).load().position_info == state
            self.before = state

    def recover(self, crash: Crash, number: int, *, tears: bool) -> None:
        """Recover from a crash in a store with torn or atomic appends."""
        where = f"save {number}, {crash.where}"
        if tears:
            # The store declares atomic appends and tears them nevertheless.
            self.recover_from_less(crash, number)
        store = SimulatedStore(copy_of(crash.ledger), atomic_appends=not tears)
        survivor = Journal(store, **self.settings)  # type: ignore[arg-type]
        recovery = survivor.load()
        self.take(recovery.position_info, where)
        assert not recovery.older
        assert not recovery.damaged
        if self.outcomes.total() % 10 == 0:
            # The next owner continues to save in the crashed ledger.
            survivor.save(self.after_crash)
            assert Journal(MemoryStore(copy_of(store._ledger))).load().position_info == self.after_crash

    def recover_from_less(self, crash: Crash, number: int) -> None:
        """Recover from damage that the store excludes."""
        where = f"save {number}, {crash.where}"
        try:
            found = Journal(MemoryStore(copy_of(crash.ledger))).load().position_info
        except CorruptStateError:
            self.outcomes["refused"] += 1
        else:
            self.take(found, where)
            return
        ledger = copy_of(crash.ledger)
        survivor = Journal(MemoryStore(ledger))
        try:
            recovery = survivor.load(take_older=True)
        except CorruptStateError:
            # Only the first save has no older state.
            assert self.before is None, where
            survivor.save(self.after_crash, replace=True)
        else:
            assert recovery.older
            assert recovery.position_info in (self.before, self.state), where
            self.outcomes["older, asked for"] += 1
            survivor.save(self.after_crash)
        assert Journal(MemoryStore(ledger)).load().position_info == self.after_crash

    def take(self, found: PositionInfo | None, where: str) -> None:
        """Check that a state loaded without an error is one of the two, and count it."""
        assert found in (self.before, self.state), where
        self.outcomes["before" if found == self.before else "in flight"] += 1


@pytest.mark.slow
def test_a_crash_leaves_the_save_before_or_the_one_in_flight() -> None:
    """Covers every form and size of parts, and counts crash points; `make proof` plays 30 longer lives."""
    outcomes: Counter[str] = Counter()
    for each in FORMS_AND_SIZES.values():
        outcomes.update(Life(*each, seed=7).outcomes)
    assert outcomes.total() - outcomes["older, asked for"] >= CRASHES_MIN
    for outcome, at_least in OUTCOMES_MIN.items():
        assert outcomes[outcome] >= at_least, outcome


@pytest.mark.proof
@pytest.mark.parametrize(
    ("form", "entry_bytes_max", "compression"), FORMS_AND_SIZES.values(), ids=FORMS_AND_SIZES
)
def test_a_crash_in_many_lives_leaves_the_save_before_or_the_one_in_flight(
    form: str, entry_bytes_max: int, compression: str
) -> None:
    lives = [Life(form, entry_bytes_max, compression, seed, saves=SAVES_IN_PROOF) for seed in range(100, 130)]
    assert sum(life.outcomes.total() for life in lives) > 30 * SAVES_IN_PROOF


def test_every_set_of_few_damaged_entries_leaves_the_exact_state_or_is_refused() -> None:
    """In nine saves, every set of up to three entries is damaged, missing or swapped."""
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger))
    lives = list(states(3, 9, resets=False))
    for state in lives:
        journal.save(state)
    found: Counter[str] = Counter()
    for count in (1, 2, 3):
        for damaged in itertools.combinations(ledger.entries, count):
            for kind in ("cut", "missing", "another"):
                broken = copy_of(ledger)
                for entry_id in damaged:
                    if kind == "cut":
                        broken.entries[entry_id] = broken.entries[entry_id][:-1]
                    elif kind == "missing":
                        del broken.entries[entry_id]
                    else:
                        broken.entries[entry_id] = ledger.entries[(entry_id + 1) % 9]
                try:
                    assert Journal(MemoryStore(broken)).load().position_info == lives[-1]
                    found["exact"] += 1
                except CorruptStateError:
                    found["refused"] += 1
    assert found["exact"] > 100
    assert found["refused"] > 100
