"""Stands in for `ackwell` on a worker that lacks it: finds the shipped wheel, and gives way to it.

`ackwell.spark.shipping` sends this file under the name `ackwell.py`, beside the unpacked wheel.
"""

import importlib
import os
import sys

from pyspark import SparkFiles

for _root in (os.curdir, SparkFiles.getRootDirectory()):
    _folder = os.path.join(os.path.abspath(_root), "ackwell-wheel")  # noqa: PTH100, PTH118
    if os.path.isdir(os.path.join(_folder, "ackwell")):  # noqa: PTH112, PTH118
        sys.path.insert(0, _folder)
        del sys.modules[__name__]
        # Python returns what stands under the name once this file has run.
        importlib.import_module(__name__)
        break
else:
    raise ImportError("the shipped wheel of ackwell is not where Spark unpacks archives")
