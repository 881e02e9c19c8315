"""The conformance suite of `ackwell.store.Store`: what every store must do, as pytest tests.

Subclass it under a name pytest collects, and say how a ledger is made::

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def new_ledger(self, tmp_path):
            numbers = itertools.count()

            def new():
                path = tmp_path / f"ledger-{next(numbers)}"
                return lambda: MyStore(path)

            return new
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import pytest

from ackwell.errors import FencedError, StoreError
from ackwell.store.base import Store

Opener: TypeAlias = Callable[[], Store]


class StoreConformance:
    """The tests; a store that passes them holds what `Store` promises of a living process.

    What it promises of a dying one needs a process to kill: see `tests/faults` and `tests/pulsar`.
    """

    #: Calls made by the random test for each of its seeds; fewer suit a slow place.
    random_calls = 200

    @pytest.fixture
    def new_ledger(self) -> Callable[[], Opener]:
        """Make a new, empty ledger: a function that opens it, again at each call."""
        raise NotImplementedError("a subclass says how a ledger is made")

    @pytest.fixture
    def open_store(self, new_ledger: Callable[[], Opener]) -> Opener:
        return new_ledger()

    def test_a_new_ledger_is_empty(self, open_store: Opener) -> None:
        with open_store() as store:
            assert isinstance(store, Store)
            assert store.generation == 1
            assert dict(store.metadata) == {}
            assert (store.first_id, store.last_id) == (0, -1)

    def test_ids_are_dense_and_entries_come_back(self, open_store: Opener) -> None:
        entries = [b"", b"\x00", b"state", bytes(range(256)) * 4096]
        with open_store() as store:
            assert [store.append(entry) for entry in entries] == [0, 1, 2, 3]
            assert [store.read(entry_id) for entry_id in range(4)] == entries
            assert (store.first_id, store.last_id) == (0, 3)

    def test_each_opening_has_a_greater_generation(self, open_store: Opener) -> None:
        generations = []
        for _ in range(3):
            with open_store() as store:
                generations.append(store.generation)
        assert generations == sorted(set(generations))

    def test_the_next_owner_finds_everything(self, open_store: Opener) -> None:
        with open_store() as store:
            for entry in (b"a", b"b", b"c"):
                store.append(entry)
            store.set_metadata({"compression": b"ZSTD", "empty": b""})
            store.delete_up_to(0)
        with open_store() as store:
            assert dict(store.metadata) == {"compression": b"ZSTD", "empty": b""}
            assert (store.first_id, store.last_id) == (1, 2)
            assert [store.read(1), store.read(2)] == [b"b", b"c"]
            assert store.append(b"d") == 3

    def test_metadata_is_replaced_as_a_whole(self, open_store: Opener) -> None:
        with open_store() as store:
            store.set_metadata({"a": b"1", "b": b"2"})
            store.set_metadata({"b": b"3"})
            assert dict(store.metadata) == {"b": b"3"}
            store.set_metadata({})
            assert dict(store.metadata) == {}

    def test_an_absent_entry_is_a_key_error(self, open_store: Opener) -> None:
        with open_store() as store:
            store.append(b"a")
            store.append(b"b")
            store.delete_up_to(0)
            for absent in (-1, 0, 2):
                with pytest.raises(KeyError):
                    store.read(absent)

    def test_deleted_ids_are_never_used_again(self, open_store: Opener) -> None:
        with open_store() as store:
            store.append(b"a")
            store.append(b"b")
            store.delete_up_to(1)
            assert (store.first_id, store.last_id) == (2, 1)
        with open_store() as store:
            assert (store.first_id, store.last_id) == (2, 1)
            assert store.append(b"c") == 2
            assert (store.first_id, store.last_id) == (2, 2)

    def test_deleting_again_changes_nothing(self, open_store: Opener) -> None:
        with open_store() as store:
            for entry in (b"a", b"b", b"c"):
                store.append(entry)
            store.delete_up_to(1)
            for entry_id in (-1, 0, 1):
                store.delete_up_to(entry_id)
            assert (store.first_id, store.last_id) == (2, 2)
            with pytest.raises(ValueError, match="3"):
                store.delete_up_to(3)
            assert store.read(2) == b"c"

    def test_an_older_owner_can_write_nothing(self, open_store: Opener) -> None:
        with open_store() as old:
            old.append(b"a")
            with open_store() as new:
                writes: list[Callable[[], object]] = [
                    lambda: old.append(b"late"),
                    lambda: old.set_metadata({"late": b""}),
                    lambda: old.delete_up_to(0),
                ]
                for write in writes:
                    with pytest.raises(FencedError):
                        write()
                assert (new.first_id, new.last_id, new.read(0)) == (0, 0, b"a")
                assert dict(new.metadata) == {}
                assert new.append(b"b") == 1
        with open_store() as store:
            assert (store.last_id, store.read(1)) == (1, b"b")

    def test_an_owner_stays_fenced_when_the_newer_one_is_gone(self, open_store: Opener) -> None:
        with open_store() as old:
            open_store().close()
            with pytest.raises(FencedError):
                old.append(b"late")

    def test_a_closed_store_refuses_and_closes_again(self, open_store: Opener) -> None:
        store = open_store()
        store.append(b"a")
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.append(b"b"),
            lambda: store.read(0),
            lambda: store.set_metadata({}),
            lambda: store.delete_up_to(0),
        ]
        for call in calls:
            with pytest.raises(StoreError):
                call()

    def test_ledgers_are_apart(self, new_ledger: Callable[[], Opener]) -> None:
        with new_ledger()() as one, new_ledger()() as other:
            one.append(b"a")
            one.set_metadata({"one": b""})
            assert other.last_id == -1
            assert dict(other.metadata) == {}
            assert other.append(b"b") == 0
            assert one.read(0) == b"a"

    @pytest.mark.parametrize("seed", range(3))
    def test_any_sequence_of_calls_does_what_the_protocol_says(self, open_store: Opener, seed: int) -> None:
        chance = random.Random(seed)
        entries: dict[int, bytes] = {}
        metadata: dict[str, bytes] = {}
        first_id, last_id = 0, -1
        store = open_store()
        for _ in range(self.random_calls):
            match chance.choice(("append",) * 4 + ("delete", "metadata", "reopen", "take over")):
                case "append":
                    last_id += 1
                    entries[last_id] = chance.randbytes(chance.choice((0, 1, 60, 3000)))
                    assert store.append(entries[last_id]) == last_id
                case "delete":
                    upto = chance.randint(first_id - 1, last_id)
                    store.delete_up_to(upto)
                    first_id = max(first_id, upto + 1)
                    entries = {key: entries[key] for key in entries if key >= first_id}
                case "metadata":
                    metadata = {chance.choice("abc"): chance.randbytes(3) for _ in range(2)}
                    store.set_metadata(metadata)
                case "reopen":
                    store.close()
                    store = open_store()
                case "take over":
                    old, store = store, open_store()
                    with pytest.raises(FencedError):
                        old.append(b"late")
                    old.close()
            assert (store.first_id, store.last_id) == (first_id, last_id)
            assert dict(store.metadata) == metadata
        assert {key: store.read(key) for key in range(first_id, last_id + 1)} == entries
        for absent in (first_id - 1, last_id + 1):
            with suppress(KeyError):
                raise AssertionError(f"{absent} was read: {store.read(absent)!r}")
        store.close()
