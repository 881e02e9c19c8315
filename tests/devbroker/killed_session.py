"""A session at random on a broker with a file: transactions, broken connections, crashes and `kill -9`.

The session keeps a model of confirmed changes and of unanswered requests. After each restart, and at the
end, the broker must hold exactly the confirmed changes. An unanswered request may have been applied or not;
the end of a transaction is applied completely or not at all. `python -m tests.devbroker.killed_session 0
130` plays seeds and prints the figures.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote
from urllib.request import Request, urlopen

from ackwell.cursor.ack_sets import from_words, to_signed_words
from ackwell.protocol import messages
from ackwell.protocol.batches import write_batch
from ackwell.protocol.constants import CommandType, TxnAction
from ackwell.protocol.payload import read_metadata, write_payload
from tests.devbroker.raw import RawClient

STEPS = 60
TOPICS = ("persistent://public/default/orders", "persistent://public/default/bills")
SUBSCRIPTIONS = tuple((topic, name) for topic in TOPICS for name in ("a", "b"))
TYPES = (0, 1, 3)
"""Exclusive, Shared, Key_Shared; Failover would wait for a second of the machine's clock."""
PERMITS = 1_000

Position = tuple[int, int]


@dataclass(eq=False)
class Transaction:
    """A transaction, and its requested or confirmed end."""

    fields: dict[str, Any]
    asked: TxnAction | None = None
    """The requested end."""
    ended: bool = False
    """Whether the broker confirmed the end."""

    def __str__(self) -> str:
        return f"transaction {self.fields}: asked {self.asked}, {'ended' if self.ended else 'not confirmed'}"


@dataclass(eq=False)
class Message:
    """An entry with one message, or a batch."""

    name: str
    topic: str
    size: int
    transaction: Transaction | None
    position: Position | None = None
    """The position, from the receipt, a delivery or a query."""
    acked: dict[str, int] = field(default_factory=Counter)
    """By subscription, the bits of the messages whose acknowledgment is confirmed."""
    perhaps: dict[str, int] = field(default_factory=Counter)
    """By subscription, the bits of the messages whose acknowledgment has no answer."""
    within: list[tuple[str, int, Transaction, bool]] = field(default_factory=list)
    """The acknowledgments in transactions, each with whether it was confirmed."""

    @property
    def everything(self) -> int:
        return (1 << self.size) - 1

    @property
    def fate(self) -> bool | None:
        """Whether the entry may be delivered: yes, no, or unknown."""
        found = self.transaction
        if found is None:
            return True
        if found.asked is None:
            return False
        if found.asked is TxnAction.ABORT:
            return False
        return True if found.ended else None

    def surely(self, subscription: str) -> int:
        """Return the bits that must not be delivered, because their acknowledgment was confirmed."""
        bits = self.acked[subscription]
        for name, more, txn, confirmed in self.within:
            if name == subscription and confirmed:
                # Also blocked while the transaction is open.
                held = not txn.asked or txn.asked is TxnAction.COMMIT
                bits |= more if held else 0
        return bits

    def possibly(self, subscription: str) -> int:
        """Return the bits that may be acknowledged."""
        bits = self.acked[subscription] | self.perhaps[subscription]
        for name, more, txn, _confirmed in self.within:
            if name == subscription and not (txn.asked is TxnAction.ABORT and txn.ended):
                bits |= more
        return bits


class Process:
    """A dev broker in a separate process, always on the same ports and the same file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "broker.db"
        self.ports = free_ports()
        self.url = f"pulsar://127.0.0.1:{self.ports[0]}"
        self.admin_url = f"http://127.0.0.1:{self.ports[1]}"
        self._log = (folder / "broker.log").open("w")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)
        self._log.close()

    def start(self) -> None:
        ports = ["--port", str(self.ports[0]), "--admin-port", str(self.ports[1])]
        command = [sys.executable, "-m", "ackwell", "dev-broker", *ports, "--data", str(self.path)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("broker pulsar://"), self.path.parent

    def stop(self, with_: signal.Signals) -> None:
        if self._process is not None:
            os.kill(self._process.pid, with_)
            self._process.communicate()
            self._process = None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self.admin_url}/{path}", data, method=method)) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Session:
    """The steps of one seed, and their checks."""

    def __init__(self, seed: int, broker: Process) -> None:
        self.chance = random.Random(seed)
        self.broker = broker
        self.messages: dict[str, Message] = {}
        self.transactions: list[Transaction] = []
        self.held: dict[tuple[str, str], dict[str, int]] = {each: {} for each in SUBSCRIPTIONS}
        """By subscription, the messages of its consumer, each with the delivered bits."""
        self.types = {each: self.chance.choice(TYPES) for each in SUBSCRIPTIONS}
        self.counts: Counter[str] = Counter()
        self._sequence = self._request = 0
        self._sent: dict[tuple[int, int], Message] = {}
        self._acks: dict[int, list[Any]] = {}
        self._ends: dict[int, Transaction] = {}
        self.connect()

    # Connections

    def connect(self) -> None:
        """Connect with a producer for each topic and a consumer for each subscription."""
        self.producing = RawClient(self.broker.url)
        self.consuming = RawClient(self.broker.url)
        for number, topic in enumerate(TOPICS):
            self.producing.produce(topic, number)
        self.subscribe()

    def subscribe(self) -> None:
        for each in self.held.values():
            each.clear()
        for number, (topic, name) in enumerate(SUBSCRIPTIONS):
            fields: dict[str, Any] = {
                "subscription": name,
                "subType": self.types[topic, name],
                "initialPosition": 1,
            }
            answer = int(CommandType.ERROR)
            while answer == CommandType.ERROR:
                # The consumer of a connection that just broke may still exist.
                self.consuming.send(
                    CommandType.SUBSCRIBE,
                    topic=topic,
                    consumer_id=number,
                    request_id=self.request(),
                    **fields,
                )
                while (answer := (command := self.consuming.receive()).type) == CommandType.MESSAGE:
                    self.read(command, self.consuming.payloads[-1])
            self.consuming.send(CommandType.FLOW, consumer_id=number, messagePermits=PERMITS)

    def disconnect(self) -> None:
        """Break both connections, with unanswered requests on them."""
        self.producing.socket.close()
        self.consuming.socket.close()
        self._sent.clear()
        self._acks.clear()
        self._ends.clear()

    def request(self) -> int:
        self._request += 1
        return self._request

    # Steps

    def step(self) -> None:
        steps = {
            self.publish: 6, self.receive: 5, self.acknowledge: 6, self.begin: 3, self.end: 3,
            self.break_connections: 0.7, self.restart: 0.5, self.crash: 0.7, self.kill: 1.3,
            self.acknowledge_up_to: 1,
        }  # fmt: skip
        (step,) = self.chance.choices(list(steps), list(steps.values()))
        self.counts[step.__name__] += 1
        step()

    def unanswered(self) -> bool:
        """Decide at random whether to continue without an answer."""
        return self.chance.random() < 0.15

    def publish(self) -> None:
        txn = self.some_open() if self.chance.random() < 0.5 else None
        number = self.chance.randrange(len(TOPICS))
        if txn is not None:
            self.join(txn, partitions=[TOPICS[number]])
        for _ in range(self.chance.randrange(1, 8)):
            self.send(number, txn)
        if not self.unanswered():
            self.settle()

    def send(self, number: int, txn: Transaction | None) -> None:
        size = self.chance.choice((1, 1, 1, 2, 5, 70))
        message = Message(f"m{len(self.messages)}", TOPICS[number], size, txn)
        self.messages[message.name] = message
        self._sequence += 1
        fields: dict[str, Any] = {} if txn is None else txn.fields
        about = {"producer_name": "p", "sequence_id": self._sequence, "publish_time": 1}
        described = messages.MessageMetadata(**about, partition_key=message.name, **fields)
        body = b"x"
        if size > 1:
            described.num_messages_in_batch = size
            single = messages.SingleMessageMetadata(payload_size=1, partition_key=message.name)
            body = write_batch([(single, b"x")] * size)
        self.producing.send(
            CommandType.SEND, write_payload(described, body), producer_id=number,
            sequence_id=self._sequence, num_messages=size, **fields,
        )  # fmt: skip
        self._sent[number, self._sequence] = message

    def receive(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Read all answers and deliveries."""
        # Deliveries that precede the end of a transaction are read before it.
        for client in (self.consuming, self.producing):
            client.send(CommandType.PING)
            while (command := client.receive()).type != CommandType.PONG:
                self.read(command, client.payloads[-1])
            client.payloads.clear()

    def read(self, command: Any, payload: bytes) -> None:
        message = command.message
        if command.type == CommandType.SEND_RECEIPT:
            sent = self._sent.pop((message.producer_id, message.sequence_id))
            sent.position = message.message_id.ledgerId, message.message_id.entryId
            self.counts["receipts"] += 1
        elif command.type == CommandType.MESSAGE:
            self.delivered(message, payload)
        elif command.type == CommandType.ACK_RESPONSE:
            assert not message.HasField("error"), message
            for confirm in self._acks.pop(message.request_id):
                confirm()
                self.counts["confirmed acknowledgments"] += 1
        elif command.type == CommandType.END_TXN_RESPONSE:
            assert not message.HasField("error"), message
            self._ends.pop(message.request_id).ended = True
            self.counts["confirmed ends"] += 1
        else:
            assert command.type in (CommandType.SUCCESS, CommandType.ACTIVE_CONSUMER_CHANGE), command

    def delivered(self, command: Any, payload: bytes) -> None:
        """Check a delivery against the model."""
        topic, name = SUBSCRIPTIONS[command.consumer_id]
        message = self.messages[read_metadata(payload).partition_key]
        position = command.message_id.ledgerId, command.message_id.entryId
        assert message.topic == topic
        assert message.position in (None, position), f"{message.name} was at {message.position}"
        message.position = position
        bits = from_words(command.ack_set) if command.ack_set else message.everything
        assert message.fate is not False, f"{message.name} of {message.transaction} was delivered"
        again = bits & message.surely(name)
        assert not again, f"{name} got {message.name} again, {again:b} of it was acknowledged: {message}"
        missing = message.everything & ~bits & ~message.possibly(name)
        assert not missing, f"{name} got {message.name} without {missing:b}, which nobody acknowledged"
        mine = self.held[topic, name]
        again_after_abort = any(
            subscription == name and txn.asked is TxnAction.ABORT
            # On Exclusive an abort redelivers everything, to keep the order.
            for each in (self.messages.values() if self.types[topic, name] == 0 else [message])
            if each.topic == topic
            for subscription, _, txn, _ in each.within
        )  # fmt: skip
        assert again_after_abort or message.name not in mine, f"{name} got {message.name} twice"
        mine[message.name] = bits
        self.counts["deliveries"] += 1

    def acknowledge(self) -> None:
        number = self.chance.randrange(len(SUBSCRIPTIONS))
        topic, name = SUBSCRIPTIONS[number]
        mine = self.held[topic, name]
        if not mine:
            return
        txn = self.some_open() if self.chance.random() < 0.5 else None
        if txn is not None:
            self.join(txn, subscription=[{"topic": topic, "subscription": name}])
        chosen = self.chance.sample(sorted(mine), self.chance.randrange(1, len(mine) + 1))
        ids: list[dict[str, Any]] = []
        confirm = []
        for each in chosen:
            message = self.messages[each]
            left = mine[each] & ~message.possibly(name)
            if not left:
                continue
            bits = left
            if message.size > 1 and self.chance.random() < 0.5:
                bits = left & self.chance.getrandbits(message.size) or left
            assert message.position is not None
            ledger_id, entry_id = message.position
            ids.append({"ledgerId": ledger_id, "entryId": entry_id})
            if bits != message.everything:
                words = to_signed_words(message.everything & ~bits)
                ids[-1] |= {"ack_set": words, "batch_size": message.size}
            confirm.append(self.note(message, name, bits, txn))
        if ids:
            self.ack(number, ids, confirm, txn, 0)

    def note(self, message: Message, name: str, bits: int, txn: Transaction | None) -> Any:
        """Add an acknowledgment to the model; return the function that adds its answer."""
        if txn is None:
            message.perhaps[name] |= bits

            def confirmed() -> None:
                message.acked[name] |= bits
        else:
            entry = name, bits, txn
            message.within.append((*entry, False))

            def confirmed() -> None:
                message.within.remove((*entry, False))
                message.within.append((*entry, True))

        return confirmed

    def ack(
        self, number: int, ids: list[Any], confirm: list[Any], txn: Transaction | None, kind: int
    ) -> None:
        request = self.request()
        self._acks[request] = confirm
        fields: dict[str, Any] = {} if txn is None else txn.fields
        self.consuming.send(
            CommandType.ACK, consumer_id=number, ack_type=kind, message_id=ids, request_id=request, **fields
        )
        if not self.unanswered():
            self.settle()

    def acknowledge_up_to(self) -> None:
        """Acknowledge everything up to a message, on Exclusive."""
        exclusive = [each for each in SUBSCRIPTIONS if self.types[each] == 0 and self.held[each]]
        if not exclusive:
            return
        topic, name = self.chance.choice(exclusive)
        last = self.messages[self.chance.choice(sorted(self.held[topic, name]))]
        assert last.position is not None
        confirm = [
            self.note(each, name, each.everything, None)
            for each in self.messages.values()
            if each.topic == topic
            and (each.position is None or each.position <= last.position)
            # An entry that waits for its transaction is after every delivered one; an entry without a receipt
            # may be anywhere.
            and each.position is not None
        ]
        ids = [{"ledgerId": last.position[0], "entryId": last.position[1]}]
        self.ack(SUBSCRIPTIONS.index((topic, name)), ids, confirm, None, 1)

    # Transactions

    def open_ones(self) -> list[Transaction]:
        return [each for each in self.transactions if each.asked is None]

    def some_open(self) -> Transaction | None:
        found = self.open_ones()
        return self.chance.choice(found) if found else None

    def begin(self) -> None:
        answer = self.answer(CommandType.NEW_TXN, txn_ttl_millis=0, tc_id=0)
        fields = {"txnid_most_bits": answer.txnid_most_bits, "txnid_least_bits": answer.txnid_least_bits}
        assert fields not in [each.fields for each in self.transactions], "the id of a transaction came twice"
        self.transactions.append(Transaction(fields))

    def join(self, txn: Transaction, **parts: Any) -> None:
        if "partitions" in parts:
            answer = self.answer(CommandType.ADD_PARTITION_TO_TXN, **parts, **txn.fields)
        else:
            answer = self.answer(CommandType.ADD_SUBSCRIPTION_TO_TXN, **parts, **txn.fields)
        assert not answer.HasField("error"), answer

    def end(self) -> None:
        txn = self.some_open()
        if txn is None:
            return
        # The acknowledgments on the other connection are handled first.
        self.settle()
        self.ask_end(txn)
        if not self.unanswered():
            self.settle()

    def ask_end(self, txn: Transaction) -> None:
        txn.asked = self.chance.choice((TxnAction.COMMIT, TxnAction.COMMIT, TxnAction.ABORT))
        request = self.request()
        self._ends[request] = txn
        self.producing.send(CommandType.END_TXN, request_id=request, txn_action=txn.asked, **txn.fields)

    # Failures

    def break_connections(self) -> None:
        self.work_unanswered()
        self.disconnect()
        self.connect()
        self.resolve_ends()

    def restart(self) -> None:
        self.work_unanswered()
        self.broker.stop(signal.SIGTERM)
        self.begin_again()

    def kill(self) -> None:
        self.work_unanswered()
        if self.open_ones():
            self.counts["kill -9 with open transactions"] += 1
        self.broker.stop(signal.SIGKILL)
        self.begin_again()

    def crash(self) -> None:
        self.work_unanswered()
        self.broker.ask("POST", "dev/crash")
        restarted = self.broker.ask("POST", "dev/restart", {"as_": "ackwell"})
        assert restarted["messages"] == 0
        self.disconnect()
        self.connect()
        self.compare()

    def begin_again(self) -> None:
        self.disconnect()
        self.broker.start()
        self.connect()
        self.compare()

    def work_unanswered(self) -> None:
        """Send more requests at random without waiting, so that the kill interrupts them."""
        while self.chance.random() < 0.7:
            txn = self.some_open()
            what = self.chance.randrange(3)
            if what == 0:
                self.send(self.chance.randrange(len(TOPICS)), None)
            elif what == 1 and txn is not None:
                self.join(txn, partitions=list(TOPICS))
                for _ in range(self.chance.randrange(1, 4)):
                    self.send(self.chance.randrange(len(TOPICS)), txn)
            elif txn is not None:
                self.ask_end(txn)

    # Checks

    def resolve_ends(self) -> None:
        """Query the transactions whose end was not answered, and end those that are open."""
        # Deliveries while they were open are read before they end; they follow the answer to the
        # ping that came with the permits.
        self.settle()
        self.settle()
        for txn in self.transactions:
            if txn.asked is None or txn.ended:
                continue
            parts = {"partitions": [TOPICS[0]]}
            answer = self.answer(CommandType.ADD_PARTITION_TO_TXN, **parts, **txn.fields)
            if not answer.HasField("error"):
                self.nothing_applied(txn)
                self.counts["ends that never came"] += 1
                self.answer(CommandType.END_TXN, txn_action=txn.asked, **txn.fields)
            else:
                self.counts["ends that came unanswered"] += 1
            txn.ended = True

    def answer(self, kind: CommandType, **fields: Any) -> Any:
        """Send a request to the coordinator, read until its answer, and return the answer."""
        self.producing.send(kind, request_id=self.request(), **fields)
        wanted = CommandType[f"{kind.name}_RESPONSE"]
        while (command := self.producing.receive()).type != wanted:
            self.read(command, self.producing.payloads[-1])
        return command.message

    def nothing_applied(self, txn: Transaction) -> None:
        """Check that an open transaction has acknowledged nothing yet."""
        for topic, name in SUBSCRIPTIONS:
            found = self.backlog(topic, name)
            for message in self.messages.values():
                for subscription, bits, inside, sure in message.within if message.topic == topic else ():
                    if inside is txn and subscription == name and sure:
                        alone = bits & ~message.acked[name] & ~message.perhaps[name]
                        assert not alone & ~found.get(message.name, 0), f"{txn} is applied in part: {message}"

    def compare(self) -> None:
        """Compare the broker's state with the model, and resolve the unknown parts of the model."""
        self.resolve_ends()
        self.settle()
        unknown = 0
        for topic, name in SUBSCRIPTIONS:
            found = self.backlog(topic, name)
            for message in self.messages.values():
                if message.topic != topic:
                    continue
                bits = found.pop(message.name, 0)
                unknown += self.check(message, name, bits)
            assert not found, f"{name} has what nobody sent: {found}"
        self.counts["comparisons"] += len(SUBSCRIPTIONS)
        self.counts["settled by asking"] += unknown

    def check(self, message: Message, name: str, bits: int) -> int:
        """Compare one entry of one subscription; return whether its state was unknown."""
        confirmed = message.position is not None
        if message.transaction is not None and message.transaction.asked is TxnAction.ABORT:
            assert not bits, f"{message.name} of an aborted transaction is in {name}'s backlog"
            return 0
        surely = message.acked[name]
        maybe = surely | message.perhaps[name]
        for subscription, more, txn, sure in message.within:
            if subscription == name and txn.asked is TxnAction.COMMIT:
                maybe |= more
                surely |= more if sure else 0
        assert not bits & surely, f"{name}: {message} has {bits & surely:b} in its backlog again"
        if bits:
            missing = message.everything & ~bits & ~maybe
            assert not missing, f"{name}: {missing:b} of {message} is not in the backlog"
        elif confirmed:
            assert maybe == message.everything, f"{name}: {message} was confirmed and is not there"
        if not confirmed and bits:
            # It was stored without a receipt.
            return 1
        return int(maybe != surely)

    def backlog(self, topic: str, name: str) -> dict[str, int]:
        """Query the unacknowledged bits of a subscription, by message."""
        query = f"topic={quote(topic, safe='')}&subscription={name}"
        found: dict[str, int] = Counter()
        for each in self.broker.ask("GET", f"dev/backlog?{query}"):
            found[each["key"]] |= 1 << max(each["batch_index"], 0)
        return found

    def finish(self) -> None:
        """End the open transactions; then another client must receive each unacknowledged message once."""
        self.settle()
        for txn in self.open_ones():
            self.ask_end(txn)
        self.settle()
        self.compare()
        self.disconnect()
        self.connect()
        # Deliveries follow the answer to the ping that was sent with the permits.
        self.settle()
        self.settle()
        for topic, name in SUBSCRIPTIONS:
            left = self.backlog(topic, name)
            assert self.held[topic, name] == left, f"{name} got {self.held[topic, name]}, left is {left}"
        self.disconnect()


def play(seed: int, folder: Path, steps: int = STEPS) -> Counter[str]:
    """Play one session; return its counts."""
    with Process(folder) as broker:
        session = Session(seed, broker)
        try:
            for _ in range(steps):
                session.step()
            session.finish()
        finally:
            with suppress(OSError):
                session.disconnect()
    return session.counts


def main(first: int, last: int) -> int:
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(first, last):
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts += play(seed, Path(folder))
                counts["sessions without a difference"] += 1
                print(seed, end=" ", flush=True)
            except Exception as error:  # The series continues.
                failed.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{last - first} sessions, {len(failed)} different {failed}:", dict(counts), flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
