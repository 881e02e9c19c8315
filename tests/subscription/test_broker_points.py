"""Points on which a broker differs from the default, and the preset that reproduces the broker."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ackwell import Ledgers, Position, ProtocolError
from ackwell.delayed import DelayedDeliveryTracker
from ackwell.subscription import (
    AckType,
    CommandAck,
    MessageId,
    Subscription,
    SubscriptionSettings,
    TransactionId,
)

VECTORS = Path(__file__).parents[1] / "vectors" / "subscription.toml"
CASES = tomllib.loads(VECTORS.read_text(encoding="utf-8"))["case"]


class Played:
    """One case, played under some settings; `results` is everything that a case can state."""

    def __init__(self, case: dict[str, Any], settings: SubscriptionSettings) -> None:
        self.batch_size = case.get("batch_size", 1)
        ledgers = case.get("ledgers", {"3": case.get("entries", 0)})
        self.ledgers = Ledgers({int(ledger_id): entries for ledger_id, entries in ledgers.items()})
        delayed = DelayedDeliveryTracker(strict=True) if case.get("delayed") else None
        self.subscription = Subscription(case["type"], self.ledgers, settings=settings, delayed=delayed)
        self.deliveries: list[dict[str, str]] = []
        self.refused = False
        expects: str | None = None
        for name, *arguments in case["steps"]:
            if name in ("refused", "may be refused"):
                expects = name
                continue
            try:
                self.play(name, arguments)
            except ProtocolError:
                assert expects is not None, f"{name}{arguments} was refused"
                self.refused = True
            else:
                assert expects != "refused", f"{name}{arguments} was not refused"
            expects = None
            self.subscription.validate()

    def play(self, name: str, arguments: list[Any]) -> None:
        if name == "deliver":
            self.deliver(**(arguments[0] if arguments else {}))
        elif name == "trim":
            self.ledgers.trim_before(*arguments)
        elif name == "handle":
            self.subscription.handle(arguments[0], command(arguments[1], self.batch_size).encode())
        elif name in ("commit", "abort"):
            getattr(self.subscription, name)(TransactionId(0, arguments[0]))
        else:
            named = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
            if name in ("nack", "delivered"):
                named["now_ms"] = arguments.pop()
            getattr(self.subscription, name)(*arguments, **named)

    def deliver(self, **values: int) -> None:
        got: dict[str, list[str]] = {}
        while True:
            given = 0
            for position in self.subscription.next_reads(30, 0):
                key = self.subscription.dispatch(
                    position, now_ms=0, batch_size=self.batch_size, **values
                ).consumer
                if key is not None:
                    words = self.subscription.ack_set(*position)
                    part = "" if words is None else str(list(words)).replace(" ", "")
                    got.setdefault(str(key), []).append(f"{position.entry_id}{part}")
                    given += 1
            if not given:
                break
        self.deliveries.append({key: " ".join(entries) for key, entries in got.items()})

    @property
    def results(self) -> dict[str, Any]:
        subscription = self.subscription
        existing = [Position(each, entry) for each, count in self.ledgers for entry in range(count)]
        return {
            "deliveries": self.deliveries,
            "total": sum(len(each.split()) for got in self.deliveries for each in got.values()),
            "acked": " ".join(str(p.entry_id) for p in existing if subscription.cursor.is_acked(*p)),
            "ack_sets": {str(p): list(words) for p, words in subscription.cursor.batch_deleted.items()},
            "counts": {str(p): n for p in existing if (n := subscription.redelivery_count(*p))},
            "unacked": subscription.summary(0).unacked,
            "refused": self.refused,
            "pending": {
                str(key): {str(p): value.remaining for p, value in subscription.pending(key).items()}
                for key in subscription.consumers
            },
        }


def command(values: dict[str, Any], batch_size: int) -> CommandAck:
    transaction = values.get("transaction")
    return CommandAck(
        1,
        AckType.CUMULATIVE if values.get("cumulative") else AckType.INDIVIDUAL,
        tuple(
            MessageId(
                each["at"][0],
                each["at"][1],
                ack_set=tuple(each.get("ack_set", ())),
                batch_size=batch_size,
                first_chunk=MessageId(*each["first_chunk"]) if "first_chunk" in each else None,
            )
            for each in values["ids"]
        ),
        transaction=None if transaction is None else TransactionId(0, transaction),
    )


def check(case: dict[str, Any], whose: str, settings: SubscriptionSettings) -> None:
    expected = case[whose if whose in case else "both"]
    results = Played(case, settings).results
    assert expected
    assert {name: results[name] for name in expected} == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['point']}: {case['name']}")
def test_the_default_settings_give_the_documented_behaviour(case: dict[str, Any]) -> None:
    check(case, "ours", SubscriptionSettings(**case.get("settings", {})))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['point']}: {case['name']}")
def test_the_preset_gives_the_behaviour_of_the_broker(case: dict[str, Any]) -> None:
    version = case.get("version", "4.2.4")
    check(case, "broker", SubscriptionSettings.pulsar(version, **case.get("settings", {})))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['point']}: {case['name']}")
def test_where_the_two_differ_the_case_tells_them_apart(case: dict[str, Any]) -> None:
    assert ("both" in case) != ("ours" in case and "broker" in case)
    if "both" not in case:
        assert case["ours"] != case["broker"]


def test_every_point_that_has_a_case_is_named() -> None:
    points = {case["point"] for case in CASES}
    assert points >= {"5", "7", "8", "9", "10", "11", "12", "18"} | {f"13{letter}" for letter in "abcdefghn"}


@pytest.mark.parametrize("version", ["4.0", "4.2", "4.0.7", "4.2.4", "5.0", "5.0.0-M1", "5.0.1"])
def test_a_preset_takes_a_version_and_single_settings(version: str) -> None:
    settings = SubscriptionSettings.pulsar(version, ack_timeout_ms=7)
    assert settings.ack_timeout_ms == 7
    assert settings.cursor.replace_ack_sets == (version not in ("5.0", "5.0.1"))
    assert settings.read_batch_size == (500 if version in ("5.0", "5.0.1") else 100)
    assert settings.partial_ack_lowers_pending == (not version.startswith("4.0"))
    assert settings.cursor.refuse_cumulative_behind == version.startswith("5.0")


def test_a_preset_of_an_unknown_version_is_refused() -> None:
    for version in ("", "3.0.1", "4", "latest"):
        with pytest.raises(ValueError, match="version"):
            SubscriptionSettings.pulsar(version)
