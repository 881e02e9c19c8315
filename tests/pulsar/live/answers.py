"""Scripts for rules that random sequences do not cover, run on the broker and on our model.

`tests/vectors/answers.json` contains the answers of Pulsar 4.2.4. Our model gets the names that the broker
chose, so that answers that depend on a name can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ackwell import Ledgers
from ackwell.protocol.constants import SubscriptionType
from ackwell.subscription import ActiveChange, Subscription, SubscriptionSettings
from tests.pulsar.live.client import Client

if TYPE_CHECKING:
    from tests.pulsar import kit

Answer = dict[str, Any]

MESSAGES = 60
PATIENCE_S = 30.0
QUIET_S = 0.5
"""How long nothing more comes before all has come."""


class Script(NamedTuple):
    """One script on each side; our model gets the broker's choices."""

    broker: Callable[[Client], Answer]
    ours: Callable[[Answer], Answer]


def on_broker(name: str, broker: kit.Broker) -> Answer:
    """Play a script on a new topic; the active consumer of Failover depends on the topic's name."""
    topic = f"persistent://public/default/{name.replace(' ', '-')}"
    client = Client(broker.ports.binary, topic, "billing")
    try:
        client.open_producer()
        return SCRIPTS[name].broker(client)
    finally:
        client.close()


def _all_of(client: Client, has_come: Callable[[], int], expected: int) -> None:
    """Wait for the expected number of messages, and then for surplus ones."""
    deadline = time.monotonic() + PATIENCE_S
    while has_come() < expected and time.monotonic() < deadline:
        client.settle()
        time.sleep(0.02)
    time.sleep(QUIET_S)
    client.settle()


# Key_Shared without keys: each message goes by the names of its producer and its sequence id.


def _keyless_on_broker(client: Client) -> Answer:
    for consumer_id in (1, 2):
        client.subscribe(consumer_id, f"c{consumer_id}", SubscriptionType.KEY_SHARED)
    sequence_ids = {}
    for _ in range(MESSAGES):
        position = client.publish(None, None)
        sequence_ids[position] = client.sequence_id
    for consumer_id in (1, 2):
        client.flow(consumer_id, 10 * MESSAGES)
    got: dict[int, int] = {}

    def has_come() -> int:
        got.update({sequence_ids[each.position]: each.consumer_id for each in client.take()})
        return len(got)

    _all_of(client, has_come, MESSAGES)
    has_come()
    return {"producer": client.producer_name, "owners": [got[each] for each in sorted(got)]}


def _keyless(given: Answer) -> Answer:
    subscription = Subscription(
        "Key_Shared", Ledgers({3: MESSAGES}), settings=SubscriptionSettings.pulsar("4.2")
    )
    for consumer_id in (1, 2):
        subscription.add_consumer(f"c{consumer_id}", consumer_id=consumer_id)
        subscription.flow(consumer_id, 10 * MESSAGES)
    owners = []
    for entry_id in range(MESSAGES):
        key_hash = subscription.sticky_key_hash(
            None, producer_name=given["producer"], sequence_id=entry_id + 1
        )
        owners.append(subscription.dispatch(3, entry_id, now_ms=0, sticky_key_hash=key_hash).consumer)
    return {"producer": given["producer"], "owners": owners}


# Who is active on Failover, as the broker says it to each consumer.

_COMES_AND_GOES = ("b", "c", "a", "-c", "-a", "-b")


def _active_on_broker(client: Client) -> Answer:
    ids = {name: consumer_id for consumer_id, name in enumerate("abc", 1)}
    names = {consumer_id: name for name, consumer_id in ids.items()}
    said = []
    given = {"topic": client.topic}
    for step, expected in zip(_COMES_AND_GOES, _active(given)["said"], strict=True):
        client.active.clear()
        if step.startswith("-"):
            client.close_consumer(ids[step[1:]])
        else:
            client.subscribe(ids[step], step, SubscriptionType.FAILOVER)
        _all_of(client, lambda: len(client.active), len(expected))
        said.append(sorted([names[consumer_id], active] for consumer_id, active in client.active))
    return given | {"said": said}


def _active(given: Answer) -> Answer:
    settings = SubscriptionSettings.pulsar("4.2")
    subscription = Subscription("Failover", Ledgers({3: 1}), settings=settings, topic=given["topic"])
    said = []
    for step in _COMES_AND_GOES:
        changes: list[ActiveChange]
        if step.startswith("-"):
            changes = subscription.remove_consumer(step[1:]).active_changes
        else:
            changes = subscription.add_consumer(step)
        said.append(sorted([each.consumer, each.active] for each in changes))
    return {"topic": given["topic"], "said": said}


# The epoch that a consumer named last comes with each message.

_EPOCHS = (2, 5)


def _epochs_on_broker(client: Client) -> Answer:
    client.subscribe(1, "c1", SubscriptionType.EXCLUSIVE, epoch=1)
    entries = {client.publish(None, None): number for number in range(3)}
    client.flow(1, 100)
    got: list[list[int | None]] = []

    def has_come() -> int:
        got.extend([entries[each.position], each.epoch] for each in client.take())
        return len(got)

    _all_of(client, has_come, len(entries))
    for number, epoch in enumerate(_EPOCHS, 2):
        client.redeliver(1, (), epoch=epoch)
        _all_of(client, has_come, number * len(entries))
    has_come()
    return {"delivered": got}


def _epochs(_: Answer) -> Answer:
    subscription = Subscription("Exclusive", Ledgers({3: 3}), settings=SubscriptionSettings.pulsar("4.2"))
    subscription.add_consumer("c1", epoch=1)
    subscription.flow("c1", 100)
    got = []
    for epoch in (None, *_EPOCHS):
        if epoch is not None:
            subscription.redeliver("c1", epoch=epoch)
        for delivery in subscription.dispatch_many(*subscription.next_reads_many(10, 0), 0):
            got += [[entry_id, delivery.epoch] for entry_id in delivery.entry_ids.tolist()]
    return {"delivered": got}


SCRIPTS = {
    "keyless messages on Key_Shared": Script(_keyless_on_broker, _keyless),
    "changes of the active consumer": Script(_active_on_broker, _active),
    "epochs of a consumer": Script(_epochs_on_broker, _epochs),
}
