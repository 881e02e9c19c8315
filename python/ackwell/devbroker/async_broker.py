"""The dev broker: a Pulsar broker in this process, for tests of clients.

`AsyncBroker` runs in an event loop. `Broker` runs an `AsyncBroker` in a separate thread. By default, a broker
listens on 127.0.0.1 and a free port, and keeps all data in memory. With `path`, it keeps the data in a file.
A broker stops at the end of its `with` block.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self

from ackwell.devbroker import tester
from ackwell.devbroker.auth import Authenticate, Authorize, Service
from ackwell.devbroker.broker_file import BrokerFile
from ackwell.devbroker.broker_state import BrokerState
from ackwell.devbroker.client_connection import ClientConnection
from ackwell.devbroker.clock import Clock
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.handlers import HANDLERS
from ackwell.devbroker.ports import Ports
from ackwell.object_paths import local_path
from ackwell.protocol.topic_name import TopicName
from ackwell.replay.events import Kind

if TYPE_CHECKING:
    import os
    import ssl

    from ackwell.broker.writes import Restart
    from ackwell.devbroker.admin_api import AdminServer
    from ackwell.devbroker.faults import Faults
    from ackwell.devbroker.loading import LoadReport, Source
    from ackwell.devbroker.restarts import RestartBehaviour, RestartReport
    from ackwell.devbroker.tester import Message
    from ackwell.replay.events import Event

LOOPBACK: Final = "127.0.0.1"

UNSPECIFIED: Final = ("", "0.0.0.0", "::")  # compared, not listened on
"""The host names that mean all addresses of the machine."""

OTHER_FILES: Final = 256
"""The number of files that the process may open in addition to its connections."""

CLIENT_ACK_GROUPING_MS: Final = 100
"""The time in milliseconds for which the C++ and Python clients collect acknowledgments before they send
them."""

ACK_MARGIN_S: Final = 0.02
"""The time that `settle` waits in addition to the grouping time, so that the grouped acknowledgments
arrive."""


class AsyncBroker:
    """A broker in the running event loop: `async with AsyncBroker() as broker`.

    Call its methods from the thread of that loop only.
    """

    def __init__(
        self,
        *,
        host: str = LOOPBACK,
        port: int = 0,
        admin_port: int | None = 0,
        settings: DevBrokerSettings | None = None,
        tls: ssl.SSLContext | None = None,
        tls_port: int = 0,
        admin_tls_port: int | None = None,
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        advertised_host: str | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._admin_port = admin_port
        self._tls, self._tls_port, self._admin_tls_port = tls, tls_port, admin_tls_port
        # If the broker listens on all addresses of the machine, clients need another address to connect to.
        self._advertised_host = advertised_host or (LOOPBACK if host in UNSPECIFIED else host)
        if not isinstance(settings, DevBrokerSettings | None):
            raise TypeError(
                f"settings is a value of type {type(settings).__name__}; expected DevBrokerSettings"
            )
        self.settings = settings or DevBrokerSettings()
        self.clock = Clock()
        file = None if path is None else BrokerFile(path)
        self.state = BrokerState(self.settings, self.clock, file)
        self.state.shared.faults.on_crash = self.crash
        self.service = Service("", None, authenticate, authorize)
        if self.settings.super_users is not None:
            self.service.permits = self.state.permits
        self._ports = Ports(lambda: ClientConnection(self.state, self.service, HANDLERS))
        self._admin: AdminServer | None = None
        """The server of the admin API. It keeps running after `crash`, so that a test in another language can
        request the restart."""
        self.crashed = False
        """Whether the broker is crashed: `crash` was called, but not `restart`."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start to listen for clients and for admin requests."""
        self.clock.start()
        raise_open_file_limit(self.settings.max_connections)
        self._port = await self._ports.open(self._host, self._port)
        self.service.url = f"pulsar://{self._advertised_host}:{self._port}"
        if self._tls is not None:
            self._tls_port = await self._ports.open(self._host, self._tls_port, self._tls)
            self.service.tls_url = f"pulsar+ssl://{self._advertised_host}:{self._tls_port}"
        if self._admin_port is not None and self._admin is None:
            # The import is here so that a program without the admin API does not load the HTTP framework.
            from ackwell.devbroker.admin_api import AdminServer

            self._admin = AdminServer(self)
            self._admin_port = await self._admin.ports.open(self._host, self._admin_port)
            self.service.admin_url = self.admin_url
            if self._tls is not None and self._admin_tls_port is not None:
                port = await self._admin.ports.open(self._host, self._admin_tls_port, self._tls)
                self.service.admin_tls_url = f"https://{self._advertised_host}:{port}"

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        self.clock.stop()
        await self._ports.stop_accepting()
        self._abort_connections()
        await self._ports.wait_closed()
        if self._admin is not None:
            await self._admin.close()
            self._admin = None
        self.state.close()

    @property
    def url(self) -> str:
        """The address for a client: `pulsar://127.0.0.1:port`."""
        return self.service.url

    @property
    def tls_url(self) -> str | None:
        """The address for a client with TLS; None if the broker has no TLS port."""
        return self.service.tls_url

    @property
    def admin_url(self) -> str:
        """The address of the admin REST API."""
        return f"http://{self._advertised_host}:{self._admin_port}"

    @property
    def admin_tls_url(self) -> str | None:
        """The address of the admin REST API with TLS; None if the broker has no TLS port."""
        return self.service.admin_tls_url

    @property
    def events(self) -> list[Event]:
        """The recorded events, in the schema that `ackwell replay` reads."""
        return self.state.shared.recorder.events()

    def save_events(self, folder: str | os.PathLike[str], *, payloads: bool = False) -> None:
        """Write the recorded events to a folder as a recording. `ackwell replay` and `load` can read it.

        With `payloads`, also write the entries that are still in the topics. A missing folder is created.
        Raises `FileExistsError` if the folder already contains a recording.
        """
        from ackwell.replay.payloads import PREFIX, payload_line
        from ackwell.replay.traces import line

        path = local_path(folder)
        path.mkdir(parents=True, exist_ok=True)
        with (path / "events-000001.jsonl").open("x", encoding="utf-8") as file:
            file.writelines(map(line, self.events))
        if payloads:
            with (path / f"{PREFIX}000001.jsonl").open("x", encoding="utf-8") as file:
                for topic in self.state.topics.values():
                    for ledger_id, entries in topic.content.log.entries.items():
                        for entry_id, entry in enumerate(entries):
                            position = ledger_id, entry_id
                            file.write(payload_line(topic.content.full_name, position, entry.data))

    @property
    def faults(self) -> Faults:
        """The faults that tests inject."""
        return self.state.shared.faults

    def load(self, *sources: Source, topic: str | None = None, subscription: str | None = None) -> LoadReport:
        """Load the state of an incident from dumps, cursor bytes or recordings.

        See `ackwell.devbroker.loading`.

        A source is a file, a folder or a `Subscription`. If a source does not contain the names of its topic
        and subscription, the arguments `topic` and `subscription` give them. The report lists the loaded
        topics, and the facts that no source contains. Raises `StatsError` if no source can be used, and
        `ValueError` if the broker already has one of the topics.
        """
        # The reader of sources imports most modules of ackwell, and few tests load an incident.
        from ackwell.devbroker.loading import read

        loaded = read(sources, topic, subscription, self.clock.now_ms())
        self.state.load(loaded)
        return loaded

    # Time and faults

    async def settle(
        self, timeout_s: float = 10.0, *, ack_grouping_ms: float = CLIENT_ACK_GROUPING_MS
    ) -> None:
        """Wait until all commands of clients are handled and all deliverable messages are sent.

        The broker pings each client. When the answer to a ping arrives, the broker has handled all commands
        that the client sent before the answer. If delivered messages are unacknowledged, `settle` also waits
        `ack_grouping_ms` (`ackGroupingTimeMs`), because a client may collect acknowledgments for this time
        before it sends them. Use 0 if the client sends acknowledgments at once, or if the test has
        acknowledged nothing since the last `settle`. After a change of its active consumer, a Failover
        subscription delivers no messages for some time. Unless the clock is frozen, `settle` also waits for
        the end of this time. Raises `TimeoutError` after `timeout_s` seconds.
        """
        try:
            await asyncio.wait_for(self._wait_until_settled(ack_grouping_ms), timeout_s)
        except TimeoutError:
            raise TimeoutError(f"clients were still sending commands after {timeout_s:g} s") from None

    async def _wait_until_settled(self, ack_grouping_ms: float) -> None:
        while not self.clock.frozen and any(each.is_in_failover_delay for each in self.state.subscriptions()):
            await asyncio.sleep(0.01)
        await self._ping_until_quiet()
        if ack_grouping_ms and any(each.has_delivered_backlog for each in self.state.subscriptions()):
            await asyncio.sleep(ack_grouping_ms / 1_000 + ACK_MARGIN_S)
            await self._ping_until_quiet()

    async def _ping_until_quiet(self) -> None:
        """Ping every client repeatedly, until no client sends a command between a ping and its answer."""
        while True:
            connections = list(self.state.shared.connections)
            before = {each: (each.pongs, each.commands) for each in connections}
            for each in connections:
                each.ping()
            while any(
                each.pongs == before[each][0] for each in connections if each in self.state.shared.connections
            ):
                await asyncio.sleep(0.001)
            if all(each.commands == before[each][1] for each in connections):
                return

    async def take_back(self, consumer: str, messages: Any = None, *, subscription: str | None = None) -> int:
        """Redeliver messages of a consumer, as after an ack timeout; return the number of entries.

        The redelivery count of each entry increases by one. `consumer` is the consumer's name. `messages` is
        one value or several: messages that the client received, message ids, or positions. For a message of a
        batch, the whole entry is redelivered. On Exclusive and Failover subscriptions, all unacknowledged
        entries are redelivered, as by a Pulsar broker.

        Without `messages`, all unacknowledged entries of the consumer are redelivered. In this case, and on
        Exclusive and Failover subscriptions, the broker closes the consumer. The method returns after the
        client has subscribed again. The close makes the client drop the unread messages in its queue.
        Without the close, the client would receive these messages twice. Raises `KeyError` if no consumer has
        this name. If `subscription` is given, only the consumers of this subscription are searched.
        """
        taken = await tester.take_back(self.state, consumer, messages, subscription)
        # When the answer to its subscribe command arrives, a client drops its unread messages.
        await asyncio.wait_for(self._ping_until_quiet(), tester.REOPENED_WITHIN_S)
        return taken

    # Queries of tests

    def messages(self, topic: str) -> list[Message]:
        """Return the messages of a topic, one partition after the other.

        `KeyError` if the topic does not exist.
        """
        return tester.messages(self.state, topic)

    def backlog(self, topic: str, subscription: str) -> list[Message]:
        """Return the messages that a subscription has not acknowledged.

        `KeyError` if the topic or the subscription does not exist.
        """
        return tester.backlog(self.state, topic, subscription)

    def create_topic(self, topic: str, *, partitions: int = 0) -> None:
        """Create a topic. With `partitions`, create a partitioned topic.

        Do nothing if the topic already exists with this number of partitions.
        """
        name = TopicName.parse(topic)
        if partitions:
            self.state.create_partitioned(name, partitions)
        else:
            self.state.topic(str(name), create=True)

    def create_namespace(self, namespace: str) -> None:
        """Create a namespace, named `tenant/namespace`, and its tenant. Do nothing if it already exists."""
        TopicName.parse(f"persistent://{namespace}/topic")
        self.state.shared.policies.setdefault(namespace, {})

    async def reset(self) -> None:
        """Return to the initial state. All connections are closed.

        All data, policies, events and faults are deleted.

        The addresses stay the same, and the numbering of ids starts again. One broker can therefore serve
        many tests in any order. A crashed broker starts to listen again.
        """
        self._abort_connections()
        # The event loop runs the callbacks of the closed connections here, before the state is cleared.
        await asyncio.sleep(0)
        self.clock.reset()
        self.state.reset()
        if self.crashed:
            self.crashed = False
            await self.start()

    def crash(self) -> None:
        """Stop at once, as if the process was killed. Break the connections, and drop their queued frames."""
        self.crashed = True
        self._ports.close()
        self._abort_connections()

    def _abort_connections(self) -> None:
        for connection in list(self.state.shared.connections):
            connection.abort()
        self.state.shared.connections.clear()

    async def restart(self, as_: str | None = None) -> RestartReport:
        """Restart the broker; return a report of the acknowledgments that the restart lost.

        If the broker is not crashed, it is closed gracefully first. `as_` selects the state after the
        restart. With `"pulsar-4.2"`, it is the state that a Pulsar broker of this version recovers. With
        `"ackwell"`, it is the state before the restart, without any loss. The default is the Pulsar version
        that this broker emulates.
        """
        persona = _restart_behaviour(as_, self.settings.version)
        how: Restart = "crash" if self.crashed else "graceful"
        for topic in self.state.topics.values():
            topic.content.record(Kind.BROKER_RESTART, detail=how)
        restarted = self.state.reload(how, persona)
        if not self.crashed:
            self.state.shared.run_woken()
            self.crash()
        self.crashed = False
        await self.start()
        return restarted

    def validate(self) -> None:
        """Check the invariants of every subscription. An `AssertionError` names the violated invariant."""
        self.state.validate()


def _restart_behaviour(as_: str | None, version: str) -> RestartBehaviour:
    if as_ is None or as_ == f"pulsar-{version}":
        return "pulsar"
    if as_ == "ackwell":
        return "ackwell"
    raise ValueError(f"restart as {as_!r}; this broker restarts as 'pulsar-{version}' or as 'ackwell'")


def raise_open_file_limit(connections: int) -> None:
    """Raise the process's limit of open files to `connections` plus a margin, if the system permits it.

    With the usual limit of 1,024 files, a broker with more clients would silently stop accepting connections.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
