"""What Python finds first in an archive that `ship` sent: it unpacks the archive and becomes the package.

A native module cannot be loaded out of a zip, and Spark puts zips of Python on the path of its workers as
they are. So `ship` puts this file where the archive's `ackwell` is looked for, and the package beside it.
The first worker of an executor unpacks it, next to the archive, and everybody imports it from there.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final
from zipfile import ZipFile

FOLDER: Final = "shipped"
"""The archive's folder that holds the package."""


def unpack(archive: Path) -> Path:
    """Unpack the archive beside itself, once for all workers, and return the folder."""
    place = archive.with_name(f"{archive.name}.unpacked")
    if not place.exists():
        scratch = Path(tempfile.mkdtemp(prefix=place.name, dir=archive.parent))
        with ZipFile(archive) as packed:
            packed.extractall(scratch)
        try:
            scratch.rename(place)
        except OSError:
            # Another worker was first.
            shutil.rmtree(scratch)
            if not place.exists():
                raise
    return place


def import_as_ackwell(package: Path) -> None:
    """Load the package in `package` as `ackwell`, in the place of this module."""
    spec = importlib.util.spec_from_file_location("ackwell", package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ackwell"] = module
    spec.loader.exec_module(module)


if __name__ == "ackwell":
    # This file is `<archive>/ackwell/__init__.py`.
    import_as_ackwell(unpack(Path(__file__).parents[1]) / FOLDER / "ackwell")
