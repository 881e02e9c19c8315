"""The state of a broker: topics, partitioned topics, policies, schemas, transactions.

This module does no network I/O. Connections pass the commands of clients to it and write its answers. All of
it runs in one event loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from ackwell.devbroker import backlog_quotas
from ackwell.devbroker.content import TopicContent
from ackwell.devbroker.coordinator import Coordinator
from ackwell.devbroker.namespace_policies import AGES_CHECKED_MS, AUTO_TOPICS, COMPACTION, COMPATIBILITY, TTL
from ackwell.devbroker.persistent_map import PersistentMap
from ackwell.devbroker.pump import deliver
from ackwell.devbroker.refused_commands import CommandRefusedError
from ackwell.devbroker.restarts import RestartReport, surviving_state
from ackwell.devbroker.schemas import DEFAULT_STRATEGY, Schemas
from ackwell.devbroker.shared import SharedState
from ackwell.devbroker.topic import Topic
from ackwell.errors import ErrorCode
from ackwell.protocol.command_ack import TransactionId
from ackwell.protocol.constants import TxnAction
from ackwell.protocol.topic_name import TopicName
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    from ackwell.broker.writes import Restart
    from ackwell.devbroker.broker_file import BrokerFile
    from ackwell.devbroker.client_connection import ClientConnection
    from ackwell.devbroker.clock import Clock
    from ackwell.devbroker.devbroker_settings import DevBrokerSettings
    from ackwell.devbroker.loading import LoadReport
    from ackwell.devbroker.restarts import RestartBehaviour, SubscriptionLoss
    from ackwell.devbroker.subscriptions import TopicSubscription
    from ackwell.devbroker.watchers import Watcher


SYSTEM: Final = "pulsar/system"

COORDINATORS: Final = f"persistent://{SYSTEM}/transaction_coordinator_assign"
"""The topic whose partitions the Java client looks up to find the transaction coordinators. It has one
partition."""

COORDINATOR_COUNT: Final = 1


class BrokerState:
    """The state of a broker. With a file, the state starts from the content of the file."""

    def __init__(self, settings: DevBrokerSettings, clock: Clock, file: BrokerFile | None = None) -> None:
        self.watchers: dict[tuple[ClientConnection, int], Watcher] = {}
        self.shared = SharedState(settings, clock, file, self._deliver, self._reclaim)
        self.settings = settings
        self.clock = clock
        self.topics: dict[str, Topic] = {}
        self.topic_names = PersistentMap[bool](file, "name")
        """The names of all persistent topics, so that they exist again after a restart of the process."""
        self.partitioned = PersistentMap[int](file, "partitions")
        self.made_tenants = PersistentMap[dict[str, Any]](file, "tenant")
        self.dynamic_settings = PersistentMap[str](file, "dynamic setting")
        """The broker settings that the admin API changed at run time. The changes have no effect."""
        self.resources = PersistentMap[dict[str, Any]](file, "resource")
        """The objects that the admin API stores and that have no effect, such as other clusters."""
        self.schemas = Schemas(file, clock)
        self.saved_clock = PersistentMap[dict[str, int | None]](file, "clock")
        """The saved state of the clock under the name `clock`. It is empty until a test moves the clock."""
        if "clock" in self.saved_clock:
            clock.restore(self.saved_clock["clock"])
        self.coordinator = Coordinator(self.shared)
        self._names = 0
        self._consumers = 0
        clock.on_jump, clock.on_change = self.wake_all, self._save_clock
        self._begin()
        self._recover()

    def _begin(self) -> None:
        """Create the initial namespaces and the topic of the coordinators, and start the periodic checks."""
        self.partitioned[COORDINATORS] = COORDINATOR_COUNT
        for name in (*self.settings.namespaces, SYSTEM):
            self.shared.policies.setdefault(name, {})
        self.clock.call_at(self.clock.now_ms() + AGES_CHECKED_MS, self._check_ages)
        self._check_quotas_later()

    def reset(self) -> None:
        """Return to the initial state. The caller must close all connections first."""
        self.watchers.clear()
        for topic in list(self.topics.values()):
            self.delete_topic(topic.name)
        shared = self.shared
        kept = self.partitioned, self.made_tenants, self.coordinator.open, self.schemas.versions
        stored = (
            shared.policies,
            shared.topic_policies,
            shared.counters,
            self.dynamic_settings,
            self.resources,
        )
        for each in (*kept, *stored):
            each.clear()
        self._names = self._consumers = 0
        self.shared.clear()
        self._begin()
        self.shared.save()

    # Names and topics

    def new_name(self) -> str:
        """Return a new unique name, for a producer or consumer whose client gave none."""
        self._names += 1
        return f"standalone-0-{self._names - 1}"

    def new_consumer_key(self) -> int:
        """Return a new unique number, which is the key of a consumer."""
        self._consumers += 1
        return self._consumers

    def topic(self, text: str, *, create: bool = True) -> Topic:
        """Return a topic by its name.

        A missing topic is created if `create` is true and the settings allow it. Otherwise, raises
        `CommandRefusedError`.
        """
        topic = self.topics.get(text)
        if topic is not None:
            return topic
        name = parse_topic_name(text)
        self.check_namespace(name)
        topic = self.topics.get(str(name))
        if topic is None:
            if str(name) in self.partitioned:
                raise CommandRefusedError(
                    ErrorCode.NOT_ALLOWED_ERROR, f"{name} is a partitioned topic; use one of its partitions"
                )
            partitions = self.partitioned.get(str(name.partitioned), 0)
            if name.partition >= 0 and not partitions:
                raise CommandRefusedError(
                    ErrorCode.NOT_ALLOWED_ERROR,
                    f"Partition metadata not found for the partitioned topic: {name}",
                )
            may_create = create and not partitions and self._creates_topics(name)[0]
            if not (may_create or 0 <= name.partition < partitions):
                raise CommandRefusedError(ErrorCode.TOPIC_NOT_FOUND, f"Topic {name} does not exist")
            topic = self.make_topic(name)
        return topic

    def _creates_topics(self, name: TopicName) -> tuple[bool, int]:
        """Return whether a command creates the missing topic `name`, and its number of partitions.

        The number is 0 for a topic without partitions.
        """
        policy = self.shared.policy(name, AUTO_TOPICS)
        if policy is None:
            return self.settings.auto_create_topics, self.settings.auto_create_partitions
        partitions = policy.get("defaultNumPartitions", 0) if policy["topicType"] == "partitioned" else 0
        return policy["allowAutoTopicCreation"], partitions

    def make_topic(self, name: TopicName) -> Topic:
        """Create a topic. The topic must not exist."""
        topic = self.topics[str(name)] = Topic(TopicContent(self.shared, name))
        if name.persistent:
            self.topic_names[str(name)] = True
        self.topics_changed([name], [])
        return topic

    def check_namespace(self, name: TopicName) -> None:
        """Raise `CommandRefusedError` if the namespace of a topic does not exist."""
        if name.in_namespace not in self.shared.policies:
            raise CommandRefusedError(ErrorCode.TOPIC_NOT_FOUND, f"Namespace {name.in_namespace} not found")

    def partitions_of(self, name: TopicName, *, create: bool = False) -> int:
        """Return the number of partitions of a topic; 0 for a topic without partitions.

        With `create`, a missing topic is created if the settings allow it.
        """
        self.check_namespace(name)
        known = self.partitioned.get(str(name))
        if known is not None or name.partition >= 0 or not create or str(name) in self.topics:
            return known or 0
        allowed, wanted = self._creates_topics(name)
        wanted = wanted if allowed else 0
        if wanted:
            self.create_partitioned(name, wanted)
        return wanted

    def create_partitioned(self, name: TopicName, partitions: int) -> None:
        """Create a partitioned topic. If it exists, add partitions up to the number `partitions`."""
        before = self.partitioned.get(str(name), 0)
        self.partitioned[str(name)] = partitions
        made = [self.topic(str(name.of_partition(index))) for index in range(partitions)]
        if before:
            for known in made[0].subscriptions.values():
                for topic in made[before:]:
                    topic.subscribe(
                        known.name, known.type, topic.content.first_position, durable=known.durable
                    )

    def delete_topic(self, name: TopicName) -> None:
        """Delete a topic and its subscriptions."""
        topic = self.topics.pop(str(name), None)
        if topic is not None:
            topic.delete()
            self.topic_names.pop(str(name), None)
            if not self._exists(name.partitioned):
                self.schemas.delete(str(name.partitioned))
                self.shared.topic_policies.pop(str(name.partitioned), None)
            self.topics_changed([], [name])

    def _exists(self, name: TopicName) -> bool:
        """Return whether a topic with this name exists, or one of its partitions."""
        partitions = range(self.partitioned.get(str(name), 0))
        return str(name) in self.topics or any(
            str(name.of_partition(index)) in self.topics for index in partitions
        )

    def topics_in(self, namespace: str) -> list[TopicName]:
        """Return the topics of a namespace. Each partition is a separate topic in the list."""
        return sorted(topic.name for topic in self.topics.values() if topic.name.in_namespace == namespace)

    def topics_changed(self, made: list[TopicName], deleted: list[TopicName]) -> None:
        """Notify the watchers of topic lists that topics were created or deleted."""
        for each in list(self.watchers.values()):
            each.notify(made, deleted, self.topics_in)

    # Policies

    def set_policy(self, namespace: str, field: str, value: Any) -> None:
        """Set a policy of a namespace. The value None removes the policy.

        Existing topics apply it at once.
        """
        policies = {name: kept for name, kept in self.shared.policies[namespace].items() if name != field}
        self.shared.policies[namespace] = policies if value is None else policies | {field: value}
        for topic in self.topics.values():
            if topic.name.in_namespace == namespace:
                self._policy_changed(topic)

    def set_topic_policy(self, name: TopicName, policy: str, value: Any) -> None:
        """Set a policy of a topic and of all its partitions. The value None removes the policy."""
        key = str(name.partitioned)
        policies = {
            each: kept for each, kept in self.shared.topic_policies.get(key, {}).items() if each != policy
        }
        self.shared.topic_policies[key] = policies if value is None else policies | {policy: value}
        for topic in self.topics.values():
            if topic.name.partitioned == name.partitioned:
                self._policy_changed(topic)

    def _policy_changed(self, topic: Topic) -> None:
        topic.apply_policies()
        for each in topic.subscriptions.values():
            each.apply_policies()
            each.wake()

    def _check_ages(self) -> None:
        """Apply the policies for expiry, compaction, ledger age and retention to each topic.

        Then schedule the next check.
        """
        for topic in self.topics.values():
            seconds = self.shared.policy(topic.name, TTL)
            for each in topic.subscriptions.values() if seconds else ():
                each.expire_older_than(seconds)
            threshold = self.shared.policy(topic.name, COMPACTION)
            if threshold and topic.content.log.nbytes > threshold:
                topic.content.compact()
            topic.content.log.roll_if_old()
            topic.trim()
        self.clock.call_at(self.clock.now_ms() + AGES_CHECKED_MS, self._check_ages)
        self.shared.run_woken()

    def _check_quotas_later(self) -> None:
        def check() -> None:
            self.check_backlog_quotas()
            self._check_quotas_later()

        self.clock.call_at(self.clock.now_ms() + self.settings.backlog_quota_check_ms, check)

    def check_backlog_quotas(self) -> None:
        """Apply the backlog quotas to every topic."""
        for topic in self.topics.values():
            backlog_quotas.enforce(topic)
        self.shared.run_woken()

    def permits(self, role: str | None, name: TopicName, action: str | None) -> bool:
        """Return whether a role may perform an action on a topic.

        Super users and admins of the tenant may perform every action. Any other role needs a permission for
        `action`. If `action` is None, a permission for any action suffices.
        """
        if role is None or role in (self.settings.super_users or ()):
            return role is not None
        tenant = self.made_tenants.get(name.in_namespace.partition("/")[0], {})
        if role in tenant.get("adminRoles", ()):
            return True
        granted = self.shared.policies.get(name.in_namespace, {}).get("auth_policies", {})
        on_topic = granted.get("destination_auth", {}).get(str(name.partitioned), {})
        actions = {*on_topic.get(role, ()), *granted.get("namespace_auth", {}).get(role, ())}
        return action in actions if action else bool(actions)

    def tenants(self) -> set[str]:
        """Return all tenants: those that were created, and those that have a namespace."""
        return {name.partition("/")[0] for name in self.shared.policies} | set(self.made_tenants)

    def strategy_of(self, name: TopicName) -> str:
        """Return the schema compatibility strategy that applies to a topic."""
        return self.shared.policy(name, COMPATIBILITY) or DEFAULT_STRATEGY

    def put_schema(self, name: TopicName, schema: Any) -> bytes | None:
        """Add a schema to a topic and return its version; None for the type AUTO_CONSUME.

        Raises `CommandRefusedError` if the definition is invalid, if the topic has schemas of another type,
        or if the compatibility strategy of the topic does not accept the schema. Raises `FrameError` if the
        name, the type or the data is missing.
        """
        return self.schemas.put(str(name.partitioned), schema, self.strategy_of(name))

    # Transactions

    def begin_transaction(self, coordinator_id: int, ttl_ms: int) -> TransactionId:
        """Open a transaction and return its id.

        If the transaction is still open after `ttl_ms` milliseconds, it is aborted. 0 means that it is never
        aborted.
        """
        txn = self.coordinator.begin(coordinator_id, self.clock.now_ms(), ttl_ms)
        self._expire(txn)
        return txn

    def end_transaction(self, txn: TransactionId, action: TxnAction) -> None:
        """Commit or abort a transaction in all topics and subscriptions that it uses."""
        parts = self.coordinator.end(txn)
        for name in sorted({full_name(each) for each in parts["topics"]}):
            if (topic := self.topics.get(name)) is not None:
                topic.end_transaction(txn, action)
        for name, subscription_name in sorted(
            {(full_name(each), sub) for each, sub in parts["subscriptions"]}
        ):
            topic = self.topics.get(name)
            found = topic.subscriptions.get(subscription_name) if topic else None
            if found is not None:
                found.end_transaction(txn, action)

    def _expire(self, txn: TransactionId) -> None:
        """Schedule the abort of a transaction for the time at which it times out."""
        described = self.coordinator.check(txn)

        def expire() -> None:
            if self.coordinator.is_open(txn):
                self.end_transaction(txn, TxnAction.ABORT)
                self.shared.run_woken()

        if described["timeout_ms"]:
            self.clock.call_at(described["opened_ms"] + described["timeout_ms"], expire)

    # Time and memory

    def _save_clock(self) -> None:
        self.saved_clock["clock"] = self.clock.saved()
        self.shared.save()

    def wake_all(self) -> None:
        """Run every subscription after the clock jumped, because messages may have become deliverable."""
        for subscription in self.subscriptions():
            subscription.wake()
        self.shared.run_woken()

    def subscriptions(self) -> Iterable[TopicSubscription]:
        """Iterate over all subscriptions."""
        return (each for topic in self.topics.values() for each in topic.subscriptions.values())

    def _deliver(self, subscription: TopicSubscription) -> None:
        """Deliver the entries of a subscription. Delete the ledgers that all subscriptions have consumed."""
        deliver(subscription)
        topic = self.topics.get(subscription.content.full_name)
        if topic is not None and len(topic.content.log.entries) > 1:
            needed = subscription.first_unacked_ledger
            if needed != subscription.trimmed_before:
                subscription.trimmed_before = needed
                topic.trim()

    def _reclaim(self) -> None:
        """Free the memory of all entries that every subscription has consumed."""
        for topic in self.topics.values():
            topic.reclaim()

    # Recovery

    def _recover(self) -> None:
        """Restore the state from the broker's file."""
        file = self.shared.file
        for name in self.topic_names:
            assert file is not None
            content = TopicContent(self.shared, TopicName.parse(name), file.ledgers(name))
            self.topics[name] = Topic(content)
            self.topics[name].recover(self.coordinator.is_open)
        for text in self.coordinator.open:
            self._expire(TransactionId.parse(text))

    # Loading

    def load(self, loaded: LoadReport) -> None:
        """Add loaded topics. If one of them exists already, raise `ValueError` and add no topic."""
        taken = [name for name in loaded.topics if name in self.topics]
        if taken:
            raise ValueError(
                f"{taken[0]} exists already; load into a broker without it, or `reset` the broker"
            )
        for text, described in loaded.topics.items():
            name = TopicName.parse(text)
            self.shared.policies.setdefault(name.in_namespace, {})
            newest = max(described.ledgers, default=-1)
            self.shared.counters["ledger"] = max(self.shared.counters.get("ledger", -1), newest)
            topic = self.topics[text] = Topic(
                TopicContent(self.shared, name, described.entries(), is_open=True)
            )
            self.topic_names[text] = True
            topic.load(described)
            if name.partition >= 0:
                whole = str(name.partitioned)
                self.partitioned[whole] = max(self.partitioned.get(whole, 0), name.partition + 1)
        for whole in {
            str(each.name.partitioned) for each in self.topics.values() if each.name.partition >= 0
        }:
            # A source may lack partitions with lower numbers. Create them as empty topics.
            self.create_partitioned(TopicName.parse(whole), self.partitioned[whole])
        self.topics_changed([TopicName.parse(each) for each in loaded.topics], [])
        self.shared.save()

    # Restarts

    def reload(
        self, how: Restart, as_: RestartBehaviour, names: Iterable[str] | None = None
    ) -> RestartReport:
        """Close topics, and load the state that survives the restart. Return the lost acknowledgments.

        `names` are the topics; the default is all topics.
        """
        losses: dict[tuple[str, str], SubscriptionLoss] = {}
        for name in list(self.topics if names is None else names):
            topic = self.topics.pop(name)
            survivors = {
                each.name: surviving_state(each, how, as_, self.settings.broker)
                for each in topic.subscriptions.values()
                if each.durable
            }
            if how == "graceful":
                topic.close()
            for each in topic.subscriptions.values():
                # A timer of this subscription may still fire. It must not find a consumer.
                each.consumers.clear()
            if topic.name.persistent:
                self.topics[name] = Topic.after_restart(topic, survivors)
                losses |= {(name, each): survivor.loss for each, survivor in survivors.items()}
        return RestartReport(how, f"pulsar-{self.settings.version}" if as_ == "pulsar" else "ackwell", losses)

    def unload(self, topic: Topic) -> RestartReport:
        """Close a topic and load it again, as the emulated version does. Return the lost acknowledgments."""
        topic.content.record(Kind.UNLOAD)
        return self.reload("graceful", "pulsar", [str(topic.name)])

    def close(self) -> None:
        """Save all changes, and close the broker's file."""
        self.shared.save()
        if self.shared.file is not None:
            self.shared.file.close()

    def validate(self) -> None:
        """Check the invariants of every subscription. An `AssertionError` names the violated invariant."""
        for subscription in self.subscriptions():
            subscription.subscription.validate()


def parse_topic_name(text: str) -> TopicName:
    """Parse the name of a topic. `CommandRefusedError` if the name is invalid."""
    try:
        return TopicName.parse(text)
    except ValueError as error:
        raise CommandRefusedError(ErrorCode.INVALID_TOPIC_NAME, str(error)) from None


def full_name(text: str) -> str:
    """Return the full name of a topic. `CommandRefusedError` if the name is invalid."""
    return str(parse_topic_name(text))
