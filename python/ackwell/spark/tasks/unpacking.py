"""The file `ackwell/__init__.py` in an archive of `ship`. It unpacks the archive and loads the package.

Python cannot load a native module from a zip file, and Spark adds zip files to the path of its workers
without unpacking them. So this file is the package `ackwell` in the archive, and the real package is in
another folder of the archive. The first worker of an executor unpacks the archive into a folder next to the
archive. All workers import the package from that folder.
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
"""The folder of the archive that contains the real package."""


def unpack(archive: Path) -> Path:
    """Unpack the archive into a folder next to it, unless another worker did; return the folder."""
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
    """Load the package in the folder `package` as the module `ackwell`, which replaces this file."""
    spec = importlib.util.spec_from_file_location("ackwell", package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ackwell"] = module
    spec.loader.exec_module(module)


if __name__ == "ackwell":
    # This file is `<archive>/ackwell/__init__.py`.
    import_as_ackwell(unpack(Path(__file__).parents[1]) / FOLDER / "ackwell")
