"""`ship` sends ackwell to executors whose Python lacks it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest

import ackwell
from ackwell.spark import ship

PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[2])  # not on PYTHONPATH, which workers inherit
from ackwell.replay.events import Kind
from ackwell.spark import local_session, replay, restart_audit, ship

def places(batches):
    import pyarrow
    for batch in batches:
        import ackwell, ackwell._native
        files = [ackwell.__file__, ackwell._native.__file__, sys.prefix]
        yield pyarrow.RecordBatch.from_pydict({"place": files})

spark = local_session("local[2]", connect=sys.argv[1] == "connect")
try:
    spark.range(1).mapInArrow(places, "place string").collect()
except Exception as error:
    print("before:", "No module named 'ackwell'" in str(error))
ship(spark)
ship(spark)
for row in spark.range(0, 1, 1, 1).mapInArrow(places, "place string").collect():
    print(row.place)
events = spark.range(4).selectExpr(
    "'t' as topic", "'s' as subscription", "id as sequence", "if(id < 2, 'publish', 'ack') as kind",
    "3 as ledger_id", "id % 2 as entry_id",
)
cursors = replay(events)
print([(row.mark_delete_entry_id, row.backlog_entries) for row in cursors.collect()])
print(restart_audit(cursors).count())
spark.stop()
"""


def python_without_ackwell(folder: Path) -> Path:
    """An environment with all installed packages except ackwell."""
    venv.create(folder, symlinks=True)
    base = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", base))
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith("ackwell"):
            (site / path.name).symlink_to(path)
    return folder / "bin" / "python"


@pytest.mark.launch
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_a_worker_without_ackwell_runs_the_one_that_is_shipped(tmp_path: Path, mode: str) -> None:
    if mode == "connect":
        pytest.importorskip("grpc", reason="the extra [connect] is not installed")
    bare = python_without_ackwell(tmp_path / "bare")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    installed = Path(ackwell.__file__).parents[1]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, str(program), mode, str(installed)],
        cwd=tmp_path,
        env=environment | {"PYSPARK_PYTHON": str(bare)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-4_000:]
    before, package, native, prefix, states, audited = run.stdout.splitlines()
    assert before == "before: True"
    assert Path(package).parts[-4:-1] == (Path(package).parts[-4], "shipped", "ackwell")
    assert Path(package).parts[-4].endswith(".zip.unpacked")
    assert Path(native).parent == Path(package).parent
    assert prefix == str(tmp_path / "bare")
    assert (states, audited) == ("[(1, 0)]", "2")


class Session:
    """Records the artifacts that it receives."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def addArtifacts(self, *paths: str, pyfile: bool = False) -> None:  # noqa: N802
        assert pyfile
        self.sent += paths


def test_the_archive_is_the_package_and_the_same_each_time() -> None:
    session: Any = Session()
    first, second = ship(session), ship(session)
    assert [str(first), str(second)] == session.sent
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
    with ZipFile(first) as archive:
        names = archive.namelist()
    assert any("_native" in name for name in names)
    assert not any("__pycache__" in name for name in names)


def test_a_wheel_of_the_executors_platform_can_be_shipped(tmp_path: Path) -> None:
    session: Any = Session()
    wheel = tmp_path / "ackwell-1-cp311-abi3-any.whl"
    with ZipFile(wheel, "w") as archive:
        archive.writestr("ackwell/__init__.py", "here = 1")
        archive.writestr("ackwell-1.dist-info/RECORD", "")
    with ZipFile(ship(session, wheel)) as shipped:
        assert shipped.read("shipped/ackwell/__init__.py") == b"here = 1"
        assert not any("dist-info" in name for name in shipped.namelist())
    with ZipFile(wheel, "w"):
        pass
    with pytest.raises(ValueError, match="does not contain the package ackwell"):
        ship(session, wheel)
