"""Record the cursor of a broker in small scenarios: `python -m tests.pulsar.cursor_vectors`.

Each scenario is a list of steps on one Exclusive consumer. After every step the answer has the cursor's
memory: mark-delete position, ranges, ack sets, properties, `messagesConsumedCounter` and backlog, and
whether the step was answered with an error. Ledger ids are replaced by their rank, so that a recording
can be compared with another. `tests/cursor/test_broker_vectors.py` replays the recordings on our cursor.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from ackwell import Position
from ackwell.protocol.constants import SubscriptionType
from tests.pulsar import kit
from tests.pulsar.live.client import Client, RefusedError

RECORDED = Path(__file__).parents[1] / "vectors" / "cursor.json"
SUBSCRIPTION = "vectors"

SETTINGS = {"acknowledgmentAtBatchIndexLevelEnabled": "true"}
"""4.0 has it off by default."""

SETTLED_S = 0.5
"""A cursor takes properties over once its ledger is open, some time after it answered."""

Step = list[Any]

SCENARIOS: dict[str, list[Step]] = {
    "a cumulative ack set replaces one that begins before it": [
        ["publish", [10, 10, None]],
        ["ack", 0, [0b0000001111]],
        ["cumulative", 0, [0b1111110000], None],
        ["cumulative", 0, [0b1111111001], None],
        ["cumulative", 0, [0b1110000000], None],
        ["ack", 0, [0b0111111111]],
        ["cumulative", 1, [0b1111100000], None],
        ["ack", 1, [0b0000011111]],
    ],
    "an empty cumulative ack set leaves the entry": [
        ["publish", [3, 3, 3, None]],
        ["cumulative", 1, [0], None],
        ["cumulative", 1, [0b111], None],
        ["ack", 1, [0b100]],
        ["ack", 2, [0b001]],
        ["cumulative", 2, [0], None],
        ["cumulative", 2, [], None],
    ],
    "an empty individual ack set acknowledges the entry": [
        ["publish", [3, 3]],
        ["ack", 1, [0]],
        ["ack", 0, [0b001]],
        ["ack", 0, [0b110]],
    ],
    "cumulative acks at and behind mark-delete": [
        ["publish", [None, 3, None, None]],
        ["cumulative", 2, [], {"a": 1}],
        ["cumulative", 2, [], {"b": 2}],
        ["cumulative", 1, [], {"c": 3}],
        ["cumulative", 1, [0b110], {"d": 4}],
        ["cumulative", 3, [0b1], {"e": 5}],
    ],
    "properties": [
        ["publish", [None] * 6],
        ["ack", 4, [], {"individual": 1}],
        ["cumulative", 0, [], {"a": 1, "b": -1}],
        ["cumulative", 1, [], {"c": 3}],
        ["ack", 2, [], {"individual": 2}],
        ["cumulative", 3, [], {}],
        ["cumulative", 5, [], {"d": 4}],
        ["seek", 2, []],
    ],
    "messages consumed": [
        ["publish", [None] * 10],
        ["ack", 0, []],
        ["ack", 1, []],
        ["ack", 5, []],
        ["ack", 6, []],
        ["cumulative", 3, [], None],
        ["seek", 1, []],
        ["ack", 3, []],
        ["seek", 8, []],
        ["ack", 9, []],
        ["seek", 0, []],
    ],
    "messages consumed after an unload": [
        ["publish", [None] * 10],
        ["cumulative", 0, [], {"kept": 7}],
        ["ack", 4, []],
        ["unload"],
        ["publish", [None] * 2],
        ["ack", 1, []],
        ["seek", 6, []],
        ["cumulative", 11, [], None],
        ["unload"],
    ],
    "a seek into a batch": [
        ["publish", [5, 5, 5]],
        ["cumulative", 2, [], None],
        ["seek", 1, [0b11100]],
        ["ack", 1, [0b00111]],
        ["seek", 1, [0]],
        ["ack", 1, [0b11111]],
    ],
}


def record(broker: kit.Broker, name: str) -> list[dict[str, Any]]:
    """Play one scenario on a broker; return its answer after each step."""
    full_name = f"public/default/vectors-{uuid.uuid4().hex[:8]}"
    topic = f"persistent://{full_name}"
    client = Client(broker.ports.binary, topic, SUBSCRIPTION)
    client.open_producer()
    client.subscribe(0, "c", SubscriptionType.EXCLUSIVE)
    consumer, published, answers = 0, [], []
    for step in SCENARIOS[name]:
        refused = False
        try:
            match step:
                case ["publish", sizes]:
                    published += [client.publish(size, None) for size in sizes]
                case ["ack", entry, ack_set, *properties]:
                    ids = [(published[entry], tuple(ack_set), 0)]
                    client.ack(consumer, ids, properties=properties[0] if properties else None)
                case ["cumulative", entry, ack_set, properties]:
                    ids = [(published[entry], tuple(ack_set), 0)]
                    client.ack(consumer, ids, cumulative=True, properties=properties)
                case ["seek", entry, ack_set]:
                    client.seek(consumer, published[entry], tuple(ack_set))
                    consumer += 1
                    subscribe_again(client, consumer)
                case ["unload"]:
                    broker.flush(topic, SUBSCRIPTION)
                    broker.admin("PUT", f"persistent/{full_name}/unload")
                    client.close()
                    client = Client(broker.ports.binary, topic, SUBSCRIPTION)
                    client.open_producer()
                    consumer += 1
                    subscribe_again(client, consumer)
        except RefusedError:
            refused = True
        time.sleep(SETTLED_S)
        answers.append(answer(broker, topic, published) | {"refused": refused})
    client.close()
    return answers


def subscribe_again(client: Client, consumer: int) -> None:
    """Subscribe once the broker has let the consumer before go, as it does after a seek."""
    for _ in range(50):
        try:
            client.subscribe(consumer, f"c{consumer}", SubscriptionType.EXCLUSIVE)
        except RefusedError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the broker keeps the consumer")


def answer(broker: kit.Broker, topic: str, published: list[Position]) -> dict[str, Any]:
    """Return the cursor as the broker has it now."""
    memory = broker.cursor(topic, SUBSCRIPTION)
    # A ledger that is consumed may be gone from the broker's list.
    ledger_ids = sorted({*map(int, memory["ledgers"]), *(position.ledger_id for position in published)})
    rank = {ledger_id: number for number, ledger_id in enumerate(ledger_ids, start=1)}
    mark_delete = Position(*memory["markDelete"])
    ack_sets = {Position.parse(text): words for text, words in memory["batchDeletedIndexes"].items()}
    return {
        "markDelete": [rank[mark_delete.ledger_id], mark_delete.entry_id],
        "ranges": sorted([rank[row[2]], row[1], row[3]] for row in memory["ranges"]),
        "ackSets": [
            [rank[position.ledger_id], position.entry_id, words]
            for position, words in sorted(ack_sets.items())
            if position > mark_delete
        ],
        "properties": memory["properties"],
        "messagesConsumed": memory["messagesConsumed"],
        "backlog": memory["backlogEntries"],
    }


def written(recorded: dict[str, Any]) -> str:
    """Return the recordings as JSON, one step or answer a line."""
    scenarios = []
    for name, parts in recorded.items():
        lists = (
            f"  {json.dumps(key)}: [\n    " + ",\n    ".join(map(json.dumps, rows)) + "\n  ]"
            for key, rows in parts.items()
        )
        scenarios.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lists) + "\n}")
    return "{\n" + ",\n".join(scenarios) + "\n}\n"


def main() -> int:
    recorded: dict[str, Any] = {name: {"steps": steps} for name, steps in SCENARIOS.items()}
    for version in kit.VERSIONS:
        with (
            tempfile.TemporaryDirectory() as folder,
            kit.running_broker(Path(folder), version, **SETTINGS) as broker,
        ):
            for name in SCENARIOS:
                recorded[name][version] = record(broker, name)
    RECORDED.write_text(written(recorded))
    return 0


if __name__ == "__main__":
    sys.exit(main())
