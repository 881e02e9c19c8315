"""Send the package ackwell to executors whose Python does not have it."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import ackwell
from ackwell.spark.tasks import unpacking as tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LEFT_OUT: Final = ("__pycache__", ".pyi")


def ship(spark: SparkSession, wheel: str | Path | None = None) -> Path:
    """Send ackwell to the executors of a session. Call it before the first query that needs ackwell.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    wheel
        An ackwell wheel for the executors' platform. None sends the running package, which works on executors
        with the same operating system and processor.

    Returns
    -------
    Path
        The archive that was sent. Spark treats it as a Python file (`--py-files` accepts it, too). It unpacks
        itself in the working folder of each executor. The archive is deleted when this process ends.

    The executors need Python 3.11 or later, NumPy, PyArrow and pandas. Spark's Arrow functions use the last
    two. If ackwell is installed on the executors, they use the shipped package instead.
    """
    archive = pack(_of_wheel(Path(wheel)) if wheel else _of_package(Path(ackwell.__file__).parent))
    try:
        spark.addArtifacts(str(archive), pyfile=True)
    except RuntimeError:
        # Spark 3.5 has `addArtifacts` for Connect only.
        spark.sparkContext.addPyFile(str(archive))
    return archive


def pack(files: Iterator[tuple[str, bytes]]) -> Path:
    """Write the archive from pairs of name and content, and return its path.

    The same files give the same bytes and the same name.
    """
    folder = Path(tempfile.mkdtemp(prefix="ackwell-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    scratch = folder / "scratch"
    with ZipFile(scratch, "w", ZIP_DEFLATED) as archive:
        archive.writestr(ZipInfo("ackwell/__init__.py"), Path(tasks.__file__).read_bytes())
        for name, content in files:
            archive.writestr(ZipInfo(f"{tasks.FOLDER}/{name}"), content, ZIP_DEFLATED)
    # A session stores only one file under a name, so an archive with other content needs another name.
    digest = hashlib.sha256(scratch.read_bytes()).hexdigest()[:12]
    return scratch.rename(folder / f"ackwell-{digest}.zip")


def _of_package(package: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(package.rglob("*")):
        if path.is_file() and not any(part.endswith(_LEFT_OUT) for part in path.parts):
            yield path.relative_to(package.parent).as_posix(), path.read_bytes()


def _of_wheel(wheel: Path) -> Iterator[tuple[str, bytes]]:
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("ackwell/")]
        if not names:
            raise ValueError(f"{wheel} does not contain the package ackwell")
        for name in names:
            yield name, archive.read(name)
