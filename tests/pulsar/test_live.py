"""The state in a running broker's memory, the persisted state, and the state that ackwell reads from it."""

from __future__ import annotations

import random
import time
import uuid
from typing import TYPE_CHECKING

import pulsar

from ackwell import Cursor, Ledgers, PositionInfo, PositionRangeSet

if TYPE_CHECKING:
    from tests.pulsar import kit

MESSAGES = 300


def test_we_read_what_a_running_broker_persisted(broker: kit.Broker) -> None:
    topic = f"persistent://public/default/live-{uuid.uuid4()}"
    chance = random.Random(5)
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(topic, "billing", pulsar.ConsumerType.Shared)
    producer = client.create_producer(topic)
    ours = None
    acked = []
    for number in range(MESSAGES):
        producer.send(b"%d" % number)
        message = consumer.receive(10_000)
        if number and chance.random() < 0.7:
            consumer.acknowledge(message)
            acked.append((message.message_id().ledger_id(), message.message_id().entry_id()))
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        broker.flush(topic, "billing")
        held = broker.cursor(topic, "billing")
        if held["cursorLedger"] >= 0:
            ours = PositionInfo.decode(broker.last_entry(held["cursorLedger"]))
            if ours.individually_deleted.cardinality == len(acked):
                break
        time.sleep(0.5)
    client.close()
    assert ours is not None
    theirs = PositionRangeSet()
    for ledger_id, lower, upper_ledger_id, upper in held["ranges"]:
        assert ledger_id == upper_ledger_id
        theirs.add_range(ledger_id, lower, upper)
    assert ours.individually_deleted == theirs
    assert list(ours.position) == held["markDelete"]
    # And our cursor, given the same acks, holds the same.
    cursor = Cursor(Ledgers({acked[0][0]: MESSAGES}))
    assert cursor.ack_many(*zip(*acked, strict=True)) == len(acked)
    assert cursor.to_position_info().individually_deleted == theirs
    assert cursor.backlog_entries == held["backlogEntries"]
