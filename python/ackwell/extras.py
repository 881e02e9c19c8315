"""The packages that only some rooms need, and the extra of ackwell that brings each."""

from __future__ import annotations

from importlib import import_module
from typing import Final

EXTRAS: Final = {
    "bokeh": "report",
    "google": "devbroker",
    "jinja2": "report",
    "pandas": "spark",
    "pulsar": "pulsar",
    "pyarrow": "parquet",
    "pyspark": "spark",
}
"""The extra of each top-level package; `google` is protobuf's."""


def require(module: str, purpose: str) -> None:
    """Import a module, or raise `ModuleNotFoundError` with a sentence that says what to install.

    >>> require("json", "reading JSON")
    """
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{purpose} needs {missing(error)}", name=error.name) from None


def missing(error: ModuleNotFoundError) -> str:
    """Return what is missing, and how to install it, as the end of a sentence.

    >>> missing(ModuleNotFoundError("No module named 'pyspark'", name="pyspark"))
    "pyspark; pip install 'ackwell[spark]'"
    """
    package = (error.name or str(error)).partition(".")[0]
    extra = EXTRAS.get(package)
    shown = "protobuf" if package == "google" else package
    return f"{shown}; pip install {shown if extra is None else repr(f'ackwell[{extra}]')}"
