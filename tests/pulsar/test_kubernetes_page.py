"""The commands of `docs/kubernetes.md` for a rolling restart; `kubectl` restarts brokers of the kit."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pulsar")

from tests.pulsar.cluster import running_cluster
from tests.pulsar.rolling import NAMESPACE, SETTINGS, Application, admins, check_acknowledgments, use

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.pulsar.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
BEGINS = "kubectl patch"
"""The first command of the loop over the pods."""


def test_the_commands_of_the_page_redeliver_nothing(tmp_path: Path) -> None:
    section = PAGE.read_text().partition("## A planned rolling restart")[2].partition("\n## ")[0]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    first = next(number for number, line in enumerate(lines) if line.startswith(BEGINS))
    with running_cluster(tmp_path, "4.2.4", **SETTINGS) as cluster:
        cluster.brokers[0].admin("PUT", f"namespaces/{NAMESPACE}", {"bundles": {"numBundles": 8}})
        application = Application(cluster, topics=2)
        try:
            use(application, 160)
            for commands in (lines[:first], lines[first:]):
                assert sum("rescue end" in line for line in commands) == 1
                _run(commands, cluster, tmp_path)
                application.wait_until_quiet()
                assert application.again() == []
            check_acknowledgments(cluster, application, "window")
        finally:
            application.close()


def _run(commands: Sequence[str], cluster: Cluster, folder: Path) -> None:
    """Run commands of the page with the addresses of the kit."""
    restarts = {f"pod pulsar-broker-{number}": [each] for number, each in enumerate(cluster.brokers)}
    # A StatefulSet restarts the last pod first.
    restarts["rollout restart"] = cluster.brokers[::-1]
    cases = [
        f"*{shlex.quote(words)}*) {'; '.join(each.restart_command for each in brokers)};;"
        for words, brokers in restarts.items()
    ]
    program = f'{shlex.quote(sys.executable)} -m ackwell "$@"'
    kubectl = 'case "$*" in wait*|*status*) ;; ' + " ".join(cases) + " esac"
    script = "\n".join(commands).replace("/state/", f"{folder}/")
    script = script.replace("pulsar-broker-$pod.pulsar-broker:8080", "127.0.0.1:${PORTS[pod]}")
    ports = " ".join(str(each.ports.admin) for each in cluster.brokers)
    functions = f"ackwell() {{ {program}; }}\nkubectl() {{ {kubectl}; }}"
    whole = f"set -e\n{functions}\nPORTS=({ports})\nADMIN={admins(cluster)}\n{script}\n"
    log = folder / "page.log"
    with log.open("w") as sink:
        done = subprocess.run(
            ["bash", "-c", whole], cwd=folder, env=os.environ, stdout=sink, stderr=sink, check=False
        )
    assert done.returncode == 0, log.read_text()
