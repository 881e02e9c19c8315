"""A dev broker that loads a real broker's state: `python -m tests.pulsar.loads --help`.

Random subscriptions (`tests.pulsar.lives`) on a real broker. Before each restart their state is taken from
the admin API and the side door, and a dev broker loads it: its own `stats-internal` must show the same. After
the restart the official client receives the real broker's deliveries. The dev broker restarts in the same
way, and must deliver the same entries in the same order, with the same redelivery counts, and no other
message. The dumps do not contain the number of messages per entry.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pulsar

from ackwell.devbroker import Broker, DevBrokerSettings
from tests.devbroker.loaded import state_of, unread
from tests.pulsar import kit
from tests.pulsar.lives.examine import RESTARTS, SETTINGS
from tests.pulsar.lives.life import SUBSCRIPTION, Life

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
PATIENCE_MS, BEHIND_MS = 20_000, 700
"""The timeout for the next entry, and the timeout that ends the reading."""
Received = list[tuple[int, int, int, int]]
"""Ledger id, entry id, batch index and redelivery count of each message, in order."""


class BrokerState(NamedTuple):
    """A life before a restart."""

    life: Life
    answer: dict[str, Any]
    restart: str


def taken(broker: kit.Broker, life: Life) -> dict[str, Any]:
    """Return all that a broker shows of a life, ack sets among it."""
    topic = life.topic
    cursor = broker.cursor(topic, SUBSCRIPTION)
    memory = {"name": SUBSCRIPTION, "batchDeletedIndexes": cursor["batchDeletedIndexes"]}
    return life.answer() | {"topic": topic, "cursor": memory}


def received(url: str, topic: str, entries: int) -> Received:
    """Receive the given number of entries and all later ones with an official client."""
    client = pulsar.Client(url, logger=QUIET)
    consumer = client.subscribe(
        topic, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Exclusive, batch_index_ack_enabled=True
    )
    got: Received = []
    try:
        while True:
            missing = len(entries_of(got)) < entries
            message = consumer.receive(PATIENCE_MS if missing else BEHIND_MS)
            each = message.message_id()
            count = message.redelivery_count()
            got.append((each.ledger_id(), each.entry_id(), max(each.batch_index(), 0), count))
    except pulsar.Timeout:
        return got
    finally:
        client.close()


def entries_of(got: Received) -> list[tuple[int, int, int]]:
    """Return the entries among messages, each with its redelivery count, in order."""
    return list(dict.fromkeys((ledger_id, entry_id, count) for ledger_id, entry_id, _, count in got))


def differences(version: str, state: BrokerState, really: Received, folder: Path) -> Iterator[str]:
    """Load a state into a dev broker and compare it; restart the broker and compare its deliveries."""
    path = folder / "life.stats.json"
    path.write_text(json.dumps(state.answer), encoding="utf-8")
    conf = tuple(f"{name}={value}" for name, value in state.life.settings.items())
    settings = DevBrokerSettings(version=version[:3], broker_conf=conf)
    with Broker(settings=settings) as broker:
        loaded = broker.load(path)
        if loaded.unread:
            yield f"unread: {loaded.unread}"
            return
        ours = broker.call(lambda: answer_of(broker, state.answer["topic"]))
        wanted = state_of(state.answer, unread(state.answer))
        found = state_of(ours, unread(state.answer))
        for name in wanted:
            if wanted[name] != found[name]:
                yield f"{name}: {wanted[name]} there, {found[name]} here"
        if state.restart == "crash":
            broker.crash()
        broker.restart()
        topic = state.answer["topic"]
        left = {each.position for each in broker.backlog(topic, SUBSCRIPTION)}
        here = received(broker.url, topic, len(left))
        if entries_of(here) != entries_of(really) or {*here} - {*really}:
            yield f"after a {state.restart} restart {len(really)} received there, {len(here)} here"
            yield f"only there {sorted({*really} - {*here})[:5]}, only here {sorted({*here} - {*really})[:5]}"


def answer_of(broker: Broker, topic: str) -> dict[str, Any]:
    """Return the state of a dev broker in the form of `taken`."""
    from ackwell.devbroker.admin_api.topic_stats import internal_stats, stats

    found = broker._broker.state.topics[topic]
    partial = found.subscriptions[SUBSCRIPTION].cursor.batch_deleted
    sets = {str(position): list(words) for position, words in partial.items()}
    memory = {"name": SUBSCRIPTION, "batchDeletedIndexes": sets}
    return {"internalStats": internal_stats(found), "stats": stats(found), "cursor": memory}


def played(
    broker: kit.Broker, lives: int, processes: int, seed: int
) -> Iterator[tuple[BrokerState, Received]]:
    """Run several lives at once over restarts of the broker; yield each state and its later deliveries."""
    chance = random.Random(seed)
    going: list[Life] = []
    for process in range(processes):
        if process % 2 == 0:
            _all_leave(going)
            going = [Life(broker, 2_000_000 * seed + 1_000 * process + number) for number in range(lives)]
        states = _states(broker, going, RESTARTS[process % len(RESTARTS)], wait=chance.random() < 0.5)
        broker.stop(crash=states[0].restart == "crash")
        _all_leave(going)
        broker.start()
        for state in states:
            state.life.load()
            path = state.life.topic.replace("://", "/")
            shown = broker.admin("GET", f"{path}/stats")["subscriptions"][SUBSCRIPTION]
            yield state, received(broker.service_url, state.life.topic, shown["msgBacklog"])


def _states(broker: kit.Broker, going: list[Life], restart: str, *, wait: bool) -> list[BrokerState]:
    for each in going:
        # A broker closes connections that answer no pings, and the others take their time.
        each.leave()
        each.load()
        each.act()
    if wait:
        time.sleep(1.5)
    if restart == "crash":
        # No dump contains acknowledgments that are not written yet.
        for each in going:
            broker.flush(each.topic, SUBSCRIPTION)
    return [BrokerState(each, taken(broker, each), restart) for each in going]


def _all_leave(going: list[Life]) -> None:
    for each in going:
        each.leave()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", default=kit.VERSIONS[0])
    parser.add_argument("--lives", type=int, default=20, help="subscriptions at once")
    parser.add_argument("--processes", type=int, default=4, help="broker processes, one after the other")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    loaded = different = messages = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        kit.running_broker(Path(folder), asked.version, **SETTINGS) as broker,
    ):
        for state, really in played(broker, asked.lives, asked.processes, asked.seed):
            loaded += 1
            messages += len(really)
            found = list(differences(asked.version, state, really, Path(folder)))
            if found:
                different += 1
                print(f"seed {state.life.seed}, {state.life.settings}:", *found, sep="\n  ", flush=True)
    print(f"{asked.version}: {loaded} states loaded, {messages} messages received, {different} differences")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
