"""Optional packages, and the extras of ackwell that install them."""

from __future__ import annotations

from importlib import import_module
from typing import Final

EXTRAS: Final = {
    "bokeh": "report",
    "google": "devbroker",
    "jinja2": "report",
    "jwt": "devbroker",
    "mcp": "mcp",
    "oauthlib": "auth",
    "pandas": "spark",
    "pulsar": "pulsar",
    "pyarrow": "parquet",
    "pyspark": "spark",
    "yaml": "auth",
}
"""Top-level package → the extra that installs it. `google` belongs to protobuf, `jwt` to PyJWT, `yaml` to
PyYAML."""


def require(module: str, purpose: str) -> None:
    """Import a module, or raise `ModuleNotFoundError` with the command that installs it.

    `purpose` is the start of the message.

    >>> require("json", "reading JSON")
    """
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{purpose} needs {missing(error)}", name=error.name) from None


def missing(error: ModuleNotFoundError) -> str:
    """Return the name of the missing package and the command that installs it, as the end of a sentence.

    >>> missing(ModuleNotFoundError("No module named 'pyspark'", name="pyspark"))
    "pyspark; pip install 'ackwell[spark]'"
    """
    package = (error.name or str(error)).partition(".")[0]
    extra = EXTRAS.get(package)
    shown = {"google": "protobuf", "jwt": "PyJWT", "yaml": "PyYAML"}.get(package, package)
    return f"{shown}; pip install {shown if extra is None else repr(f'ackwell[{extra}]')}"
