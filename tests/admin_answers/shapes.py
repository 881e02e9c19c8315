"""Make the requests and describe the answers.

    python -m tests.admin_answers.shapes ADMIN_URL SERVICE_URL

prints each request with the status and the shape of its answer.
"""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
import urllib.request
from typing import Any, Final

from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import encode, frame
from tests.admin_answers.requests_made import OF_TRANSACTIONS, TOPIC_WITH_POLICIES, Row, all_requests
from tests.devbroker.raw import RawClient

TOPIC: Final = "persistent://t/n/orders"
COORDINATOR: Final = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
STARTED_WITHIN_S: Final = 30
TXN_TIMEOUT_MS: Final = 60_000

Answer = tuple[int, Any]
"""The HTTP status, and the shape of the body."""


def shape(value: Any) -> Any:
    """Return the types of a JSON value: of each field of an object, and of the first value of a list."""
    match value:
        case dict():
            return {_key(name): shape(each) for name, each in sorted(value.items())}
        case list():
            return [shape(each) for each in value[:1]]
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case None:
            return None
        case _:
            return "text"


def _key(name: str) -> str:
    """Return the name of a field without the addresses and random ids that differ between brokers."""
    name = re.sub(r"127\.0\.0\.1:\d+|localhost:\d+", "BROKER", name)
    return re.sub(r"(?<=^__system_reader-reader-)[0-9a-f]+$", "ID", name)


def request(admin_url: str, row: Row) -> tuple[int, str]:
    """Make a request; return the status and the body."""
    method, path, body = row
    data = None if body is None else json.dumps(body).encode()
    headers = {} if data is None else {"Content-Type": "application/json"}
    made = urllib.request.Request(admin_url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(made, timeout=30) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, ""


def described(status: int, body: str) -> Answer:
    """Return the status and the shape of an answer; the text of errors may differ."""
    if not body:
        return status, "nothing"
    try:
        return status, shape(json.loads(body))
    except ValueError:
        return status, "bytes"


def answers(admin_url: str, service_url: str, *, pause_s: float = 0.05) -> dict[str, Answer]:
    """Make all requests to a broker, with a client's traffic before those about transactions."""
    found: dict[str, Answer] = {}
    traffic: Traffic | None = None
    for row in all_requests():
        if traffic is None and row is OF_TRANSACTIONS[0]:
            traffic = Traffic(service_url)
        method, path, body = row
        sent = path if traffic is None else traffic.filled(path)
        status, text = request(admin_url, (method, sent, body))
        if method != "GET" and path.startswith(f"{TOPIC_WITH_POLICIES}/"):
            # A broker answers before the policy is readable.
            time.sleep(pause_s)
        name = f"{method} {path}"
        while name in found:
            name += " (again)"
        found[name] = described(status, text)
    if traffic is not None:
        traffic.client.socket.close()
    return found


class Traffic:
    """A client with a producer, a consumer and an open transaction, which has published and acknowledged."""

    def __init__(self, service_url: str) -> None:
        self.client = client = RawClient(service_url)
        # A broker loads a coordinator when it owns the coordinator's topic.
        look_up = messages.CommandLookupTopic(topic=COORDINATOR, request_id=8)
        client.socket.sendall(frame(encode(CommandType.LOOKUP, look_up)))
        client.receive()
        deadline_s = time.monotonic() + STARTED_WITHIN_S
        while client.ask(CommandType.TC_CLIENT_CONNECT_REQUEST, request_id=1, tc_id=0).HasField("error"):
            assert time.monotonic() < deadline_s, "the transaction coordinator did not start"
            time.sleep(0.5)
        client.subscribe(TOPIC, consumer_name="worker")
        client.produce(TOPIC)
        now_ms = int(time.time() * 1_000)
        receipts = [client.publish(number, b"x", publish_time=now_ms) for number in range(5)]
        client.send(CommandType.NEW_TXN, request_id=2, txn_ttl_millis=TXN_TIMEOUT_MS, tc_id=0)
        begun = client.until(CommandType.NEW_TXN_RESPONSE)
        self.txn = {"txnid_most_bits": begun.txnid_most_bits, "txnid_least_bits": begun.txnid_least_bits}
        client.send(CommandType.ADD_PARTITION_TO_TXN, request_id=3, partitions=[TOPIC], **self.txn)
        client.until(CommandType.ADD_PARTITION_TO_TXN_RESPONSE)
        of_txn = messages.Subscription(topic=TOPIC, subscription="s")
        client.send(CommandType.ADD_SUBSCRIPTION_TO_TXN, request_id=4, subscription=[of_txn], **self.txn)
        client.until(CommandType.ADD_SUBSCRIPTION_TO_TXN_RESPONSE)
        client.publish(5, b"y", publish_time=now_ms, **self.txn)
        first = receipts[0].message_id
        self.ledger_id = first.ledgerId
        client.send(CommandType.ACK, consumer_id=1, ack_type=0, message_id=[first], request_id=5, **self.txn)
        client.until(CommandType.ACK_RESPONSE)
        client.send(
            CommandType.ACK, consumer_id=1, ack_type=0, message_id=[receipts[2].message_id], request_id=6
        )
        client.until(CommandType.ACK_RESPONSE)

    def filled(self, path: str) -> str:
        """Return a path with the transaction and the ledger."""
        return path.replace("TXN", str(self.txn["txnid_least_bits"])).replace("LEDGER", str(self.ledger_id))


if __name__ == "__main__":
    for name, (status, found) in answers(*sys.argv[1:3]).items():
        print(f"{name}\t{status}\t{json.dumps(found, sort_keys=True)}")
