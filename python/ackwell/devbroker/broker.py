"""The dev broker: a Pulsar broker in this process, for tests of clients.

`AsyncBroker` lives in an event loop, `Broker` has one in a thread of its own. Both listen on 127.0.0.1 and
a free port unless one is given, keep everything in memory unless given a file, and go away with their
context.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ackwell.devbroker import tester
from ackwell.devbroker.admin import AdminServer
from ackwell.devbroker.auth import Authenticate, Authorize, Service
from ackwell.devbroker.broker_file import BrokerFile
from ackwell.devbroker.broker_state import BrokerState
from ackwell.devbroker.client_connection import ClientConnection
from ackwell.devbroker.clock import Clock
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.handlers import HANDLERS
from ackwell.devbroker.loading import LoadReport, Source, read
from ackwell.protocol.topic_name import TopicName
from ackwell.replay.events import Kind
from ackwell.replay.payloads import PREFIX, payload_line
from ackwell.replay.traces import line

if TYPE_CHECKING:
    import os
    import ssl

    from ackwell.broker.writes import Restart
    from ackwell.devbroker.faults import Faults
    from ackwell.devbroker.restarts import RestartBehaviour, RestartReport
    from ackwell.devbroker.tester import Message
    from ackwell.replay.events import Event

LOOPBACK: Final = "127.0.0.1"

ACCEPTING_STEPS: Final = 5
"""Steps of the event loop until a connection that was accepted is made, and a few more."""

OTHER_FILES: Final = 256
"""What a process has open beside connections."""

CLIENT_ACK_GROUPING_S: Final = 0.12
"""How long clients hold acknowledgments back, and a little more."""


class AsyncBroker:
    """A broker in the running event loop: `async with AsyncBroker() as broker`.

    It is for the thread of that loop.
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
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        advertised_host: str | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._admin_port = admin_port
        self._tls, self._tls_port = tls, tls_port
        self._advertised_host = advertised_host or host
        self.settings = settings or DevBrokerSettings()
        self.clock = Clock()
        file = None if path is None else BrokerFile(path)
        self.state = BrokerState(self.settings, self.clock, file)
        self.state.shared.faults.on_crash = self.crash
        self.service = Service("", None, authenticate, authorize)
        self._servers: list[asyncio.Server] = []
        self._admin: AdminServer | None = None
        """It outlives a crash, so that a test in another language can ask for the restart."""
        self.crashed = False
        """Whether it is between a crash and the restart."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        self.clock.start()
        raise_open_file_limit(self.settings.max_connections)
        self._port = await self._listen(self._port, None)
        self.service.url = f"pulsar://{self._advertised_host}:{self._port}"
        if self._tls is not None:
            self._tls_port = await self._listen(self._tls_port, self._tls)
            self.service.tls_url = f"pulsar+ssl://{self._advertised_host}:{self._tls_port}"
        if self._admin_port is not None and self._admin is None:
            self._admin = AdminServer(self)
            self._admin_port = await self._admin.start(self._host, self._admin_port)
            self.service.admin_url = self.admin_url

    async def _listen(self, port: int, tls: ssl.SSLContext | None) -> int:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: ClientConnection(self.state, self.service, HANDLERS),
            self._host,
            port,
            ssl=tls,
            reuse_address=True,
        )
        self._servers.append(server)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    async def stop(self) -> None:
        """Close every connection, and listen no more."""
        self.clock.stop()
        loop = asyncio.get_running_loop()
        for each in [each for server in self._servers for each in server.sockets]:
            # What was accepted just before is made a connection in the loop's next steps. A server that is
            # closed by then would leave it open.
            with suppress(NotImplementedError):
                loop.remove_reader(each.fileno())
        for _ in range(ACCEPTING_STEPS):
            await asyncio.sleep(0)
        self._abort_connections()
        for server in self._servers:
            server.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
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
        """The address for a client with TLS."""
        return self.service.tls_url

    @property
    def admin_url(self) -> str:
        """The address of the admin REST API."""
        return f"http://{self._advertised_host}:{self._admin_port}"

    @property
    def events(self) -> list[Event]:
        """What happened so far, in the schema that `ackwell replay` reads."""
        return self.state.shared.recorder.events()

    def save_events(self, folder: str | os.PathLike[str], *, payloads: bool = False) -> None:
        """Write what happened so far as a recording, which `ackwell replay` and `load` read.

        With `payloads` the entries that the topics still hold are beside the events.
        """
        path = Path(folder)
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
        """What goes wrong on purpose."""
        return self.state.shared.faults

    def load(self, *sources: Source, topic: str | None = None, subscription: str | None = None) -> LoadReport:
        """Begin with what an incident left: dumps, cursor bytes, recordings; see `ackwell.devbroker.loading`.

        A source is a file, a folder or a `Subscription`; `topic` and `subscription` name what a source does
        not name itself. Returns what was loaded, and what no source says. Raises `StatsError` if no source
        can be used, `ValueError` if one of the topics is there already.
        """
        loaded = read(sources, topic, subscription, self.clock.now_ms())
        self.state.load(loaded)
        return loaded

    # Time and faults

    async def settle(self, timeout_s: float = 10.0) -> None:
        """Wait until everything that clients have sent is done, and everything that they can get is sent.

        Each client answers a ping behind what it had sent. Acknowledgments that a client still holds back
        (100 ms with the C++ and Python clients, `ackGroupingTimeMs`) are waited for where messages are not
        acknowledged; so is the delay of Failover subscriptions, unless the clock is frozen. Raises
        `TimeoutError`.
        """
        try:
            await asyncio.wait_for(self._settled(), timeout_s)
        except TimeoutError:
            raise TimeoutError(f"clients were still at work after {timeout_s:g} s") from None

    async def _settled(self) -> None:
        while not self.clock.frozen and any(each.waits for each in self.state.subscriptions()):
            await asyncio.sleep(0.01)
        await self._ping_until_quiet()
        if any(each.subscription.summary(0).unacked for each in self.state.subscriptions()):
            await asyncio.sleep(CLIENT_ACK_GROUPING_S)
            await self._ping_until_quiet()

    async def _ping_until_quiet(self) -> None:
        """Ping every connection until nothing but the answers comes."""
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
        """Take messages back from a consumer, as if it had not acknowledged in time; return how many entries.

        They are delivered again, with one redelivery more. `messages` is one message or several, as the
        client received them, their ids, or positions; of a batch the whole entry comes again. Without it
        everything that the consumer has is taken back, read or not. Then the broker closes the consumer, and
        its client subscribes again: it would not drop what lies unread in its queue, as it does when it asks
        for redelivery itself, and that would arrive twice. On Exclusive and Failover everything is taken
        back, as by a broker. It returns when the client is back. `consumer` is its name. Raises `KeyError` if
        no consumer of that name has a subscription of the given name.
        """
        taken = await tester.take_back(self.state, consumer, messages, subscription)
        # A client drops what it did not read when it learns that it is subscribed.
        await asyncio.wait_for(self._ping_until_quiet(), tester.REOPENED_WITHIN_S)
        return taken

    # What a test asks

    def messages(self, topic: str) -> list[Message]:
        """Return the messages that a topic holds, partition by partition; `KeyError` without the topic."""
        return tester.messages(self.state, topic)

    def backlog(self, topic: str, subscription: str) -> list[Message]:
        """Return the messages that a subscription has not acknowledged; `KeyError` if it is not there."""
        return tester.backlog(self.state, topic, subscription)

    def create_topic(self, topic: str, *, partitions: int = 0) -> None:
        """Make a topic, with partitions or without; nothing happens to one that is there as asked for."""
        name = TopicName.parse(topic)
        if partitions:
            self.state.create_partitioned(name, partitions)
        else:
            self.state.topic(str(name), create=True)

    def create_namespace(self, namespace: str) -> None:
        """Make a namespace, `tenant/namespace`, with its tenant; nothing happens if it is there."""
        TopicName.parse(f"persistent://{namespace}/topic")
        self.state.shared.policies.setdefault(namespace, {})

    def reset(self) -> None:
        """Make everything as it was at the start, and break all connections: nothing is left for the next."""
        self._abort_connections()
        self.clock.reset()
        self.state.reset()

    def crash(self) -> None:
        """Stop at once, as a killed process does: nothing is sent any more, nothing is closed."""
        self.crashed = True
        for server in self._servers:
            server.close()
        self._abort_connections()
        self._servers.clear()

    def _abort_connections(self) -> None:
        for connection in list(self.state.shared.connections):
            connection.abort()
        self.state.shared.connections.clear()

    async def restart(self, as_: str | None = None) -> RestartReport:
        """Start again; return what that forgot. A broker that did not crash is closed gracefully first.

        `as_` is `"pulsar-4.2"`, what a broker of that version would have found again, or `"ackwell"`, which
        forgets nothing; by default the version that this broker behaves as.
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
        """Check every subscription; `AssertionError` names the invariant that does not hold."""
        self.state.validate()


def _restart_behaviour(as_: str | None, version: str) -> RestartBehaviour:
    if as_ is None or as_ == f"pulsar-{version}":
        return "pulsar"
    if as_ == "ackwell":
        return "ackwell"
    raise ValueError(f"restart as {as_!r}; this broker restarts as 'pulsar-{version}' or as 'ackwell'")


def raise_open_file_limit(connections: int) -> None:
    """Let the process have a file open for each connection, and some more, as far as the system allows.

    Without it a broker at the usual limit of 1,024 files answers nobody any more, and says nothing.
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
