"""The conformance suite for classes that implement `ackwell.store.Store`. It consists of pytest tests.

Write a subclass of `StoreConformance` whose name pytest collects, and implement the fixture `new_ledger`::

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def new_ledger(self, tmp_path):
            numbers = itertools.count()

            def new():
                path = tmp_path / f"ledger-{next(numbers)}"
                return lambda read_only=False: MyStore(path, read_only=read_only)

            return new
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import pytest

from ackwell.errors import FencedError, NotLoadedError, StoreError
from ackwell.saving.journal import Journal
from ackwell.store.base import Store


class Opener(Protocol):
    """A function that opens a ledger. All calls of one function open the same ledger."""

    def __call__(self, *, read_only: bool = False) -> Store:
        """Open the ledger."""


class StoreConformance:
    """Tests of a `Store` that run in one process.

    They do not cover crashes, because a test of a crash must kill a process. `tests/faults` and
    `tests/pulsar` have such tests.
    """

    #: The number of calls that the random test makes for each seed. Reduce it for a slow store.
    random_calls = 200

    @pytest.fixture
    def new_ledger(self) -> Callable[[], Opener]:
        """Return a function. Each call of it creates an empty ledger and returns an `Opener` of it."""
        raise NotImplementedError("a subclass creates ledgers")

    @pytest.fixture
    def open_store(self, new_ledger: Callable[[], Opener]) -> Opener:
        return new_ledger()

    def test_a_new_ledger_is_empty(self, open_store: Opener) -> None:
        with open_store() as store:
            assert isinstance(store, Store)
            assert store.generation == 0
            assert dict(store.metadata) == {}
            assert (store.first_id, store.last_id) == (0, -1)

    def test_ids_are_dense_and_entries_come_back(self, open_store: Opener) -> None:
        entries = [b"", b"\x00", b"state", bytes(range(256)) * 4096]
        with open_store() as store:
            assert [store.append(entry) for entry in entries] == [0, 1, 2, 3]
            assert [store.read(entry_id) for entry_id in range(4)] == entries
            assert (store.first_id, store.last_id) == (0, 3)

    def test_each_owner_has_a_greater_generation(self, open_store: Opener) -> None:
        generations = []
        for _ in range(3):
            with open_store() as store:
                store.own()
                store.own()
                generations.append(store.generation)
        assert generations == sorted(set(generations))
        assert generations[0] == 1

    def test_opening_and_reading_fence_nobody(self, open_store: Opener) -> None:
        with open_store() as owner:
            assert owner.append(b"a") == 0
            with open_store() as other:
                assert (other.generation, other.first_id, other.last_id) == (0, 0, 0)
                assert other.read(0) == b"a"
                assert dict(other.metadata) == {}
            assert owner.append(b"b") == 1
            owner.set_metadata({"still": b"the owner"})

    def test_a_read_only_store_reads_everything_and_refuses_to_write(self, open_store: Opener) -> None:
        with open_store() as owner:
            owner.append(b"a")
            owner.set_metadata({"name": b"value"})
            with open_store(read_only=True) as reader:
                assert (reader.read_only, owner.read_only) == (True, False)
                assert (reader.first_id, reader.last_id, reader.read(0)) == (0, 0, b"a")
                assert dict(reader.metadata) == {"name": b"value"}
                writes: list[Callable[[], object]] = [
                    reader.own,
                    lambda: reader.append(b"b"),
                    lambda: reader.set_metadata({}),
                    lambda: reader.delete_up_to(0),
                ]
                for write in writes:
                    with pytest.raises(StoreError, match="read-only"):
                        write()
                assert reader.generation == 0
                assert owner.append(b"b") == 1
                owner.set_metadata({})
                owner.delete_up_to(0)
                # The reader shows the ledger as it was when the reader was opened.
                assert (reader.first_id, reader.last_id, reader.read(0)) == (0, 0, b"a")
                assert dict(reader.metadata) == {"name": b"value"}
            with open_store(read_only=True) as reader:
                assert (reader.first_id, reader.last_id, reader.read(1)) == (1, 1, b"b")

    def test_arguments_of_a_wrong_type_change_nothing(self, open_store: Opener) -> None:
        with open_store() as store:
            store.append(b"a")
            calls: list[Callable[[Any], object]] = [
                store.append,
                lambda data: store.set_metadata({"a": data}),
            ]
            for call in calls:
                for wrong in ("text", 5, None, [1]):
                    with pytest.raises(TypeError):
                        call(wrong)
            for names in ({"\ud800": b""}, {5: b""}):
                with pytest.raises((TypeError, ValueError)):
                    store.set_metadata(names)  # type: ignore[arg-type]
            ids: list[Callable[[Any], object]] = [store.read, store.delete_up_to]
            for with_id in ids:
                for no_id in ("0", 0.0, None):
                    with pytest.raises(TypeError):
                        with_id(no_id)
            assert (store.first_id, store.last_id, dict(store.metadata)) == (0, 0, {})
            assert store.append(memoryview(b"b")) == 1  # type: ignore[arg-type]
            assert (store.read(0), store.read(1)) == (b"a", b"b")

    def test_what_was_given_or_returned_is_not_shared(self, open_store: Opener) -> None:
        with open_store() as store:
            value: Any = bytearray(b"value")
            metadata: dict[str, bytes] = {"name": b"value"}
            store.append(value)
            metadata["mutable"] = value
            store.set_metadata(metadata)
            value[:] = b"other"
            metadata["late"] = b""
            assert store.read(0) == b"value"
            assert dict(store.metadata) == {"name": b"value", "mutable": b"value"}

    def test_a_journal_refuses_to_save_over_what_it_did_not_load(self, open_store: Opener) -> None:
        from ackwell import PositionInfo

        with open_store() as store:
            journal = Journal(store)
            journal.save(PositionInfo(3, 5))
            before = store.last_id
            with open_store() as other:
                with pytest.raises(NotLoadedError):
                    Journal(other).save(PositionInfo(0, -1))
                assert other.generation == 0
            # The refused save wrote nothing, and did not fence the owner.
            assert store.last_id == before
            journal.save(PositionInfo(3, 6))
        with open_store() as store:
            assert Journal(store).load().position_info == PositionInfo(3, 6)

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
            for absent in (-1, 0, 2, 2**63, 2**70, -(2**70)):
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
            for entry_id in (-1, 0, 1, -(2**70)):
                store.delete_up_to(entry_id)
                assert (store.first_id, store.last_id) == (2, 2)
            for beyond in (3, 2**70):
                with pytest.raises(ValueError, match="beyond the last, 2"):
                    store.delete_up_to(beyond)
            assert store.read(2) == b"c"

    def test_an_older_owner_can_write_nothing(self, open_store: Opener) -> None:
        with open_store() as old:
            old.append(b"a")
            with open_store() as new:
                new.own()
                writes: list[Callable[[], object]] = [
                    lambda: old.append(b"late"),
                    lambda: old.set_metadata({"late": b""}),
                    lambda: old.delete_up_to(0),
                ]
                for write in writes:
                    with pytest.raises(FencedError):
                        write()
                with pytest.raises(FencedError):
                    old.own()
                assert (new.first_id, new.last_id, new.read(0)) == (0, 0, b"a")
                assert dict(new.metadata) == {}
                assert new.append(b"b") == 1
        with open_store() as store:
            assert (store.last_id, store.read(1)) == (1, b"b")

    def test_an_owner_stays_fenced_when_the_newer_one_is_gone(self, open_store: Opener) -> None:
        with open_store() as old:
            old.own()
            with open_store() as new:
                new.own()
            with pytest.raises(FencedError):
                old.append(b"late")

    def test_a_closed_store_refuses_and_closes_again(self, open_store: Opener) -> None:
        store = open_store()
        store.append(b"a")
        store.close()
        store.close()
        calls: list[Callable[[], object]] = [
            store.own,
            lambda: store.append(b"b"),
            lambda: store.read(0),
            lambda: store.set_metadata({}),
            lambda: store.delete_up_to(0),
            lambda: store.metadata,
            lambda: store.first_id,
            lambda: store.last_id,
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
            other.set_metadata({"other": b""})
            one.set_metadata({})
            one.delete_up_to(0)
            assert (dict(other.metadata), other.read(0)) == ({"other": b""}, b"b")
            one.append(b"c")
            one.set_metadata({"one": b""})
            other.set_metadata({})
            other.delete_up_to(0)
            assert (dict(one.metadata), one.read(1)) == ({"one": b""}, b"c")

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
                    old.own()
                    store.own()
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
