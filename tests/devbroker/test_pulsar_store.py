"""The topic store on the broker in the process, held to the public conformance suite."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ackwell import Cursor, FencedError, Ledgers, NotLoadedError, StoreError
from ackwell.store.pulsar import PulsarStore
from ackwell.testing.stores import Opener, StoreConformance


def topic() -> str:
    return f"persistent://public/default/ledger-{uuid.uuid4()}"


class TestPulsarStore(StoreConformance):
    random_calls = 30

    @pytest.fixture
    def new_ledger(self, client: Any) -> Callable[[], Opener]:
        def new() -> Opener:
            name = topic()
            return lambda read_only=False: PulsarStore(client, name, read_only=read_only)

        return new


def test_an_owner_reads_what_the_one_before_wrote_until_it_was_shut_out(client: Any) -> None:
    name = topic()
    with PulsarStore(client, name) as here, PulsarStore(client, name) as there:
        here.append(b"a")
        assert (there.generation, there.last_id) == (0, -1)
        there.own()
        assert (there.generation, there.read(0)) == (2, b"a")
        with pytest.raises(FencedError):
            here.append(b"late")
        assert there.append(b"b") == 1


def test_a_live_topic_is_read_without_fencing_its_owner(client: Any) -> None:
    name, ledgers = topic(), Ledgers({3: 100})
    with PulsarStore(client, name) as store:
        cursor = Cursor(ledgers)
        cursor.ack(3, 5)
        cursor.save(store)
        with PulsarStore(client, name, read_only=True) as reader:
            assert str(Cursor.load(reader, ledgers).individually_deleted) == "[(3:4..3:5]]"
            with pytest.raises(StoreError, match="read-only"):
                reader.append(b"a")
        with PulsarStore(client, name) as other, pytest.raises(NotLoadedError):
            Cursor(ledgers).save(other)
        cursor.ack(3, 7)
        cursor.save(store)
