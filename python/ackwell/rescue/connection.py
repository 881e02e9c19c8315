"""A helper consumer that acknowledges entries of a subscription and receives no message.

A broker accepts acknowledgments from any consumer of a subscription. The helper uses its own connection,
never sends FLOW, and closes as soon as it has acknowledged the entries. On Key_Shared it owns hash ranges
while it is connected. Messages with keys in these ranges wait, even after the helper has closed. `wake` makes
the broker read them again.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ackwell.cluster.admin import topic_path
from ackwell.errors import AckwellError, ErrorCode, StatsError
from ackwell.integers import UINT64_MAX
from ackwell.protocol import messages
from ackwell.protocol.address import address_of
from ackwell.protocol.constants import PROTOCOL_VERSION, CommandType, LookupType, SubscriptionType
from ackwell.protocol.frames import FrameReader, decode, encode, frame
from ackwell.rescue.refusals import RefusedError
from ackwell.rescue.snapshot import Snapshot, take

if TYPE_CHECKING:
    from ackwell.cluster.admin import Admin
    from ackwell.rescue.planning import Acknowledgment

NAME: Final = "ackwell-rescue"

_PRIORITY: Final = 2**31 - 1
"""The lowest priority level of a consumer. On a Failover subscription, a helper with this level is never the
active consumer if there is another one."""

_CONSUMER_ID: Final = 1
_ACKS_IN_FLIGHT_MAX: Final = 64
"""The maximum number of acknowledgment commands without an answer. With more, the buffers of both sides could
fill up."""

_WAKE_ATTEMPTS_MAX: Final = 8
"""`wake` stops after this number of successive attempts that did not reduce the number of waiting
messages."""
_PAUSE_S: Final = 0.05
_ATTACH_ATTEMPTS_MAX: Final = 10
_REDIRECTS_MAX: Final = 8
_CONNECT_REQUEST_ID: Final = UINT64_MAX
"""The request id in a broker's error answer to CONNECT. The command itself has no request id."""
_REFRESH: Final = b"PulsarAuthRefresh"
"""The data of an authentication challenge by which a broker requests a new token for an expired one."""
_RETRYABLE: Final = (ErrorCode.SERVICE_NOT_READY, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.METADATA_ERROR)


class BrokerError(AckwellError):
    """The broker refused a command of the helper, or the connection broke."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """The admin API of a cluster, and a binary connection to the broker that owns a topic.

    `broker` is the address of the topic's owner or of a Pulsar proxy. By default it comes from the admin API.
    `audit` is called before each change, with the kind of the change, the topic, the subscription, the number
    of positions and the digest of the positions. Each command acknowledges up to 1,000 positions. `progress`
    wraps the iterator of the commands that are sent, for example to count the commands.
    """

    def __init__(
        self,
        admin: Admin,
        *,
        broker: str | None = None,
        audit: Callable[..., None] = lambda *_, **__: None,
        progress: Callable[[Iterable[Acknowledgment]], Iterable[Acknowledgment]] = iter,
    ) -> None:
        self.admin = admin
        self._broker = broker or admin.endpoint.broker_url
        self._audit = audit
        self._progress = progress
        self._url = ""
        self._target = ""
        """The `host:port` of the broker to which a Pulsar proxy forwards this connection. Empty if there is
        no proxy."""
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self._frames: list[Any] = []
        self._request_id = 0
        self.received = 0
        """The number of messages that the helper received. Only `wake` requests messages."""
        self.errors: list[str] = []
        """The error messages in the broker's answers to acknowledgments."""

    def renewed(self) -> Connection:
        """Return a new connection with the same options.

        It does not use the cached versions and settings of brokers, but requests them again.
        """
        return Connection(
            self.admin.renewed(), broker=self._broker, audit=self._audit, progress=self._progress
        )

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the binary connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._url, self._target = None, "", ""
        self._frames, self._reader = [], FrameReader()

    def read_live(self, topic: str, subscription: str) -> Snapshot:
        """Request and return the live state of a subscription.

        Raises `StatsError` if the subscription does not exist.
        """
        return take(self.admin, topic, subscription)[1]

    def change(
        self, what: str, method: str, topic: str, subscription: str, path: str, body: Any = None
    ) -> None:
        """Call `audit` with the change `what`, and then send the request to the admin API.

        `path` is relative to the path of the topic.
        """
        self._audit(what, topic, subscription)
        self.admin.change(method, f"{topic_path(topic)}/{path}", body)

    @contextmanager
    def attached(self, topic: str, subscription: str, kind: SubscriptionType) -> Iterator[None]:
        """Attach a helper to a subscription during a `with` block.

        The subscription must exist, because a broker creates a missing subscription when a helper attaches.
        """
        self._attach(topic, subscription, kind)
        try:
            yield
        finally:
            # If the consumer cannot be closed, close the connection, which also removes the consumer.
            try:
                self._request(CommandType.CLOSE_CONSUMER, consumer_id=_CONSUMER_ID)
            except AckwellError:
                self.close()

    def acknowledge(
        self,
        topic: str,
        subscription: str,
        commands: Iterable[Acknowledgment],
        positions: int,
        digest: str,
    ) -> None:
        """Send acknowledgments, and wait for the answers.

        An answer does not prove that the entries are acknowledged. Read the live state to check it.
        """
        self._audit("acknowledge", topic, subscription, positions=positions, digest=digest)
        waiting: list[int] = []
        for ids in self._progress(commands):
            self._request_id += 1
            ack = messages.CommandAck(consumer_id=_CONSUMER_ID, ack_type=0, request_id=self._request_id)
            add = ack.message_id.add
            for (ledger_id, entry_id), words in ids:
                # There may be a million positions. Setting attributes takes a third of the time that keyword
                # arguments take.
                each = add()
                each.ledgerId, each.entryId = ledger_id, entry_id
                if words:
                    each.ack_set.extend(words)
            self._write(frame(encode(CommandType.ACK, ack)))
            waiting.append(self._request_id)
            if len(waiting) == _ACKS_IN_FLIGHT_MAX:
                self._ack_answer(waiting.pop(0))
        for request_id in waiting:
            self._ack_answer(request_id)

    def _ack_answer(self, request_id: int) -> None:
        answer = self._answer(CommandType.ACK_RESPONSE, request_id)
        if answer.HasField("error"):
            self.errors.append(answer.message or f"error {answer.error}")

    def wake(self, topic: str, subscription: str) -> int:
        """Make a Key_Shared subscription deliver the messages that a helper blocked.

        Return the number of messages that still wait.

        In each attempt, a new helper sends FLOW and CLOSE, so that the broker reads the waiting messages
        again. The first attempts send both commands in one write. Such an attempt wakes about half of the
        messages, but on a busy broker four attempts in a row may wake none. Later attempts pause between FLOW
        and CLOSE. The helper then receives a message, which the broker redelivers after the CLOSE.

        Messages that wait for permits, for a blocked consumer or for the end of a hold stay waiting.
        """
        idle, before = 0, -1
        while True:
            live = self.read_live(topic, subscription)
            waiting: int = live.shown.get("msgInReplay") or 0
            idle = 0 if waiting < before else idle + 1
            if live.type is not SubscriptionType.KEY_SHARED or not waiting:
                return waiting
            if idle > _WAKE_ATTEMPTS_MAX or not any(map(_can_receive, live.consumers)):
                return waiting
            before = waiting
            self._attach(topic, subscription, SubscriptionType.KEY_SHARED)
            self._request_id += 1
            flow = _frame(CommandType.FLOW, consumer_id=_CONSUMER_ID, messagePermits=1)
            close = _frame(CommandType.CLOSE_CONSUMER, consumer_id=_CONSUMER_ID, request_id=self._request_id)
            pause_s = min(_PAUSE_S * 2**idle, 1.0)
            if idle <= _WAKE_ATTEMPTS_MAX // 2:
                self._write(flow + close)
            else:
                self._write(flow)
                time.sleep(pause_s)
                self._write(close)
            self._answer(CommandType.SUCCESS, self._request_id)
            time.sleep(pause_s)

    # The binary connection

    def open(self, topic: str) -> None:
        """Connect to the broker that owns a topic. The lookup makes this broker load the topic."""
        url, authoritative = self._url or self._owner(topic), False
        for _ in range(_REDIRECTS_MAX):
            self._connect(url)
            request_id = self._send(CommandType.LOOKUP, topic=topic, authoritative=authoritative)
            answer = self._answer(CommandType.LOOKUP_RESPONSE, request_id)
            if answer.response == LookupType.FAILED:
                raise BrokerError(f"{topic} is not served: {answer.message}", _code(answer.error))
            found = answer.brokerServiceUrlTls if _is_tls(url) else answer.brokerServiceUrl
            if answer.response == LookupType.CONNECT:
                if answer.proxy_through_service_url:
                    host, port, _ = address_of(found)
                    self._connect(url, f"{host}:{port}")
                    return
                if found in ("", url):
                    return
                self._connect(found)
                return
            url, authoritative = found, answer.authoritative
        raise BrokerError(f"{topic}: more than {_REDIRECTS_MAX} redirects")

    def _owner(self, topic: str) -> str:
        if self._broker:
            return self._broker
        path = f"/lookup/v2/topic/{topic_path(topic)}"
        found = self.admin.ask(path)
        if not isinstance(found, dict):
            raise StatsError(
                "expected a JSON object with the owner of the topic", self.admin.endpoint.address(path)
            )
        secure = self.admin.endpoint.url.startswith("https")
        url = (found.get("brokerUrlTls") or found.get("brokerUrlSsl")) if secure else found.get("brokerUrl")
        if not url:
            raise RefusedError("no-address", kind="encrypted" if secure else "open", topic=topic)
        return str(url)

    def _connect(self, url: str, target: str = "") -> None:
        """Connect to the address `url`, unless this connection is already open.

        `target` is the broker to which a Pulsar proxy at this address forwards the connection. Raises
        `RefusedError` if the credentials must not be sent to the address.
        """
        if self._socket is not None and (self._url, self._target) == (url, target):
            return
        before, endpoint = self._url, self.admin.endpoint
        try:
            host, port, is_tls = address_of(url)
        except ValueError as error:
            # An error with a code is not retried.
            raise BrokerError(str(error), ErrorCode.UNKNOWN_ERROR) from None
        if not is_tls and (_is_tls(before) or endpoint.url.startswith("https")):
            raise RefusedError("not-encrypted", url=url)
        if url != self._broker and not self.admin.trusts(host):
            raise RefusedError("unlisted-host", url=url, host=host)
        self.close()
        try:
            made = endpoint.connect((host, port), endpoint.timeout_seconds)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if is_tls:
                made = endpoint.tls_context.wrap_socket(made, server_hostname=host)
        except OSError as error:
            raise BrokerError(f"{url}: no connection: {error}") from None
        self._socket, self._url, self._target = made, url, target
        method, data = endpoint.binary_credentials()
        self._write(
            _frame(
                CommandType.CONNECT,
                client_version=NAME,
                protocol_version=PROTOCOL_VERSION,
                auth_method_name=method,
                auth_data=data,
                **({"proxy_to_broker_url": target} if target else {}),
            )
        )
        self._answer(CommandType.CONNECTED, 0)

    def _attach(self, topic: str, subscription: str, kind: SubscriptionType) -> None:
        fields: dict[str, Any] = {}
        if kind is SubscriptionType.KEY_SHARED:
            fields["keySharedMeta"] = messages.KeySharedMeta(keySharedMode=0)
        for attempt in range(_ATTACH_ATTEMPTS_MAX):
            try:
                self.open(topic)
                self._request(
                    CommandType.SUBSCRIBE,
                    topic=topic,
                    subscription=subscription,
                    subType=kind.number,
                    consumer_id=_CONSUMER_ID,
                    consumer_name=NAME,
                    priority_level=_PRIORITY,
                    force_topic_creation=False,
                    **fields,
                )
            except BrokerError as error:
                if error.code is ErrorCode.CONSUMER_BUSY and kind is SubscriptionType.EXCLUSIVE:
                    raise RefusedError("exclusive-consumer", subscription=subscription) from None
                if (
                    error.code is not None and error.code not in _RETRYABLE
                ) or attempt == _ATTACH_ATTEMPTS_MAX - 1:
                    raise
                if error.code is None:
                    self.close()
                time.sleep(_PAUSE_S * 2**attempt)
            else:
                return

    def _request(self, type: CommandType, **fields: Any) -> Any:  # noqa: A002
        return self._answer(CommandType.SUCCESS, self._send(type, **fields))

    def _send(self, type: CommandType, **fields: Any) -> int:  # noqa: A002
        self._request_id += 1
        self._write(_frame(type, request_id=self._request_id, **fields))
        return self._request_id

    def _write(self, data: bytes) -> None:
        if self._socket is None:
            raise BrokerError("the connection is closed")
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise BrokerError(f"{self._url}: the connection broke: {error}") from None

    def _answer(self, type: CommandType, request_id: int) -> Any:  # noqa: A002
        """Wait for the answer to a request, and return it. Raises `BrokerError` if the answer is an error."""
        while True:
            for command in self._frames:
                answered = getattr(command.message, "request_id", 0)
                if command.type == type and answered == request_id:
                    self._frames.remove(command)
                    return command.message
                if command.type == CommandType.ERROR and answered in (request_id, _CONNECT_REQUEST_ID):
                    self._frames.remove(command)
                    code = _code(command.message.error)
                    raise BrokerError(f"{code.name}: {command.message.message}", code)
            self._read()

    def _read(self) -> None:
        if self._socket is None:
            raise BrokerError("the connection is closed")
        try:
            data = self._socket.recv(1 << 18)
        except OSError as error:
            raise BrokerError(f"{self._url}: the connection broke: {error}") from None
        if not data:
            raise BrokerError(f"{self._url}: the broker closed the connection")
        for each in self._reader.feed(data):
            command = decode(each.command)
            if command.type == CommandType.PING:
                self._write(_frame(CommandType.PONG))
            elif command.type == CommandType.MESSAGE:
                self.received += 1
            elif command.type == CommandType.AUTH_CHALLENGE:
                if command.message.challenge.auth_data != _REFRESH:
                    raise BrokerError(
                        "the broker asks for other credentials than a token, a password or a certificate"
                    )
                method, data = self.admin.endpoint.binary_credentials()
                self._write(
                    _frame(
                        CommandType.AUTH_RESPONSE,
                        client_version=NAME,
                        protocol_version=PROTOCOL_VERSION,
                        response=messages.AuthData(auth_method_name=method, auth_data=data),
                    )
                )
            elif command.type not in (CommandType.CLOSE_CONSUMER, CommandType.ACTIVE_CONSUMER_CHANGE):
                self._frames.append(command)


def _code(number: int) -> ErrorCode:
    """Return the error code with the given number, or `UNKNOWN_ERROR` for a number of a newer broker."""
    return ErrorCode(number) if number in list(ErrorCode) else ErrorCode.UNKNOWN_ERROR


def _is_tls(url: str) -> bool:
    return url.startswith("pulsar+ssl://")


def _can_receive(consumer: Any) -> bool:
    return (
        consumer.get("consumerName") != NAME
        and consumer.get("availablePermits", 0) > 0
        and not consumer.get("blockedConsumerOnUnackedMsgs")
    )


def _frame(type: CommandType, **fields: Any) -> bytes:  # noqa: A002
    name = {CommandType.LOOKUP: "LookupTopic"}.get(type, type.name.title().replace("_", ""))
    return frame(encode(type, messages.message(f"Command{name}")(**fields)))
