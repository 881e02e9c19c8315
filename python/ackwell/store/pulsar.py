"""A store whose ledger is a topic of a Pulsar cluster (extra `[pulsar]`).

A process on any machine can own the ledger.

The topic is a log of *records*. Each record is one message, without batching. An `ENTRY` record contains an
entry and its id. A `STATE` record contains the metadata of the ledger, and the id of the first entry that is
not deleted. These values apply from this record on. Both kinds of record contain the generation of the owner
that wrote them. A new owner writes an `OPEN` record after all earlier owners are fenced, and then reads the
topic up to this record. Reading the topic from its start gives the content of the ledger. Every reader sees
the records in the same order.

Owners are fenced twice. First, the producer of an owner has exclusive access *with fencing*: the broker
disconnects the producer of the earlier owner and rejects its later messages. Second, a reader ignores a
record if it has already read a record with a newer generation. A late write of an earlier owner therefore has
no effect. If the answer to a message is lost, a client sends the same record again. Both copies have the same
id, so readers use only the first one.

The topic has a subscription for the ledger. Without a subscription, the broker would delete the messages.
`delete_up_to` acknowledges the messages of deleted entries on this subscription. Do not configure a message
TTL or a backlog quota that evicts messages (`consumer_backlog_eviction`) for the topic. Do not publish to it
with other producers.
"""

from __future__ import annotations

import json
import struct
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ackwell.errors import FencedError, StoreError
from ackwell.store.base import (
    Store,
    checked_entry,
    checked_id,
    checked_metadata,
    checked_name,
    require_writable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pulsar

# The magic, the version and the kind of a record, then the generation of the owner, then an entry id. In an
# ENTRY record, it is the id of the entry. In a STATE record, it is the id of the first entry that is not
# deleted.
HEADER = struct.Struct(">3sBBQQ")
MAGIC = b"ALR"
VERSION = 1
ENTRY, STATE, OPEN = range(3)

SUBSCRIPTION = "ackwell"
# The maximum time for an answer. A broker usually answers in milliseconds. 30 seconds suffice to move a topic
# to another broker.
TIMEOUT_S = 30


class Record(NamedTuple):
    """One record, which is one message of the topic."""

    kind: int
    generation: int
    entry_id: int
    body: bytes

    def encode(self) -> bytes:
        """Return the payload of the record's message."""
        header = HEADER.pack(MAGIC, VERSION, self.kind, self.generation, self.entry_id)
        return header + self.body

    @classmethod
    def decode(cls, data: bytes) -> Record:
        """Decode the payload of a message; `StoreError` if the message is not a record."""
        if len(data) < HEADER.size or data[: len(MAGIC)] != MAGIC:
            raise StoreError("the topic holds a message that is not a record of ackwell's ledgers")
        _, version, kind, generation, entry_id = HEADER.unpack_from(data)
        if version != VERSION:
            raise StoreError(f"a record of version {version}; this ackwell reads {VERSION}")
        return cls(kind, generation, entry_id, data[HEADER.size :])


class PulsarStore(Store):
    """A store whose ledger is the topic `topic`.

    The topic must be persistent, must not be partitioned, and must have no other use.

    Opening a store reads the whole topic. The entries that are not deleted stay in memory, so `read` needs no
    I/O. `own` reads the topic again, up to its end. An entry must fit into one message (5 MB by default).
    Only one thread may use a store at a time.

    Parameters
    ----------
    client
        A `pulsar.Client`, or a service URL such as `"pulsar://127.0.0.1:6650"`. The caller closes a client
        that it passes. For a URL, the store creates a client and closes it.
    topic
        The topic of the ledger. If it is missing, the broker creates it, if its settings allow this.
    read_only
        Open the ledger only for reading. The store returns the entries that the ledger has at this time.
        Another process may own the ledger.
    """

    def __init__(self, client: pulsar.Client | str, topic: str, *, read_only: bool = False) -> None:
        self._topic = checked_name(topic)
        if isinstance(client, str):
            self._client = self._own_client = _client(client)
        else:
            self._client, self._own_client = client, None
        self.read_only = read_only
        self._generation = 0
        self._newest_generation = 0
        self._metadata: dict[str, bytes] = {}
        self._entries: dict[int, bytes] = {}
        self._message_ids: dict[int, pulsar.MessageId] = {}
        self._first_id, self._last_id = 0, -1
        self._closed = False
        self._failed = False
        self._fenced = False
        try:
            with self._errors():
                self._read_up_to(None)
        except BaseException:
            self.close()
            raise

    def own(self) -> None:
        require_writable(self)
        self._require_usable()
        if self._fenced:
            raise self._fenced_error()
        if self._generation:
            return
        import pulsar

        with self._errors():
            # After the producer is created, no earlier owner can write.
            self._producer = self._client.create_producer(
                self._topic,
                access_mode=pulsar.ProducerAccessMode.ExclusiveWithFencing,
                batching_enabled=False,
                send_timeout_millis=TIMEOUT_S * 1000,
            )
            # The subscription only keeps the messages until they are deleted. No messages are received, so
            # the receiver queue is 0. The type is Failover, because the consumer of an earlier owner that
            # hangs may still be connected.
            self._consumer = self._client.subscribe(
                self._topic,
                SUBSCRIPTION,
                consumer_type=pulsar.ConsumerType.Failover,
                initial_position=pulsar.InitialPosition.Earliest,
                receiver_queue_size=0,
            )
            # Every message of an earlier owner is before this record in the topic.
            self._read_up_to(self._send(Record(OPEN, 0, 0, b"")))
            self._send(self._state(generation=self._newest_generation + 1))
        self._generation = self._newest_generation = self._newest_generation + 1

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def metadata(self) -> Mapping[str, bytes]:
        self._require_open()
        return MappingProxyType(dict(self._metadata))

    def set_metadata(self, metadata: Mapping[str, bytes]) -> None:
        replaced = checked_metadata(metadata)
        self.own()
        self._send(self._state(metadata=replaced))
        self._metadata = replaced

    @property
    def first_id(self) -> int:
        self._require_open()
        return self._first_id

    @property
    def last_id(self) -> int:
        self._require_open()
        return self._last_id

    def append(self, data: bytes) -> int:
        entry = checked_entry(data)
        self.own()
        record = Record(ENTRY, self._generation, self._last_id + 1, entry)
        self._keep(record, self._send(record))
        return self._last_id

    def read(self, entry_id: int) -> bytes:
        self._require_open()
        return self._entries[checked_id(entry_id)]

    def delete_up_to(self, entry_id: int) -> None:
        entry_id = checked_id(entry_id)
        self.own()
        if entry_id > self._last_id:
            raise ValueError(f"entry {entry_id} is beyond the last, {self._last_id}")
        first_id = max(self._first_id, entry_id + 1)
        # For every later reader, this record deletes the entries. The acknowledgment below only frees the
        # disk space.
        self._send(self._state(first_id=first_id))
        freed = self._message_ids.get(entry_id)
        self._delete_before(first_id)
        if freed is not None:
            with self._errors():
                self._consumer.acknowledge_cumulative(freed)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for part in ("_consumer", "_producer", "_own_client"):
            resource = getattr(self, part, None)
            if resource is not None:
                _close(resource)

    def _read_up_to(self, end: pulsar.MessageId | None) -> None:
        """Apply the records from the start of the topic up to the message `end`.

        None means all records that the topic has now.
        """
        import pulsar

        reader = self._client.create_reader(self._topic, pulsar.MessageId.earliest)
        try:
            while end is not None or reader.has_message_available():
                message = reader.read_next(TIMEOUT_S * 1000)
                message_id = message.message_id()
                if end is not None and message_id == end:
                    return
                self._keep(Record.decode(message.data()), message_id)
        finally:
            _close(reader)

    def _keep(self, record: Record, message_id: pulsar.MessageId) -> None:
        """Apply a record to the ledger in memory. If the record was already applied, nothing changes."""
        if record.kind == OPEN or record.generation < self._newest_generation:
            return
        self._newest_generation = record.generation
        if record.kind == STATE:
            self._metadata = _decode_metadata(record.body)
            self._delete_before(record.entry_id)
        elif record.entry_id > self._last_id:
            self._last_id = record.entry_id
            self._entries[record.entry_id] = record.body
            self._message_ids[record.entry_id] = message_id

    def _delete_before(self, first_id: int) -> None:
        for deleted in [entry_id for entry_id in self._entries if entry_id < first_id]:
            del self._entries[deleted], self._message_ids[deleted]
        self._first_id = max(self._first_id, first_id)
        self._last_id = max(self._last_id, first_id - 1)

    def _state(
        self,
        *,
        generation: int | None = None,
        first_id: int | None = None,
        metadata: Mapping[str, bytes] | None = None,
    ) -> Record:
        return Record(
            STATE,
            self._generation if generation is None else generation,
            self._first_id if first_id is None else first_id,
            _encode_metadata(self._metadata if metadata is None else metadata),
        )

    def _send(self, record: Record) -> pulsar.MessageId:
        """Write a record to the topic. The record is durable when this method returns."""
        self._require_usable()
        # A message whose write failed may still arrive later. A second record with the same entry id would
        # then be ignored. The store therefore refuses further writes after a failed write. Opening the ledger
        # again reads the topic.
        self._failed = True
        try:
            with self._errors():
                message_id = self._producer.send(record.encode())
        except FencedError:
            self._failed, self._fenced = False, True
            raise
        self._failed = False
        return message_id

    def _require_usable(self) -> None:
        self._require_open()
        if self._failed:
            raise StoreError(f"{self._topic}: an earlier write failed; open the ledger again")

    def _fenced_error(self) -> FencedError:
        return FencedError(f"{self._topic}: generation {self._generation} was fenced by a newer owner")

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate the client's errors to `StoreError` and `FencedError`."""
        import pulsar

        try:
            yield
        except pulsar.ProducerFenced as error:
            raise self._fenced_error() from error
        except pulsar.PulsarException as error:
            raise StoreError(f"{self._topic}: {error}") from error


def _encode_metadata(metadata: Mapping[str, bytes]) -> bytes:
    return json.dumps({name: value.hex() for name, value in metadata.items()}).encode()


def _decode_metadata(data: bytes) -> dict[str, bytes]:
    return {name: bytes.fromhex(value) for name, value in json.loads(data).items()}


def _close(resource: pulsar.Client | pulsar.Consumer | pulsar.Producer | pulsar.Reader) -> None:
    """Close an object of the client library. Ignore the error if the broker already closed the object."""
    import pulsar

    with suppress(pulsar.PulsarException):
        resource.close()


def _client(service_url: str) -> pulsar.Client:
    """Create a client that writes only errors to its log."""
    import pulsar

    return pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
