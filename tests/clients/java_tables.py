"""Usual command lines and calls of PulsarAdmin on the dev broker: `make lab-test-command-lines`.

    python -m tests.clients.java_tables TABLE CLASSPATH [ADMIN_URL SERVICE_URL]

TABLE is `command_lines` for `pulsar-admin` and `pulsar-client`, or `admin_calls` for the Java class
PulsarAdmin. Each line of it begins with the exit code or HTTP status that Pulsar 4.2.4 gives, 0 for success.
CLASSPATH is a file with the class path of the jar `pulsar-client-tools`. With the addresses of a real broker,
all lines run there, too, and each line whose code or shape of output differs is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

from ackwell.devbroker import Broker
from tests.admin_answers.shapes import shape

FOLDER: Final = Path(__file__).parent
PROGRAMS: Final = {"command_lines": "CommandLines.java", "admin_calls": "AdminCalls.java"}


class Done(NamedTuple):
    """One line of a table, with its result."""

    line: str
    code: int
    output: str


def run(table: str, classpath: str, admin_url: str, service_url: str) -> list[Done]:
    """Run all lines of a table on a broker; return the code and the output of each."""
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder, "client.conf")
        conf.write_text(f"webServiceUrl={admin_url}\nbrokerServiceUrl={service_url}\n", encoding="ascii")
        program, lines = FOLDER / "java" / PROGRAMS[table], FOLDER / f"{table}.txt"
        command = ["java", "-cp", classpath, str(program), str(conf), str(lines)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[Done] = []
    for text in printed.splitlines():
        if text.startswith("| "):
            found[-1] = found[-1]._replace(output=f"{found[-1].output}{text[2:]}\n")
        elif "\t" in text:
            code, line = text.split("\t", 1)
            found.append(Done(line, int(code), ""))
    return found


def described(output: str) -> Any:
    """Return the shape of an output that is JSON; of another one whether there is any."""
    try:
        return shape(json.loads(output))
    except ValueError:
        return bool(output.strip())


def main(table: str, classpath: Path, *real: str) -> int:
    """Run the lines, print those that fail or differ, and return the number of those that fail."""
    jars = classpath.read_text(encoding="utf-8").strip()
    with Broker() as broker:
        ours = run(table, jars, broker.admin_url, broker.url)
        broker.validate()
    failed = [each for each in ours if each.code != int(each.line.partition(" ")[0])]
    print(*(f"failed: {each.code} from {each.line}\n{each.output}" for each in failed), sep="\n")
    if real:
        for our, their in zip(ours, run(table, jars, *real), strict=True):
            if (our.code, described(our.output)) != (their.code, described(their.output)):
                print(f"differs: {our.line}: {our.code} instead of {their.code}")
    print(f"{len(ours) - len(failed)} of {len(ours)} lines")
    return len(failed)


if __name__ == "__main__":
    if not all(sys.argv[1:3]) or len(sys.argv) < 3:
        print("skipped: pass a file with the class path of the jar pulsar-client-tools")
        sys.exit(0)
    sys.exit(min(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]), 1))
