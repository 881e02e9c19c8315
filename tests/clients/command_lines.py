"""Usual command lines of `pulsar-admin` and `pulsar-client` on the dev broker: `make lab-test-command-lines`.

    python -m tests.clients.command_lines CLASSPATH [ADMIN_URL SERVICE_URL]

CLASSPATH is a file with the class path of the jar `pulsar-client-tools`. With the addresses of a real broker,
all lines run there, too, and each line whose exit code or shape of output differs is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ackwell.devbroker import Broker
from tests.admin_answers.shapes import shape

FOLDER = Path(__file__).parent
LINES = FOLDER / "command_lines.txt"

REFUSED = ("pulsar-admin schemas get persistent://acme/live/orders",)
"""The lines that fail on every broker: the topic has no schema."""


def run(classpath: str, admin_url: str, service_url: str) -> dict[str, tuple[int, str]]:
    """Run all lines on a broker; return the exit code and the output of each."""
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder, "client.conf")
        conf.write_text(f"webServiceUrl={admin_url}\nbrokerServiceUrl={service_url}\n", encoding="ascii")
        command = [
            "java",
            "-cp",
            classpath,
            str(FOLDER / "java" / "CommandLines.java"),
            str(conf),
            str(LINES),
        ]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, tuple[int, str]] = {}
    line = ""
    for text in printed.splitlines():
        if text.startswith("| "):
            code, output = found[line]
            found[line] = code, f"{output}{text[2:]}\n"
        elif "\t" in text:
            code_, line = text.split("\t", 1)
            found[line] = int(code_), ""
    return found


def described(output: str) -> Any:
    """Return the shape of an output that is JSON; of another one whether there is any."""
    try:
        return shape(json.loads(output))
    except ValueError:
        return bool(output.strip())


def main(classpath: Path, *real: str) -> int:
    """Run the lines, print those that fail or differ, and return their number."""
    jars = classpath.read_text(encoding="utf-8").strip()
    with Broker() as broker:
        ours = run(jars, broker.admin_url, broker.url)
        broker.validate()
    failed = [line for line, (code, _) in ours.items() if (code != 0) is not (line in REFUSED)]
    print(*(f"failed: {line}\n{ours[line][1]}" for line in failed), sep="\n")
    if real:
        theirs = run(jars, *real)
        for line, (code, output) in theirs.items():
            if (code, described(output)) != (ours[line][0], described(ours[line][1])):
                print(f"differs: {line}: {ours[line][0]} instead of {code}")
    print(f"{len(ours) - len(failed)} of {len(ours)} command lines")
    return len(failed)


if __name__ == "__main__":
    if not any(sys.argv[1:]):
        print("skipped: pass a file with the class path of the jar pulsar-client-tools")
        sys.exit(0)
    sys.exit(min(main(Path(sys.argv[1]), *sys.argv[2:]), 1))
