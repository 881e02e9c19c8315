"""Events and dumps in an object store: the answers are those of files, and errors name bucket and key."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackwell import object_paths
from ackwell.object_paths import ObjectPath, any_path
from ackwell.regular_files import read_regular
from tests.cluster.fake_admin import broker, served
from tests.commands import ackwell
from tests.s3_server import BUCKET, KEY, REGION, SECRET, Environ, Server, serving

TRACES = Path(__file__).parents[2] / "examples" / "traces"


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Server, str]]:
    with serving() as made:
        yield made


@pytest.fixture
def server(running: tuple[Server, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Return the server, whose address and credentials are in the environment."""
    made, url = running
    values = {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    object_paths._filesystem.cache_clear()
    made.requests.clear()
    yield made
    made.fault = lambda _: False
    object_paths._filesystem.cache_clear()


def upload(folder: Path, url: str) -> None:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            ObjectPath.of(f"{url}/{file.relative_to(folder).as_posix()}").write(file.read_bytes())


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """Return a folder with events in every format, some in a folder in Hive's form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "events"
    (folder / "topic=persistent%3A%2F%2Fa%2Fb%2Fé #1").mkdir(parents=True)
    lines = gzip.decompress((TRACES / "nack_redelivery.jsonl.gz").read_bytes())
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(lines.replace(b"public/default/", b"public/other/")))
    with pa.CompressedOutputStream(str(folder / "c.jsonl.zst"), "zstd") as out:
        out.write(lines.replace(b"public/default/", b"public/third/"))
    table = pa.table(
        {
            "subscription": ["s"] * 3,
            "sequence": [1, 2, 3],
            "kind": ["publish", "ack", "ack"],
            "ledger_id": [5] * 3,
            "entry_id": [9, 0, 2],
        }
    )
    pq.write_table(table, folder / "topic=persistent%3A%2F%2Fa%2Fb%2Fé #1" / "part-0.parquet")
    (folder / "_hidden.jsonl").write_text("no event")
    return folder


@pytest.mark.parametrize(
    "line",
    [
        "replay --format json",
        "replay --format json --at 20",
        "replay --format json --threads 2",
        "events check --format json",
    ],
)
def test_the_answer_is_that_of_the_same_files(server: Server, events: Path, line: str) -> None:
    upload(events, "s3://events/traces")
    expected, found = (ackwell(*line.split(), source) for source in (str(events), "s3://events/traces"))
    assert found == expected
    assert found.code == 0
    assert server.requests


@pytest.mark.slow
def test_the_history_is_that_of_the_same_files(server: Server) -> None:
    upload(TRACES, "s3://events/examples")
    expected, found = (
        ackwell("history", "--format", "json", source) for source in (str(TRACES), "s3://events/examples/")
    )
    assert found == expected


@pytest.mark.parametrize("command", ["replay", "doctor", "events check"])
def test_a_key_that_arrow_refuses_is_one_sentence(server: Server, command: str) -> None:
    answer = ackwell(*command.split(), "s3://events/a//b.jsonl")
    shown = " ".join((answer.out + answer.err).split())
    assert answer.code != 0
    assert "s3://events/a//b.jsonl" in shown
    assert "Empty path component" in shown


def test_a_single_object_is_replayed(server: Server, events: Path) -> None:
    upload(events, "s3://events/one")
    expected = ackwell("replay", "--format", "json", str(events / "b.jsonl.gz"))
    assert ackwell("replay", "--format", "json", "s3://events/one/b.jsonl.gz") == expected
    # Every object of the bucket.
    assert ackwell("events", "check", "s3://events/one/").code == 0


def test_dumps_are_collected_into_a_bucket_and_judged_there(server: Server, tmp_path: Path) -> None:
    with broker(served("orders", "a%2Fb")) as (url, _):
        for output in (str(tmp_path / "stats"), "s3://events/stats", "s3://events/stats"):
            answer = ackwell("collect", "--admin", url, "-o", output)
            assert (answer.code, answer.err) == (0, "")
            assert "2 topics collected" in answer.out
    runs = {path.parent for path in any_path("s3://events/stats").rglob("*")}
    assert len(runs) == 2
    (manifest,) = (read_regular(path) for path in min(runs).rglob("collected.manifest"))
    assert json.loads(manifest)["topics"] == 2
    options = ("--format", "json", "--fail-on", "never")
    expected, found = (
        ackwell("doctor", source, *options) for source in (str(tmp_path / "stats"), str(min(runs)))
    )
    assert found.code == expected.code == 0
    (kept, there) = (json.loads(each.out) for each in (expected, found))
    assert there["broker"] == kept["broker"]
    assert there["broker"]["version"] == "4.2.4"
    names = ("topic", "subscription", "ackedMessagesLostOnRestart")
    shown = [[{name: each[name] for name in names} for each in one["subscriptions"]] for one in (kept, there)]
    assert shown[0] == shown[1] != []


@pytest.mark.parametrize(
    ("changes", "url", "reason"),
    [
        ({}, "s3://nobucket/key.jsonl", "the bucket does not exist"),
        ({}, f"s3://{BUCKET}/none.jsonl", "no such file or folder"),
        ({"AWS_ACCESS_KEY_ID": "AKIDOTHER"}, f"s3://{BUCKET}/key.jsonl", "the access key does not exist"),
        ({"AWS_ACCESS_KEY_ID": "WRONGSECRET"}, f"s3://{BUCKET}/key.jsonl", "the secret key is wrong"),
        ({"AWS_ACCESS_KEY_ID": "DENIED"}, f"s3://{BUCKET}/key.jsonl", "access denied"),
        ({"AWS_REGION": "us-east-2"}, f"s3://{BUCKET}/key.jsonl", "the bucket is in another region"),
    ],
)
@pytest.mark.parametrize("command", ["replay", "events check", "history", "doctor", "collect"])
def test_a_wrong_setting_is_one_sentence_with_bucket_and_key(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    url: str,
    reason: str,
    command: str,
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    if command == "collect":
        if "none" in url:
            return
        with broker(served()) as (admin, _):
            answer = ackwell("collect", "--admin", admin, "-o", url)
        url = url + "/"
    else:
        answer = ackwell(*command.split(), url)
    shown = " ".join((answer.out + answer.err).split())
    assert answer.code != 0
    assert url in shown
    assert reason in shown or (command == "doctor" and "no such object" in shown)
    assert SECRET not in shown
    assert len([line for line in answer.err.splitlines() if "error" in line]) <= 1


@pytest.mark.parametrize("url", ["s3://KEY:SECRET@bucket/x", "gs://a@bucket/x"])
def test_credentials_in_a_url_are_refused(url: str) -> None:
    answer = ackwell("replay", url)
    assert answer.code != 0
    assert "visible in the list of processes" in " ".join(answer.err.split())
    assert "SECRET" not in answer.err


def test_spark_is_not_asked_for_an_object(server: Server, events: Path) -> None:
    upload(events, "s3://events/spark")
    answer = ackwell("replay", "--spark", "s3://events/spark")
    assert "ackwell spark replay" in " ".join(answer.err.replace("│", "").split())


def test_a_refused_part_leaves_no_object_and_an_older_one(server: Server) -> None:
    path, size = ObjectPath.of("s3://events/uploads/refused"), 22 << 20
    path.write(b"old")
    server.fault = lambda environ: "partNumber=2" in environ["QUERY_STRING"]
    with pytest.raises(OSError, match=r"InvalidArgument.*: 's3://events/uploads/refused'"):
        path.write(bytes(size))
    server.fault = lambda _: False
    assert path.read(size) == b"old"


def test_a_killed_upload_leaves_no_object(server: Server) -> None:
    write = "ObjectPath.of('s3://events/killed/x').write(bytes(22 << 20))"
    program = f"from ackwell.object_paths import ObjectPath; {write}"
    process = subprocess.Popen([sys.executable, "-c", program])

    def kill(environ: Environ) -> bool:
        if "partNumber=2" in environ["QUERY_STRING"]:
            os.kill(process.pid, signal.SIGKILL)
        return False

    server.fault = kill
    assert process.wait() == -signal.SIGKILL
    server.fault = lambda _: False
    assert list(any_path("s3://events/killed").rglob("*")) == []


@pytest.mark.parametrize(
    ("url", "kind"),
    [("gs://bucket/key", "gcs"), ("abfs://box@account.dfs.core.windows.net/key", "abfs")],
)
def test_the_other_stores_are_those_of_pyarrow(url: str, kind: str) -> None:
    path = ObjectPath.of(url)
    assert (str(path), path.name) == (url, "key")
    assert path._filesystem.type_name == kind
    assert path._place in ("bucket/key", "box/key")


def test_a_path_has_the_parts_of_its_url() -> None:
    path = ObjectPath.of("s3://bucket/a b/topic=x%2F?/.part#1.jsonl.gz")
    assert str(path) == "s3://bucket/a b/topic=x%2F?/.part#1.jsonl.gz"
    assert (path.name, path.suffix) == (".part#1.jsonl.gz", ".gz")
    assert path.parts == ("s3://bucket", "a b", "topic=x%2F?", ".part#1.jsonl.gz")
    assert path.with_suffix(".x").name == ".part#1.jsonl.x"
    assert str(path.parent.parent / "b") == "s3://bucket/a b/b"
    assert (
        ObjectPath.of("s3://bucket//a/")
        == ObjectPath.of("s3://bucket/a")
        == ObjectPath.of("s3://bucket") / "a"
    )
    assert ObjectPath.of("s3://bucket").parts == ("s3://bucket",)
    assert any_path("s3:/bucket/a") == Path("s3:/bucket/a")
    for url in ("s3://", "http://a/b", "s3:/a"):
        with pytest.raises(ValueError, match="is not a URL of an object store"):
            ObjectPath.of(url)
