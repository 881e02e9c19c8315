"""The installed version of Spark, and the error for features that need a newer version."""

from __future__ import annotations

import re

import pyspark

from ackwell.errors import AckwellError


class SparkVersionError(AckwellError):
    """A feature needs a newer version of Spark than the installed one."""


def is_at_least(version: str) -> bool:
    """Return whether the installed PySpark has at least this version, such as `4.0`."""
    return _numbers(pyspark.__version__) >= _numbers(version)


def require_spark(version: str, feature: str, remedy: str) -> None:
    """Raise `SparkVersionError` if the installed PySpark is older than `version`."""
    if not is_at_least(version):
        raise SparkVersionError(
            f"{feature} needs Spark {version} or newer, and this is {pyspark.__version__}: {remedy}"
        )


def _numbers(version: str) -> tuple[int, int]:
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def spark_errors() -> tuple[type[Exception], ...]:
    """Return the types of Spark's exceptions. In PySpark 3.5, a failed task raises an exception of Py4J."""
    from pyspark.errors import PySparkException

    if is_at_least("4.0"):
        return (PySparkException,)
    from py4j.protocol import Py4JJavaError

    return PySparkException, Py4JJavaError
