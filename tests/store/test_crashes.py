"""A crash anywhere in a save leaves the save before it or the save itself, in every form."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from ackwell.saving.journal import Journal
from ackwell.store import MemoryLedger, MemoryStore
from ackwell.testing.simulation import SimulatedStore, copy_of, reordered
from tests.store.saves import states

if TYPE_CHECKING:
    from ackwell import PositionInfo

FORMS = ("pulsar-ranges", "pulsar-long-array", "pulsar-auto", "compact")
#: Crash points over all forms and sizes of parts; the floor that the proof claims.
CRASHES_MIN = 20_000

SAVES = 30
FORMS_AND_SIZES = [
    *(
        pytest.param(form, size, "NONE", id=f"{form} {name}")
        for form in FORMS
        for size, name in ((40, "in parts"), (1 << 20, "whole"))
    ),
    pytest.param("pulsar-ranges", 40, "LZ4", id="pulsar-ranges in compressed parts"),
]

crashes_seen = 0


def crash_everywhere(form: str, entry_bytes_max: int, compression: str, seed: int) -> int:
    """Live a life of saves, crash at every point of it and recover; give the number of crashes."""
    crashes = 0
    ledger = MemoryLedger()
    before: PositionInfo | None = None
    after_crash = next(states(seed + 1, 1))
    for number, state in enumerate(states(seed, SAVES)):
        # Every few saves the owner changes, so that deltas also begin after a recovery.
        if number % 7 == 0:
            store = SimulatedStore(ledger)
            journal = Journal(store, form=form, entry_bytes_max=entry_bytes_max, compression=compression)
            assert journal.load().position_info == before
        store.writes.clear()
        journal.save(state)
        # Between its writes a save is synced; but not even the order of all of its writes is needed.
        inside = (crash for write in store.writes for crash in write.crashes(sector_bytes=16))
        for crash in itertools.chain(inside, reordered(store.writes)):
            crashes += 1
            # The next owner saves as it is by default, whatever the one before did.
            survivor = Journal(MemoryStore(crash.ledger), form=form, entry_bytes_max=entry_bytes_max)
            assert survivor.load().position_info in (before, state), f"save {number}, {crash.where}"
            if crashes % 10 == 0:
                # The next owner saves on, over whatever lies there.
                survivor.save(after_crash)
                assert Journal(MemoryStore(copy_of(crash.ledger))).load().position_info == after_crash
        assert Journal(MemoryStore(copy_of(ledger))).load().position_info == state
        before = state
    return crashes


@pytest.mark.parametrize(("form", "entry_bytes_max", "compression"), FORMS_AND_SIZES)
def test_a_crash_leaves_the_save_before_or_the_one_in_flight(
    form: str, entry_bytes_max: int, compression: str
) -> None:
    global crashes_seen
    crashes_seen += crash_everywhere(form, entry_bytes_max, compression, seed=7)


def test_the_proof_saw_as_many_crashes_as_it_claims() -> None:
    if crashes_seen == 0:
        pytest.skip("counts what the tests above saw in the same run")
    assert crashes_seen >= CRASHES_MIN


@pytest.mark.soak
@pytest.mark.parametrize(("form", "entry_bytes_max", "compression"), FORMS_AND_SIZES)
def test_a_crash_in_many_lives_leaves_the_save_before_or_the_one_in_flight(
    form: str, entry_bytes_max: int, compression: str
) -> None:
    crashes = (crash_everywhere(form, entry_bytes_max, compression, seed) for seed in range(100, 130))
    assert sum(crashes) > 30 * SAVES
