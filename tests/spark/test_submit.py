"""The command line under `spark-submit`, in one process and on a standalone cluster."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pyspark
import pytest

import ackwell
from ackwell.replay.states import replay_files
from ackwell.spark.session import find_java
from tests.spark.test_ship import python_without_ackwell

TRACE = Path("examples/traces/shared_small_holes.jsonl")


@pytest.mark.launch
def test_a_submitted_replay_writes_cursors_and_prints_what_it_counted(tmp_path: Path) -> None:
    find_java()
    submit = Path(sys.executable).with_name("spark-submit")
    program = Path(ackwell.__file__).with_name("__main__.py")
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    arguments = ["spark", "replay", "-i", str(TRACE), "-o", str(tmp_path / "cursors")]
    run = subprocess.run(
        [str(submit), *options, str(program), *arguments],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-4_000:]
    (state,) = replay_files([TRACE])
    (row,) = pq.read_table(tmp_path / "cursors").to_pylist()
    assert row["individually_deleted"] == str(state.cursor.individually_deleted)
    assert row["backlog_entries"] == state.cursor.backlog_entries == 20
    summary = dict(re.findall(r"^ *(\S.*?)  +(\S+) *$", run.stdout, re.MULTILINE))
    assert summary["subscriptions"] == "1"
    assert summary["backlog entries"] == "20"


MAIN: Final = """
import sys
sys.path.insert(0, sys.argv.pop(1))  # not on PYTHONPATH, which workers inherit
from ackwell.cli import main
from ackwell.spark import local_session, ship

def places(batches):
    import ackwell, pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pydict({"place": [ackwell.__file__] * batch.num_rows})

session = local_session()
ship(session)
for row in session.range(0, 4, 1, 4).mapInArrow(places, "place string").collect():
    print("place", row.place)
main()
"""


@contextmanager
def cluster(workers: list[Path], environment: dict[str, str]) -> Iterator[str]:
    """Run a standalone master and a worker in each of these folders. Yield the master's URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    arguments = [["master.Master", *here, "--port", str(port)]]
    arguments += [
        ["worker.Worker", *here, "--cores", "1", "--memory", "1g", "--work-dir", str(folder), url]
        for folder in workers
    ]
    launcher = Path(pyspark.__file__).with_name("bin") / "spark-class"
    with ExitStack() as stack:
        for name, *options in arguments:
            process = stack.enter_context(
                subprocess.Popen(
                    [str(launcher), f"org.apache.spark.deploy.{name}", *options],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            stack.callback(process.terminate)
        yield url


@pytest.mark.launch
def test_two_workers_without_ackwell_replay_with_the_shipped_one(tmp_path: Path) -> None:
    find_java()
    program = tmp_path / "main.py"
    program.write_text(MAIN)
    workers = [tmp_path / "first", tmp_path / "second"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {
        "PYSPARK_PYTHON": str(python_without_ackwell(tmp_path / "bare")),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        # No task starts before both executors have registered.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    arguments = [str(Path(ackwell.__file__).parents[1]), "spark", "replay"]
    arguments += ["-i", str(TRACE.resolve()), "-o", str(tmp_path / "cursors")]
    submit = Path(sys.executable).with_name("spark-submit")
    with cluster(workers, environment) as url:
        run = subprocess.run(
            [str(submit), "--master", url, *options, str(program), *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert run.returncode == 0, run.stderr[-4_000:]
    places = {Path(line.removeprefix("place ")) for line in run.stdout.splitlines() if line[:6] == "place "}
    assert {worker for worker in workers for place in places if worker in place.parents} == set(workers)
    (state,) = replay_files([TRACE])
    (row,) = pq.read_table(tmp_path / "cursors").to_pylist()
    assert row["individually_deleted"] == str(state.cursor.individually_deleted)
    assert row["backlog_entries"] == state.cursor.backlog_entries == 20
