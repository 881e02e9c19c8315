"""The recording proxy. It accepts clients, and opens a connection to the broker for each client connection.

The proxy replaces the broker addresses in answers by its own, so that clients use the proxy for every topic.
It opens a port for each broker whose address is in an answer. It forwards all other frames unchanged and in
order.

A Pulsar proxy can be in the place of the broker. After a lookup, a client connects to the Pulsar proxy again,
and CONNECT contains the address of the broker. The recording proxy does not replace these addresses.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any

from ackwell.errors import FrameError
from ackwell.protocol.address import address_of
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import Frame, FrameReader, decode, encode, frame
from ackwell.recording.observer import ConnectionObserver

if TYPE_CHECKING:
    from ackwell.recording.observer import MessageHandler
    from ackwell.recording.recording import Recording

log = logging.getLogger("ackwell.recording")

BUFFER_BYTES = 1 << 20
"""The maximum number of bytes that wait until a slow client or broker reads them. When there are more, the
proxy stops reading from the other side of the connection."""

_ADDRESSES = {
    CommandType.LOOKUP_RESPONSE: ("brokerServiceUrl", "brokerServiceUrlTls"),
    CommandType.CLOSE_PRODUCER: ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls"),
    CommandType.CLOSE_CONSUMER: ("assignedBrokerServiceUrl", "assignedBrokerServiceUrlTls"),
    CommandType.TOPIC_MIGRATED: ("brokerServiceUrl", "brokerServiceUrlTls"),
}
"""Maps each command that contains a broker's address to its two address fields: without TLS, and with TLS."""


class Proxy:
    """A recording proxy between clients and the broker at `broker_url`. It uses the running event loop.

    If `tls` is given, clients connect to the proxy with TLS, and `tls` is the server's context. `trust` is
    the TLS context for connections to brokers. By default, it trusts the authorities of the system.
    Credentials of clients, such as tokens, are forwarded unchanged and are not recorded.
    """

    def __init__(
        self,
        broker_url: str,
        recording: Recording,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        is_tls = address_of(broker_url).is_tls
        self.tls = tls
        self.trust = trust or (ssl.create_default_context() if is_tls else None)
        self._broker_url = broker_url
        self._host, self._port = host, port
        self._recording = recording
        self._servers: dict[str, asyncio.Server] = {}
        self._ports: dict[str, int] = {}
        self.links: set[ProxiedConnection] = set()

    async def start(self) -> None:
        """Begin to listen. Also record a gap event that lists the facts which a proxy cannot observe."""
        self._recording.record_gap(
            "clients and operators that do not use this proxy, and ledgers that the broker trims"
        )
        await self.listen_for(self._broker_url, self._port)

    async def stop(self) -> None:
        """Close every connection and stop listening."""
        for server in self._servers.values():
            server.close()
        for link in list(self.links):
            link.close()
        for server in self._servers.values():
            await server.wait_closed()

    @property
    def url(self) -> str:
        """The address to which clients connect."""
        return self.url_for(self._broker_url)

    def url_for(self, broker_url: str) -> str:
        """Return the address of the proxy's port for a broker.

        If the proxy has no port for the broker, return the address of the broker.
        """
        port = self._ports.get(broker_url)
        scheme = "pulsar" if self.tls is None else "pulsar+ssl"
        return broker_url if port is None else f"{scheme}://{self._host}:{port}"

    def has_port_for(self, broker_url: str) -> bool:
        """Return whether the proxy has a port for a broker."""
        return broker_url in self._ports

    async def listen_for(self, broker_url: str, port: int = 0) -> None:
        """Open a port for a broker, if there is none. Raises `ValueError` for an invalid address."""
        if broker_url in self._servers:
            return
        address_of(broker_url)
        server = await asyncio.get_running_loop().create_server(
            lambda: ClientSide(ProxiedConnection(self, broker_url, self._recording)),
            self._host,
            port,
            ssl=self.tls,
            reuse_address=True,
        )
        self._servers[broker_url] = server
        self._ports[broker_url] = server.sockets[0].getsockname()[1]


class ProxiedConnection:
    """A client's connection to the proxy, and the proxy's connection to the broker for this client."""

    def __init__(self, proxy: Proxy, broker_url: str, recording: Recording) -> None:
        self.proxy = proxy
        self.broker_url = broker_url
        self.recording = recording
        self.upstream = recording.brokers[broker_url]
        self.observer = ConnectionObserver(recording, self.to_broker, self.upstream)
        self.client: asyncio.Transport | None = None
        self.broker: asyncio.Transport | None = None
        self._to_broker: list[bytes] = []
        self._to_client: list[bytes] = []
        self._readdressing: asyncio.Task[None] | None = None
        self._queued_frames: list[Frame] = []
        self._unobserved: list[tuple[Frame, MessageHandler]] = []
        """The frames that are queued or forwarded, but not observed yet. Each has its handler. They are in
        order."""
        self.closed = False
        self._is_forwarded = False
        """Whether a Pulsar proxy forwards this connection to the broker whose address is in CONNECT."""

    async def connect(self) -> None:
        """Connect to the broker. When the connection is open, the queued frames of the client are sent."""
        host, port, is_tls = address_of(self.broker_url)
        trust = self.proxy.trust if is_tls else None
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: BrokerSide(self), host, port, ssl=trust
            )
        except OSError as error:
            log.warning("no connection to %s: %s", self.broker_url, error)
            self.observer.broker_lost()
            self.close()

    def connected(self, transport: asyncio.Transport) -> None:
        """Set the transport of the connection to the broker, and send the queued frames of the client."""
        self.broker = transport
        if self.closed:
            transport.close()
            return
        self.flush()

    def to_broker(self, data: bytes) -> None:
        """Add bytes to the queue for the broker. `flush` writes them when the connection is open."""
        self._to_broker.append(data)

    def flush(self) -> None:
        """Write the queued bytes to both sides, with one write per side."""
        for side, data in ((self.broker, self._to_broker), (self.client, self._to_client)):
            if data and side is not None:
                if not side.is_closing():
                    side.write(b"".join(data))
                data.clear()

    def flush_and_observe(self) -> None:
        """Write the queued bytes, and then observe their frames.

        In this order, the client and the broker do not wait for the observer.
        """
        self.flush()
        if self._unobserved:
            self._observe()
            self.flush()

    def _observe(self) -> None:
        unobserved, self._unobserved = self._unobserved, []
        observe = self.observer.observe
        for each, note in unobserved:
            observe(each, note)

    def from_client(self, given: Frame) -> None:
        """Queue a frame from the client. `flush_and_observe` writes it to the broker, then observes it."""
        self._to_broker.append(given.raw)
        command_type = given.command_type
        if command_type == CommandType.CONNECT:
            self._name_broker(decode(given.command).message.proxy_to_broker_url)
        note = self.observer.client_handlers.get(command_type)
        if note is not None:
            self._unobserved.append((given, note))

    def _name_broker(self, address: str) -> None:
        """Note that a Pulsar proxy forwards this connection to the broker at `address`.

        If `address` is empty, do nothing: CONNECT did not contain an address.
        """
        if not address:
            return
        self._is_forwarded = True
        before, self.upstream = self.upstream, self.recording.brokers[address]
        self.observer.upstream = self.upstream
        if self.broker is not None:
            before.connections -= 1
            self.count_connection()

    def count_connection(self) -> None:
        """Count the new connection to the broker. Record a gap if all earlier connections to it were lost."""
        if not self.upstream.connections:
            self.observer.broker_back()
        self.upstream.connections += 1

    def from_broker(self, given: Frame) -> None:
        """Queue a frame of the broker for the client.

        If the observer may delay or remove the frame, or if the proxy replaces an address in it, the frame is
        observed before it is queued.
        """
        if self._readdressing is not None:
            # The proxy is opening a port for the address in an earlier frame. To keep the order, this frame
            # waits.
            self._queued_frames.append(given)
            return
        command_type = given.command_type
        if command_type not in _ADDRESSES and not self.observer.may_hold(command_type):
            self._to_client.append(given.raw)
            note = self.observer.broker_handlers.get(command_type)
            if note is not None:
                self._unobserved.append((given, note))
            return
        self._observe()
        for each in self.observer.from_broker(given):
            if each.command_type in _ADDRESSES:
                self._readdress(each)
            else:
                self._to_client.append(each.raw)

    def _readdress(self, given: Frame) -> None:
        command_type, message = decode(given.command)
        plain, tls = _ADDRESSES[CommandType(command_type)]
        # If the connection to this broker uses TLS, so does that to the new broker. The same applies to the
        # connections from clients.
        there = tls if address_of(self.broker_url).is_tls else plain
        here, other = (plain, tls) if self.proxy.tls is None else (tls, plain)
        url = getattr(message, there)
        keeps = self._is_forwarded or getattr(message, "proxy_through_service_url", False)
        if url and not keeps and not self.proxy.has_port_for(url):
            self._readdressing = asyncio.get_running_loop().create_task(self._open_port(url, given))
            return
        message.ClearField(other)
        if url:
            setattr(message, here, url if keeps else self.proxy.url_for(url))
        self._to_client.append(frame(encode(command_type, message), given.payload))

    async def _open_port(self, url: str, given: Frame) -> None:
        try:
            await self.proxy.listen_for(url)
        except (OSError, ValueError) as error:
            log.warning("no port for %s: %s", url, error)
            self.close()
            return
        self._readdressing = None
        queued, self._queued_frames = self._queued_frames, []
        for each in (given, *queued):
            self.from_broker(each)
        self.flush_and_observe()

    def close(self) -> None:
        """Close the connection to the client and the connection to the broker."""
        if self.closed:
            return
        self.flush_and_observe()
        self.closed = True
        self.proxy.links.discard(self)
        self.observer.closed()
        for side in (self.client, self.broker):
            if side is not None:
                side.close()


class _ConnectionSide(asyncio.Protocol):
    """One side of a proxied connection: the connection to the client, or that to the broker."""

    def __init__(self, link: ProxiedConnection) -> None:
        self.link = link
        self._reader = FrameReader(max_frame_bytes=1 << 30)

    def data_received(self, data: bytes) -> None:
        """Split the received bytes into frames, and forward the complete ones."""
        try:
            for each in self._reader.feed(data):
                self.frame_received(each)
            self.link.flush_and_observe()
        except FrameError as error:
            log.warning("a connection closed: %s", error)
            self.link.close()

    def frame_received(self, given: Frame) -> None:
        """Forward one frame to the other side."""
        raise NotImplementedError

    def other(self) -> asyncio.Transport | None:
        """Return the transport of the other side; None if its connection is not open yet."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other side, too."""
        self.link.close()

    def pause_writing(self) -> None:
        """Stop reading from the other side, because too many bytes wait to be written to this side."""
        _call_if_open(self.other(), "pause_reading")

    def resume_writing(self) -> None:
        """Read from the other side again, because the bytes for this side are written."""
        _call_if_open(self.other(), "resume_reading")


class ClientSide(_ConnectionSide):
    """The connection from a client to the proxy."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a client, and start to connect to the broker."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=BUFFER_BYTES)
        self.link.client = transport
        self.link.proxy.links.add(self.link)
        self._connecting = asyncio.get_running_loop().create_task(self.link.connect())

    def frame_received(self, given: Frame) -> None:
        """Forward a frame to the broker."""
        self.link.from_client(given)

    def other(self) -> asyncio.Transport | None:
        """Return the broker's transport; None if the connection to the broker is not open yet."""
        return self.link.broker


class BrokerSide(_ConnectionSide):
    """The connection from the proxy to a broker."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the new connection to the broker, and count the connection."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=BUFFER_BYTES)
        self.link.count_connection()
        self.link.connected(transport)

    def frame_received(self, given: Frame) -> None:
        """Forward a frame to the client."""
        self.link.from_broker(given)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection to the client.

        If the broker closed the connection, record that the broker may have lost acknowledgments.
        """
        self.link.upstream.connections -= 1
        if not self.link.closed:
            self.link.observer.broker_lost()
        super().connection_lost(exc)

    def other(self) -> asyncio.Transport | None:
        """Return the client's transport; None if the connection to the client is not open yet."""
        return self.link.client


def _call_if_open(transport: Any, name: str) -> None:
    if transport is not None and not transport.is_closing():
        getattr(transport, name)()
