"""Memory limits of saves and loads."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackwell import (
    LimitError,
    PositionInfo,
)
from ackwell.saving import delta
from ackwell.saving.journal import Journal
from ackwell.saving.recovery import LOADED_BYTES_MAX
from ackwell.store import MemoryLedger, MemoryStore
from tests.saving.helpers import STATES, loaded, saved


def test_a_state_above_the_memory_limit_is_an_error_not_a_skip() -> None:
    ledger = saved(PositionInfo(3, 5), PositionInfo(3, 4, [(number, 3, 4) for number in range(1000)]))
    with pytest.raises(LimitError):
        Journal(MemoryStore(ledger), max_bytes=1000).load()


@given(st.lists(STATES, min_size=1, max_size=4), st.integers(200, 3000), st.integers(0, 20))
@example([PositionInfo(3, 0, batch_deleted={(3, 0): (1,)}), PositionInfo(3, 0)], 300, 0)
def test_what_a_save_confirms_a_load_with_the_same_limit_reads(
    given_states: list[PositionInfo], max_bytes: int, many: int
) -> None:
    """Ack sets of acknowledged entries have no effect, so a save may leave them out or keep the old ones."""
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), max_bytes=max_bytes)
    expected = None
    counts = {(9, number): 1 for number in range(many)}
    for state in given_states:
        state = state.replace(redelivery_counts=counts)
        before = dict(ledger.entries)
        try:
            journal.save(state)
        except LimitError:
            assert ledger.entries == before
            continue
        expected = state
        found = Journal(MemoryStore(ledger, read_only=True), max_bytes=max_bytes).load().position_info
        assert found is not None
        assert delta.replay(found, []) == delta.replay(state, [])
    assert expected is None or ledger.entries


def test_a_state_that_no_load_would_read_is_refused_before_anything_is_written() -> None:
    ledger = MemoryLedger()
    journal = Journal(MemoryStore(ledger), max_bytes=100_000)
    for entry_id in (5, 6, 7):
        journal.save(PositionInfo(3, entry_id))
    large = PositionInfo(3, 7, redelivery_counts={(4, number): 1 for number in range(5_000)})
    with pytest.raises(LimitError, match="raise max_bytes"):
        journal.save(large)
    assert (ledger.last_id, loaded(ledger)) == (2, PositionInfo(3, 7))
    assert journal.save(PositionInfo(3, 8)).kind == "delta"
    assert journal.save(PositionInfo(3, 9, redelivery_counts={(4, 1): 1})).kind == "delta"


def test_a_save_in_parts_counts_against_the_memory_limit_before_it_is_decoded() -> None:
    # One range, which takes little memory, and 170 KB of words.
    state, ledger = PositionInfo(3, -1, [(3, 0, 1_000_000)]), MemoryLedger()

    def journal(max_bytes: int) -> Journal:
        return Journal(
            MemoryStore(ledger), form="pulsar-long-array", entry_bytes_max=1_000, max_bytes=max_bytes
        )

    with pytest.raises(LimitError):
        journal(100_000).save(state)
    assert journal(1_000_000).save(state).kind == "full"
    with pytest.raises(LimitError, match="more than 100000 bytes"):
        journal(100_000).load()


def test_a_save_above_the_limit_is_no_base_and_no_obstacle() -> None:
    large = PositionInfo(3, 7, redelivery_counts={(4, number): 1 for number in range(5_000)})
    ledger = saved(large, PositionInfo(3, 8))
    journal = Journal(MemoryStore(ledger), max_bytes=100_000)
    journal.load()
    assert journal.save(PositionInfo(3, 9)).kind == "full"
    assert loaded(ledger) == PositionInfo(3, 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "max_bytes"),
    [(50_000, 64 << 20), pytest.param(1_000_000, LOADED_BYTES_MAX, marks=pytest.mark.proof)],
)
def test_many_redelivery_counts_in_a_delta_are_loaded(counts: int, max_bytes: int) -> None:
    """`make proof` saves a million counts, which need the default limit; `make test` scales both down."""
    ledger = saved(PositionInfo(3, 5), PositionInfo(3, 6))
    journal = Journal(MemoryStore(ledger), max_bytes=max_bytes)
    journal.load()
    many = PositionInfo(3, 6, redelivery_counts={(4, number): 1 for number in range(counts)})
    assert journal.save(many).bytes < 200
    assert loaded(ledger) == many
