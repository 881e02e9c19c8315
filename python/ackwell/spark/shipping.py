"""Bring ackwell to executors that do not have it: its native module cannot travel as a .py or .zip.

A wheel is unpacked by Spark itself when it is added as an archive, on a cluster and through Spark
Connect; a file `ackwell.py` beside it (`shipped`) is what the workers find first, and leads them there.
Where the cluster's image or its
environment archive has ackwell, nothing needs to be shipped.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "ackwell-wheel"
"""What the archive is called where the workers run; `shipped` looks for it."""


def ship(spark: SparkSession, wheel: str | Path) -> None:
    """Send a wheel of ackwell (`make wheel`) to the executors.

    The wheel's platform must be the workers'. NumPy, pandas and PyArrow must be there already.
    """
    path = Path(wheel)
    if path.suffix != ".whl" or not path.is_file():
        raise FileNotFoundError(f"{path}: no wheel; build one with `make wheel`")
    folder = Path(tempfile.mkdtemp(prefix="ackwell-ship-"))
    # Spark unpacks by the name's ending, which .whl is none of.
    archive = folder / "ackwell.zip"
    shutil.copyfile(path, archive)
    leader = folder / "ackwell.py"
    shutil.copyfile(Path(__file__).with_name("shipped.py"), leader)
    spark.addArtifact(f"{archive}#{FOLDER}", archive=True)
    spark.addArtifact(str(leader), pyfile=True)
