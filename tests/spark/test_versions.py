"""A feature that needs a newer Spark is refused with a sentence; the other versions are tested in `lab`."""

from __future__ import annotations

import subprocess
import sys

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ackwell.spark.versions import SparkVersionError, is_at_least, require_spark, spark_errors


@pytest.mark.parametrize(
    ("installed", "at_least", "older"),
    [
        ("3.5.0", ["3.4", "3.5"], ["3.6", "4.0"]),
        ("4.0.5", ["3.5", "4.0"], ["4.1", "5.0"]),
        ("4.10.0.dev1", ["4.2", "4.10"], ["4.11"]),
    ],
)
def test_versions_are_compared_by_number(
    monkeypatch: pytest.MonkeyPatch, installed: str, at_least: list[str], older: list[str]
) -> None:
    monkeypatch.setattr(pyspark, "__version__", installed)
    assert all(map(is_at_least, at_least))
    assert not any(map(is_at_least, older))
    require_spark(at_least[-1], "a feature", "do this")
    with pytest.raises(SparkVersionError) as caught:
        require_spark(older[0], "a feature", "do this")
    expected = f"a feature needs Spark {older[0]} or newer, and this is {installed}: do this"
    assert str(caught.value) == expected


PROGRAM = """
import pyspark
pyspark.__version__ = {version!r}
from ackwell.spark import {name}
{call}
"""


@pytest.mark.parametrize(
    ("version", "name", "call", "sentence"),
    [
        ("3.5.9", "cursor_stream", "", "a stream of cursors needs Spark 4.0 or newer, and this is 3.5.9"),
        ("3.5.9", "register", "register(None)", "a data source in Python needs Spark 4.0 or newer"),
    ],
)
def test_a_feature_of_a_newer_spark_is_refused(version: str, name: str, call: str, sentence: str) -> None:
    program = PROGRAM.format(version=version, name=name, call=call)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"SparkVersionError: {sentence}" in done.stderr


def test_the_errors_of_spark_contain_those_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    assert spark_errors() == (PySparkException, Py4JJavaError)
    monkeypatch.setattr(pyspark, "__version__", "4.0.0")
    assert spark_errors() == (PySparkException,)
