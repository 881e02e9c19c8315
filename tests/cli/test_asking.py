"""`ackwell holes --list` and `ackwell diff --admin`: their requests to a broker, and their output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.broker.answers import answer, holes
from tests.cluster.fake_admin import FakeBroker, broker, served
from tests.commands import ackwell

if TYPE_CHECKING:
    import pytest

TOPIC = "persistent://shop/eu/orders"
ENTRY = "/admin/v2/persistent/shop/eu/orders/ledger/3/entry/"


def entry(**headers: str) -> Any:
    """Answer as a broker does for an entry: its metadata is in the headers."""

    def reply(asked: FakeBroker) -> None:
        asked.send_response(200)
        for name, value in headers.items():
            asked.send_header(name.replace("_", "-"), value)
        asked.send_header("Content-Length", "5")
        asked.end_headers()
        asked.wfile.write(b"hello")

    return reply


def peeked() -> dict[str, Any]:
    return {
        **served(),
        f"{ENTRY}0": entry(X_Pulsar_publish_time="2026-01-02T03:04:05.678Z"),
        f"{ENTRY}2": entry(
            X_Pulsar_publish_time="2026-01-02T11:04:06+08:00",
            X_Pulsar_num_batch_message="7",
            X_Pulsar_deliver_at_time="2026-01-03T00:00:00Z",
        ),
        f"{ENTRY}4": entry(X_Pulsar_publish_time="yesterday"),
    }


def test_the_oldest_unacknowledged_entries_are_listed_with_their_times() -> None:
    with broker(peeked()) as (url, asked):
        done = ackwell("holes", "--list", "4", "--admin", url, TOPIC)
        found = json.loads(ackwell("holes", "--list", "4", "--format", "json", "--admin", url, TOPIC).out)
    assert done.code == 0
    assert "3:0  1 message, published 2026-01-02T03:04:05.678+00:00" in done.out
    assert "3:2  7 messages, published 2026-01-02T03:04:06.000+00:00" in done.out
    assert "due 2026-01-03T00:00:00.000+00:00" in done.out
    assert "3:4  expected the headers of an entry" in done.out
    assert "3:6  HTTP 404" in done.out
    first, second, third, fourth = found[0]["unacked"]
    assert first == {"position": "3:0", "publishedMs": 1_767_323_045_678, "dueMs": None, "messages": 1}
    assert (second["messages"], second["dueMs"]) == (7, 1_767_398_400_000)
    assert "yesterday" in third["error"]
    assert fourth["position"] == "3:6"
    assert {method for method, _, _ in asked} == {"GET"}
    assert sum(path.startswith(ENTRY) for _, path, _ in asked) == 8


def test_a_run_asks_for_no_more_entries_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ackwell.cli.holes_command.PEEKS_MAX", 3)
    with broker({**peeked(), **served("orders", "more")}) as (url, asked):
        done = ackwell("holes", "--list", "2", "--admin", url, "shop/eu")
    assert sum("/entry/" in path for _, path, _ in asked) == 3
    assert done.out.count("3:2") == 2


def test_entries_of_a_file_are_listed_without_times(tmp_path: Path) -> None:
    (tmp_path / "told.json").write_text(json.dumps(answer(holes(3))))
    found = json.loads(ackwell("holes", "--list", "2", "--format", "json", str(tmp_path)).out)
    assert found[0]["unacked"] == [{"position": "3:0"}, {"position": "3:2"}]
    assert "unacked" not in json.loads(ackwell("holes", "--format", "json", str(tmp_path)).out)[0]
    assert ackwell("holes", "--list", "2", "--format", "prometheus", str(tmp_path)).code == 2


def test_a_stored_state_is_compared_with_what_a_broker_says_now(tmp_path: Path) -> None:
    told = answer(holes(11_999))
    (tmp_path / "named.json").write_text(json.dumps({TOPIC: told["internalStats"]}))
    (tmp_path / "unnamed.json").write_text(json.dumps(told))
    with broker(served()) as (url, asked):
        for line in (["named.json"], ["named.json", "shop/eu"], ["unnamed.json", TOPIC]):
            file, *topics = line
            done = ackwell("diff", "--format", "json", str(tmp_path / file), *topics, "--admin", url)
            found = json.loads(done.out)
            assert done.code == 3
            assert (found["onlyBefore"], found["onlyAfter"]) == ([], [])
            assert [each["ackedEntries"] for each in found["subscriptions"]] == [1]
        assert {method for method, _, _ in asked} == {"GET"}
        done = ackwell("diff", str(tmp_path / "unnamed.json"), "--admin", url)
    assert (done.code, "give the topic after it" in done.err) == (1, True)
    assert ackwell("diff", str(tmp_path / "named.json")).code == 2


def test_of_several_dumps_of_a_subscription_the_newest_shows_its_holes(tmp_path: Path) -> None:
    for day, entries in (("1", 3), ("2", 4)):
        (tmp_path / f"{day}.json").write_text(json.dumps(answer(holes(entries)) | {"topic": TOPIC}))
    (found,) = json.loads(ackwell("holes", "--format", "json", str(tmp_path)).out)
    (newest,) = json.loads(ackwell("holes", "--format", "json", str(tmp_path / "2.json")).out)
    assert found == newest
    # Two samples of the same labels are an error to Prometheus.
    lines = ackwell("holes", "--format", "prometheus", str(tmp_path)).out.splitlines()
    names = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert names
    assert len(names) == len(set(names))


def test_what_pins_most_is_first(tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 3_000), ("c", 200)):
        told = answer("[]")
        for ledger in told["internalStats"]["ledgers"]:
            ledger["size"] = size
        (tmp_path / f"{name}.json").write_text(json.dumps(told))
    found = json.loads(ackwell("holes", "--format", "json", str(tmp_path)).out)
    pinned = [each["pinnedBytes"] for each in found]
    assert pinned == sorted(pinned, reverse=True)
    assert len(set(pinned)) == 3
