"""One function for each reason for which nothing is delivered: it brings a topic into that state."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ackwell.cluster.admin import Admin, TopicAnswer
from ackwell.cluster.endpoint import Endpoint
from ackwell.cursor.ack_sets import to_words
from ackwell.protocol.constants import SubscriptionType
from ackwell.releases import release_number
from tests.pulsar.live.client import Client

if TYPE_CHECKING:
    from tests.pulsar import kit

SHARED, KEY_SHARED = SubscriptionType.SHARED, SubscriptionType.KEY_SHARED
EXCLUSIVE, FAILOVER = SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER

SUBSCRIPTION: Final = "billing"
HOUR_MS: Final = 3_600_000
TRANSACTION: Final = (0, 77)
RESTS_S: Final = 1.0
"""The wait for the broker's work before the first dump."""
BETWEEN_S: Final = 1.5
"""The time between two dumps."""

SETTINGS: Final = {
    "transactionCoordinatorEnabled": "true",
    "topicLevelPoliciesEnabled": "true",
    "systemTopicEnabled": "true",
    # The tracker of delayed messages reads it when the broker starts.
    "delayedDeliveryFixedDelayDetectionLookahead": "10",
}
"""The settings of the broker."""

DEFAULTS: Final[dict[str, Any]] = {
    "maxUnackedMessagesPerConsumer": 50_000,
    "maxUnackedMessagesPerSubscription": 200_000,
    "dispatcherMaxReadBatchSize": 100,
    "dispatcherPauseOnAckStatePersistentEnabled": False,
    "managedLedgerMaxUnackedRangesToPersist": 10_000,
    "managedLedgerMaxBatchDeletedIndexToPersist": 10_000,
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "keySharedLookAheadMsgInReplayThresholdPerConsumer": 2_000,
    "keySharedLookAheadMsgInReplayThresholdPerSubscription": 20_000,
}
"""The settings that causes change, for topics that are loaded afterwards."""


class Scene:
    """A topic with one subscription, and a connection to its broker."""

    def __init__(self, broker: kit.Broker, **settings: Any) -> None:
        self.broker = broker
        self.settings = settings
        broker.configure(
            **{**DEFAULTS, **{name: settings[name] for name in settings.keys() & DEFAULTS.keys()}}
        )
        namespace = f"stall-{uuid.uuid4().hex[:8]}"
        broker.create_namespace(namespace)
        self.namespace = f"public/{namespace}"
        self.name = f"{self.namespace}/topic"
        self.client = Client(broker.ports.binary, f"persistent://{self.name}", SUBSCRIPTION)
        self.client.open_producer()

    @property
    def topic(self) -> str:
        """The topic's full name."""
        return f"persistent://{self.name}"

    def join(self, consumer_id: int, kind: SubscriptionType, permits: int = 0, **more: Any) -> None:
        """Connect a consumer; without permits it requests no messages."""
        self.client.subscribe(consumer_id, f"consumer-{consumer_id}", kind, **more)
        if permits:
            self.client.flow(consumer_id, permits)

    def publish(self, count: int, keys: int = 0, **more: Any) -> list[Any]:
        """Publish plain messages; return their positions."""
        return [self.client.publish(None, f"k{n % keys}" if keys else None, **more) for n in range(count)]

    def received(self, count: int) -> list[Any]:
        """Wait for this number of deliveries; return their positions."""
        found: list[Any] = []
        deadline = time.monotonic() + 20
        while len(found) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} entries came")
            found += [each.position for each in self.client.take()]
            time.sleep(0.01)
        return found

    def ack(self, consumer_id: int, positions: list[Any]) -> None:
        """Acknowledge whole entries."""
        self.client.ack(consumer_id, [(position, (), 0) for position in positions])

    def admin(self, method: str, path: str, body: object = None) -> Any:
        """Ask for something below the topic."""
        return self.broker.admin(method, f"persistent/{self.name}/{path}", body)

    def answer(self) -> dict[str, Any]:
        """Return the answers of the admin API in the format of `ackwell collect`."""
        admin = Admin(Endpoint(url=f"http://127.0.0.1:{self.broker.ports.admin}"))
        admin.count_backlogs = True
        (found,) = admin.answers([self.topic])
        assert isinstance(found, TopicAnswer), found
        return found.to_json()

    def close(self) -> None:
        """Leave without a word."""
        self.client.close()


class Cause(NamedTuple):
    """A reason, and how it is made."""

    code: str
    """The code that the doctor must report."""
    name: str
    make: Callable[[Scene], None]
    settings: dict[str, Any]
    before: tuple[str, str] | None
    """A release, and the code on earlier ones, which show less or have another rule."""

    def code_on(self, version: str) -> str:
        """Return the code that the doctor must report on a version."""
        if self.before is not None and release_number(version) < release_number(self.before[0]):
            return self.before[1]
        return self.code


CAUSES: Final[list[Cause]] = []

UNKNOWN: Final = "no sequence of requests is known that leads to this state"
NOT_CAUSED: Final = {
    "acknowledged-in-transaction": "no scene has an acknowledgment in a transaction",
    "cursor-not-open": "no request closes the cursor of a loaded topic",
    "unacked-negative": UNKNOWN,
    "blocked-flag-left": "fixed in releases before those that the kit runs",
    "total-permits-negative": UNKNOWN,
    "permits-lost": "no scene has a client that returns too few permits",
    "draining-hash-left": UNKNOWN,
    "read-lost-active": "a race, fixed in 4.2.4 and 5.0.0",
    "look-ahead-parked": "a race, fixed in 4.2.4 and 5.0.0",
    "replay-not-read": UNKNOWN,
    "no-read": UNKNOWN,
}
"""The codes of a wait or a defect without a cause here, each with the reason."""


def cause(
    code: str, *, before: tuple[str, str] | None = None, **settings: Any
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Register a function that produces a cause of a stall."""

    def register(make: Callable[[Scene], None]) -> Callable[[Scene], None]:
        CAUSES.append(Cause(code, make.__name__, make, settings, before))
        return make

    return register


@contextmanager
def made(broker: kit.Broker, each: Cause) -> Iterator[Scene]:
    """Create the cause, and wait until the broker has finished its work."""
    scene = Scene(broker, **each.settings)
    try:
        each.make(scene)
        time.sleep(RESTS_S)
        yield scene
    finally:
        scene.close()


@cause("no-consumer")
def nobody_is_connected(scene: Scene) -> None:
    scene.join(1, SHARED)
    scene.client.close_consumer(1)
    scene.publish(5)


@cause("no-permits")
def a_shared_consumer_asks_for_nothing(scene: Scene) -> None:
    scene.join(1, SHARED)
    scene.publish(5)


@cause("no-permits")
def a_queue_is_full(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 3)
    scene.publish(10, keys=3)
    scene.received(3)


@cause("no-permits")
def the_active_consumer_asks_for_nothing(scene: Scene) -> None:
    scene.join(1, FAILOVER, priority=0)
    scene.join(2, FAILOVER, 100, priority=1)
    scene.publish(5)


@cause("no-permits")
def an_exclusive_consumer_asks_for_nothing(scene: Scene) -> None:
    scene.join(1, EXCLUSIVE, 2)
    scene.publish(5)
    scene.received(2)


@cause("consumer-blocked", maxUnackedMessagesPerConsumer=5)
def a_consumer_acknowledges_nothing(scene: Scene) -> None:
    scene.join(1, SHARED, 100)
    scene.publish(20)


@cause("consumer-blocked", maxUnackedMessagesPerConsumer=5)
def a_consumer_of_key_shared_acknowledges_nothing(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 100)
    scene.publish(20, keys=4)


@cause("subscription-blocked", maxUnackedMessagesPerSubscription=6)
def two_consumers_acknowledge_nothing(scene: Scene) -> None:
    scene.join(1, SHARED, 1_000)
    scene.join(2, SHARED, 1_000)
    for _ in range(12):
        scene.publish(1)
        time.sleep(0.02)
    scene.publish(20)


@cause("delayed")
def all_is_delayed(scene: Scene) -> None:
    scene.join(1, SHARED, 100)
    scene.publish(5, deliver_at_ms=int(time.time() * 1000) + HOUR_MS)


@cause("delayed")
def what_is_left_is_delayed(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 100)
    scene.publish(3, keys=3)
    scene.ack(1, scene.received(3))
    scene.publish(5, keys=5, deliver_at_ms=int(time.time() * 1000) + HOUR_MS)


@cause("fixed-delay", delayedDeliveryFixedDelayDetectionLookahead=10, dispatcherMaxReadBatchSize=10)
def a_plain_message_waits_behind_fixed_delays(scene: Scene) -> None:
    scene.join(1, SHARED)
    for _ in range(20):
        scene.publish(1, deliver_at_ms=int(time.time() * 1000) + HOUR_MS)
        time.sleep(0.01)
    scene.publish(5)
    scene.client.flow(1, 1_000)


@cause("key-waits")
def a_hash_drains(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 1_000)
    scene.publish(20, keys=20)
    scene.received(20)
    scene.join(2, KEY_SHARED, 1_000)
    scene.publish(20, keys=20)
    scene.received(1)


@cause(
    "look-ahead",
    keySharedLookAheadMsgInReplayThresholdPerConsumer=3,
    keySharedLookAheadMsgInReplayThresholdPerSubscription=3,
)
def too_much_waits_for_its_key(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 1_000)
    scene.publish(20, keys=20)
    scene.received(20)
    scene.join(2, KEY_SHARED, 1_000)
    for _ in range(3):
        scene.publish(20, keys=20)
        time.sleep(0.1)


@cause("dispatch-rate")
def a_namespace_limits_the_rate(scene: Scene) -> None:
    rate = {"dispatchThrottlingRateInMsg": 2, "ratePeriodInSecond": 3_600, "dispatchThrottlingRateInByte": -1}
    scene.broker.admin("POST", f"namespaces/{scene.namespace}/subscriptionDispatchRate", rate)
    time.sleep(1)
    scene.join(1, SHARED, 1_000)
    for _ in range(4):
        scene.publish(5)
        time.sleep(0.2)


@cause("hold")
def a_hold_was_set(scene: Scene) -> None:
    rate = {"dispatchThrottlingRateInMsg": 1, "ratePeriodInSecond": 3_600, "dispatchThrottlingRateInByte": 1}
    scene.join(1, SHARED)
    scene.admin("POST", f"{SUBSCRIPTION}/dispatchRate", rate)
    time.sleep(2)
    scene.client.flow(1, 1_000)
    for _ in range(4):
        scene.publish(5)
        time.sleep(0.2)


@cause("paused", dispatcherPauseOnAckStatePersistentEnabled=True, managedLedgerMaxUnackedRangesToPersist=3)
def a_cursor_has_too_many_ranges(scene: Scene) -> None:
    scene.join(1, SHARED, 1_000)
    scene.publish(20)
    scene.ack(1, scene.received(20)[1::2])
    for _ in range(3):
        scene.publish(5)
        time.sleep(0.2)


@cause(
    "paused",
    before=("5.0.0", "with-consumers"),
    dispatcherPauseOnAckStatePersistentEnabled=True,
    managedLedgerMaxBatchDeletedIndexToPersist=3,
)
def too_many_batches_are_partly_acknowledged(scene: Scene) -> None:
    scene.join(1, SHARED, 1_000)
    sent = [scene.client.publish(10, None) for _ in range(6)]
    scene.received(6)
    scene.client.ack(1, [(each, tuple(to_words(0b11_1110_0000)), 10) for each in sent])
    for _ in range(3):
        scene.publish(5)
        time.sleep(0.2)


@cause("with-consumers")
def all_was_delivered(scene: Scene) -> None:
    scene.join(1, SHARED, 1_000)
    scene.publish(5)
    scene.received(5)


@cause("with-consumers")
def all_was_delivered_to_the_active_one(scene: Scene) -> None:
    scene.join(1, FAILOVER, 1_000)
    scene.publish(5)
    scene.received(5)


@cause("open-transaction")
def a_transaction_is_open(scene: Scene) -> None:
    scene.join(1, SHARED, 1_000)
    scene.client.publish(None, None, transaction=TRANSACTION)
    scene.publish(5)


@cause("only-markers", before=("4.1.0", "no-permits"))
def the_marker_of_a_transaction_is_left(scene: Scene) -> None:
    scene.join(1, SHARED, 1)
    scene.client.publish(None, None, transaction=TRANSACTION)
    scene.client.end_transaction_on_topic(TRANSACTION, commit=True)
    scene.ack(1, scene.received(1))


@cause("no-owner")
def nobody_owns_the_hash(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 1_000, hash_ranges=[(0, 10)])
    scene.publish(10, keys=10)


@cause("idle")
def nothing_is_published(scene: Scene) -> None:
    scene.join(1, SHARED, 1_000)
    scene.publish(5)
    scene.ack(1, scene.received(5))


@cause("no-read-after-leave")
def a_consumer_of_key_shared_left(scene: Scene) -> None:
    scene.join(1, KEY_SHARED, 1_000)
    scene.join(2, KEY_SHARED)
    scene.publish(50, keys=50)
    time.sleep(0.5)
    scene.ack(1, [each.position for each in scene.client.take()])
    time.sleep(0.3)
    scene.client.close_consumer(2)


@cause("read-lost-shared")
def the_read_of_the_cursor_is_cancelled(scene: Scene) -> None:
    """Apache/pulsar#26454; the sequence of events in a broker is unknown, so the kit cancels the read."""
    scene.join(1, SHARED, 1_000)
    scene.publish(5)
    scene.ack(1, scene.received(5))
    scene.broker.cancel_read(scene.topic, SUBSCRIPTION)
    scene.publish(5)
