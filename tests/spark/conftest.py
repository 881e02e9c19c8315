"""One local Spark session for all tests that need one: starting it costs seconds.

With `ACKWELL_SPARK_CONNECT=1` the tests use it through Spark Connect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


collect_ignore: list[str] = []
"""Files of tests for features that the installed Spark lacks; `test_versions.py` tests their refusal."""

with suppress(ModuleNotFoundError):
    from ackwell.spark.versions import is_at_least

    if not is_at_least("4.0"):
        collect_ignore += ["test_stream.py", "test_stream_state.py", "test_connect.py", "test_sources.py"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, so that `-m "not spark"` leaves them out.

    One worker of pytest-xdist runs all that use the session, so that there is only one.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from ackwell.spark import local_session

    connect = os.environ.get("ACKWELL_SPARK_CONNECT") == "1"
    with pytest.MonkeyPatch.context() as patch:
        # Short runs gain nothing from the second compiler: a quarter of the tests' CPU.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        # Spark gives its own PYTHONPATH to the Python processes that it starts.
        patch.setenv("PYTHONPATH", str(Path(__file__).with_name("early")), prepend=os.pathsep)
        session = local_session("local[2]", conf={"spark.sql.shuffle.partitions": "4"}, connect=connect)
    yield session
    session.stop()
