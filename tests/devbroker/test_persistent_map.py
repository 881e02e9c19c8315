"""A killed broker recovers everything with a receipt, and nothing that was removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from ackwell.devbroker import Broker
from ackwell.errors import ErrorCode
from ackwell.protocol.constants import AccessMode, CommandType, SchemaType, TxnAction
from tests.devbroker.raw import RawClient
from tests.devbroker.test_transactions import begin, delivered, end, join

HOUR_MS = 3_600_000
PUBLIC = "persistent/public/default"


class Running(NamedTuple):
    """A broker, in this process or another, and a client of it."""

    client: RawClient
    admin_url: str

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.admin_url}/admin/v2/{path}", data, method=method)
        try:
            with urlopen(request) as response:
                text = response.read()
        except HTTPError as error:
            error.read()
            return error.code
        return json.loads(text) if text else None

    def publish(self, topic: str, *keys: str, producer_id: int, **metadata: Any) -> None:
        self.client.produce(topic, producer_id)
        for number, key in enumerate(keys):
            answer = self.client.publish(number, b"x", producer_id, partition_key=key, **metadata)
            assert answer.message_id.ledgerId >= 0

    def received(self, topic: str, consumer_id: int, **fields: Any) -> list[int]:
        """Subscribe; return the entry ids of the deliveries."""
        self.client.subscribe(topic, consumer_id, **fields)
        return delivered(self.client)

    def opened(self, topic: str, producer_id: int, **fields: Any) -> Any:
        return self.client.ask(
            CommandType.PRODUCER, topic=topic, producer_id=producer_id, request_id=50, **fields
        )


@contextmanager
def killed(path: Path) -> Iterator[Running]:
    """Run a broker in a process of its own; kill it at the end."""
    command = [sys.executable, "-m", "ackwell", "dev-broker", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen([*command, "--data", str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url, admin_url = (process.stdout.readline().split()[1] for _ in range(2))
            with RawClient(url) as client:
                yield Running(client, admin_url)
        finally:
            os.kill(process.pid, signal.SIGKILL)


@contextmanager
def reopened(path: Path) -> Iterator[tuple[Running, Broker]]:
    with Broker(path=path) as broker, RawClient(broker) as client:
        yield Running(client, broker.admin_url), broker
        broker.validate()


# Each fact with the calls that set and check it. Ids of producers and consumers are unique in the table.


def set_holes(at: Running) -> None:
    at.publish("holes", *"abcde", producer_id=1)
    at.received("holes", 1)
    ids = [{"ledgerId": at.admin("GET", f"{PUBLIC}/holes/internalStats")["ledgers"][0]["ledgerId"]}]
    acked = [ids[0] | {"entryId": entry} for entry in (0, 2)]
    at.client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=acked, request_id=20)
    at.client.until(CommandType.ACK_RESPONSE)


def check_holes(at: Running, _: Broker) -> None:
    assert at.received("holes", 1) == [1, 3, 4]


def set_delay(at: Running) -> None:
    at.publish("later", "a", producer_id=2, deliver_at_time=1 + HOUR_MS)
    at.client.subscribe("later", 2, permits=0)


def check_delay(at: Running, broker: Broker) -> None:
    assert at.received("later", 2) == []
    broker.clock.advance(2 * HOUR_MS)
    assert delivered(at.client) == [0]


def set_sequence(at: Running) -> None:
    at.admin("POST", "namespaces/public/default/deduplication", body=True)
    at.opened("once", 3, producer_name="p")
    at.client.publish(5, b"x", 3)


def check_sequence(at: Running, _: Broker) -> None:
    assert at.opened("once", 3, producer_name="p").last_sequence_id == 5


def set_epoch(at: Running) -> None:
    assert at.opened("alone", 4, producer_access_mode=AccessMode.EXCLUSIVE).topic_epoch == 0


def check_epoch(at: Running, _: Broker) -> None:
    assert at.opened("alone", 4, producer_access_mode=AccessMode.EXCLUSIVE).topic_epoch == 1


def set_end(at: Running) -> None:
    at.publish("ended", "a", producer_id=5)
    at.admin("POST", f"{PUBLIC}/ended/terminate")


def check_end(at: Running, _: Broker) -> None:
    assert at.opened("ended", 5).error == ErrorCode.TOPIC_TERMINATED_ERROR


def set_ended_transactions(at: Running) -> None:
    at.client.produce("ends", 6)
    for number, action in enumerate((TxnAction.COMMIT, TxnAction.ABORT)):
        txn = begin(at.client)
        join(at.client, txn, topic="ends")
        at.client.publish(number, b"x", 6, **txn)
        assert not end(at.client, txn, action).HasField("error")


def check_ended_transactions(at: Running, _: Broker) -> None:
    # 0: committed, 1: its end, 2: aborted, 3: its end.
    assert at.received("ends", 6) == [0]


OPEN: dict[str, Any] = {}
"""The transaction that is open when the broker is killed."""


def set_open_transaction(at: Running) -> None:
    at.publish("open", "a", producer_id=7)
    at.received("open", 7)
    OPEN.update(begin(at.client))
    join(at.client, OPEN, topic="open")
    at.client.publish(1, b"x", 7, **OPEN)
    ledger_id = at.admin("GET", f"{PUBLIC}/open/internalStats")["ledgers"][0]["ledgerId"]
    first = {"ledgerId": ledger_id, "entryId": 0}
    at.client.send(CommandType.ACK, consumer_id=7, ack_type=0, message_id=[first], request_id=21, **OPEN)
    assert not at.client.until(CommandType.ACK_RESPONSE).HasField("error")


def check_open_transaction(at: Running, _: Broker) -> None:
    assert begin(at.client) != OPEN
    assert at.received("open", 7) == []
    assert not end(at.client, OPEN, TxnAction.COMMIT).HasField("error")
    assert delivered(at.client) == [1]


def set_compaction(at: Running) -> None:
    at.publish("table", "a", "b", "a", producer_id=8)
    at.client.subscribe("table", 8, permits=0, subType=0)
    at.admin("PUT", f"{PUBLIC}/table/compaction")


def check_compaction(at: Running, _: Broker) -> None:
    assert at.received("table", 8, subType=0, read_compacted=True) == [1, 2]


def set_properties(at: Running) -> None:
    at.admin("PUT", f"{PUBLIC}/owned/subscription/s")
    at.admin("PUT", f"{PUBLIC}/owned/subscription/s/properties", {"team": "billing"})


def check_properties(at: Running, _: Broker) -> None:
    assert at.admin("GET", f"{PUBLIC}/owned/subscriptions") == ["s"]
    assert at.admin("GET", f"{PUBLIC}/owned/subscription/s/properties") == {"team": "billing"}


def set_schema(at: Running) -> None:
    at.admin("POST", "schemas/public/default/typed/schema", {"type": "STRING", "schema": ""})


def check_schema(at: Running, _: Broker) -> None:
    assert at.admin("GET", "schemas/public/default/typed/schema")["type"] == SchemaType.STRING.name


def set_ledger(at: Running) -> None:
    at.publish("first", "a", producer_id=9)


def check_ledger(at: Running, _: Broker) -> None:
    """Check that ledger ids are unique."""
    at.publish("second", "a", producer_id=10)
    ids = [
        each["ledgerId"]
        for name in at.admin("GET", PUBLIC)
        for each in at.admin("GET", f"{PUBLIC}/{name.rpartition('/')[2]}/internalStats")["ledgers"]
    ]
    assert len(ids) == len(set(ids)) > 10


Set = Callable[[Running], None]
Check = Callable[[Running, Broker], None]


def asked(path: str, wanted: Any) -> Check:
    """Return a check of an answer of the admin API."""

    def check(at: Running, _: Broker) -> None:
        assert at.admin("GET", path) == wanted

    return check


def sent(method: str, path: str, body: Any = None) -> Set:
    """Return a function that sends a request to the admin API and expects success."""

    def send(at: Running) -> None:
        answer = at.admin(method, path, body)
        assert not isinstance(answer, int), answer

    return send


def tenant_is_there(at: Running, _: Broker) -> None:
    assert "acme" in at.admin("GET", "tenants")


PERSISTENT_ATTRIBUTES: dict[str, tuple[Set, Check]] = {
    "dynamic setting": (
        sent("POST", "brokers/configuration/dispatchThrottlingRateInMsg/5"),
        asked("brokers/configuration/values", {"dispatchThrottlingRateInMsg": "5"}),
    ),
    "tenant": (sent("PUT", "tenants/acme", {"allowedClusters": ["standalone"]}), tenant_is_there),
    "namespace": (sent("PUT", "namespaces/public/live", {}), asked("namespaces/public/live/topics", [])),
    "policy": (
        sent("POST", "namespaces/public/default/maxUnackedMessagesPerConsumer", 7),
        asked("namespaces/public/default/maxUnackedMessagesPerConsumer", 7),
    ),
    "partitions": (
        sent("PUT", f"{PUBLIC}/many/partitions", 3),
        asked(f"{PUBLIC}/many/partitions", {"partitions": 3, "deleted": False}),
    ),
    "topic": (sent("PUT", f"{PUBLIC}/empty"), asked(f"{PUBLIC}/empty/subscriptions", [])),
    "subscription and its properties": (set_properties, check_properties),
    "positions": (set_holes, check_holes),
    "sequence ids": (set_sequence, check_sequence),
    "epoch": (set_epoch, check_epoch),
    "terminated": (set_end, check_end),
    "ended transactions": (set_ended_transactions, check_ended_transactions),
    "open transaction": (set_open_transaction, check_open_transaction),
    "compaction": (set_compaction, check_compaction),
    "schema": (set_schema, check_schema),
    "ledger ids": (set_ledger, check_ledger),
    # The last fact, because it moves the clock.
    "delayed times": (set_delay, check_delay),
}


def use_and_delete_topic(at: Running) -> None:
    """Delete a topic by force while a consumer is connected, and create it again."""
    at.publish("used", "a", producer_id=1)
    assert at.received("used", 1) == [0]
    sent("DELETE", f"{PUBLIC}/used?force=true")(at)
    sent("PUT", f"{PUBLIC}/used")(at)


def make_and(make: Set, *delete: Set) -> Set:
    def both(at: Running) -> None:
        make(at)
        for each in delete:
            each(at)

    return both


def tenant_is_gone(at: Running, _: Broker) -> None:
    assert "acme" not in at.admin("GET", "tenants")


def nothing_is_delivered(at: Running, _: Broker) -> None:
    assert at.received("used", 1) == []


REMOVED: dict[str, tuple[Set, Check]] = {
    "topic with a consumer": (use_and_delete_topic, asked(f"{PUBLIC}/used/subscriptions", [])),
    "messages of a topic": (lambda _: None, nothing_is_delivered),
    "subscription": (
        make_and(set_properties, sent("DELETE", f"{PUBLIC}/owned/subscription/s")),
        asked(f"{PUBLIC}/owned/subscriptions", []),
    ),
    "policy": (
        make_and(
            PERSISTENT_ATTRIBUTES["policy"][0],
            sent("DELETE", "namespaces/public/default/maxUnackedMessagesPerConsumer"),
        ),
        asked("namespaces/public/default/maxUnackedMessagesPerConsumer", None),
    ),
    "namespace": (
        make_and(PERSISTENT_ATTRIBUTES["namespace"][0], sent("DELETE", "namespaces/public/live")),
        asked("namespaces/public/live/topics", 404),
    ),
    "tenant": (make_and(PERSISTENT_ATTRIBUTES["tenant"][0], sent("DELETE", "tenants/acme")), tenant_is_gone),
    "partitioned topic": (
        make_and(sent("PUT", f"{PUBLIC}/many/partitions", 3), sent("DELETE", f"{PUBLIC}/many/partitions")),
        asked(f"{PUBLIC}/many/partitions", 404),
    ),
    "schema": (
        make_and(set_schema, sent("DELETE", "schemas/public/default/typed/schema")),
        asked("schemas/public/default/typed/schema", 404),
    ),
}


TABLES = {"kept": PERSISTENT_ATTRIBUTES, "removed": REMOVED}


@pytest.fixture(scope="module")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the file of a killed broker after all calls of a table."""

    @cache
    def made(table: str) -> Path:
        path = tmp_path_factory.mktemp(table) / "broker.db"
        with killed(path) as running:
            for call, _ in TABLES[table].values():
                call(running)
        return path

    return made


@pytest.mark.parametrize(("table", "fact"), [(table, fact) for table in TABLES for fact in TABLES[table]])
def test_a_killed_broker_recovers_each_fact_and_no_removed_one(
    file_of: Callable[[str], Path], tmp_path: Path, table: str, fact: str
) -> None:
    """Each fact has a copy of the file, because its check changes the broker."""
    path = file_of(table)
    shutil.copytree(path.parent, tmp_path / "copy")
    with reopened(tmp_path / "copy" / path.name) as (running, broker):
        TABLES[table][fact][1](running, broker)


NOT_KEPT = {
    # Settings and connections.
    "SharedState": {"settings", "clock", "file", "recorder", "faults", "connections", "unfinished_bytes"}
    # Derived from persistent state, or local to the process.
    | {
        "memory_bytes",
        "_refused_bytes",
        "_deliver",
        "_reclaim",
        "_woken",
        "pending_output",
        "_unsaved",
        "_running",
        "_calls_when_durable",
    },
    "BrokerState": {
        "shared",
        "settings",
        "clock",
        "watchers",
        "_names",
        "_consumers",
        "topics",
        "schemas",
        "coordinator",
    },
    "Schemas": {"_clock"},
    "Coordinator": {"_shared"},
    "TopicContent": {"shared", "name", "full_name", "namespace", "partition", "settings", "clock", "file"}
    # Derived from the entries, their markers and the compaction horizon.
    | {"transactions", "compacted"}
    # Permits of rates are full after a restart, as in Pulsar.
    | {"throttle"},
    "Producers": {"_content", "by_name", "_waiting", "_exclusive"},
    # Counters since the start of the broker are 0 again, as in Pulsar.
    "Topic": {
        "content",
        "name",
        "producers",
        "messages_in",
        "entries_added",
        "bytes_in",
        "publish_throttle",
        "created_ms",
        "published_ms",
    },
    "TopicSubscription": {
        "content",
        "name",
        "durable",
        "_on_delete",
        "consumers",
        "messages_out",
        "bytes_out",
    }
    # State of connected consumers.
    | {"key_shared_mode", "had_consumer", "read_compacted", "_active", "_changing", "_reopening"}
    | {"trimmed_before", "cursor_writes", "_throttle", "created_ms"},
}
"""By class, the attributes that a restart does not recover."""


def test_each_attribute_of_a_broker_is_kept_or_is_not_on_purpose() -> None:
    from ackwell.devbroker.persistent_map import PERSISTENT_ATTRIBUTES as KEPT_BY_CLASS

    with Broker() as broker, RawClient(broker) as client:
        client.subscribe("t")
        state = broker._broker.state
        (topic,) = state.topics.values()
        objects: list[object] = [state.shared, state, state.schemas, state.coordinator]
        objects += [topic.content, topic.producers, topic, *topic.subscriptions.values()]
        for each in objects:
            name = type(each).__name__
            assert not KEPT_BY_CLASS[name] & NOT_KEPT[name]
            assert KEPT_BY_CLASS[name] | NOT_KEPT[name] == set(vars(each)), name
        assert {type(each).__name__ for each in objects} == set(KEPT_BY_CLASS) == set(NOT_KEPT)
