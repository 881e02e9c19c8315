"""The baseline of scalar methods: a native call that does nothing (`benches/bare`)."""

from __future__ import annotations

import json
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from subprocess import run
from typing import Any

from benches.bars.sides import ROOT


def bare_call() -> Any:
    """Build and load the module that does nothing."""
    build = ["cargo", "build", "--release", "--quiet", "--locked", "-p", "ackwell-bare-call"]
    messages = run([*build, "--message-format", "json"], cwd=ROOT, capture_output=True, text=True, check=True)
    library = _library(messages.stdout)
    loader = ExtensionFileLoader("bare_call", library)
    spec = spec_from_file_location("bare_call", library, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module.Bare()


def _library(messages: str) -> str:
    """Return the path of the library that cargo has built, from the JSON lines that cargo printed."""
    for line in messages.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["target"]["name"] == "bare_call":
            file: str = message["filenames"][0]
            return file
    raise RuntimeError("cargo built no bare_call")
