"""Write THIRD-PARTY.md: the crates that are linked into the wheel, and the texts of their licences."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HEAD = """# Third-party notices

The native module of a wheel contains the crates below, and Rust's standard library (MIT OR Apache-2.0).
`make lab-lock` writes this file from `Cargo.lock`.
"""


def linked_crates() -> list[dict[str, Any]]:
    """Return the packages of the binding's normal dependencies, on every platform."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    todo = [name for name, package in packages.items() if package["name"] == "ackwell-python"]
    found = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    crates = [packages[name] for name in found if packages[name]["source"]]
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def notices() -> str:
    """Return the whole file."""
    crates = linked_crates()
    users: defaultdict[str, list[str]] = defaultdict(list)
    for crate in crates:
        folder = Path(crate["manifest_path"]).parent
        # The C library inside zstd-sys has a licence of its own.
        for text in sorted(
            [*folder.glob("LICEN[CS]E*"), *folder.glob("COPYING*"), *folder.glob("zstd/LICENSE")]
        ):
            if text.is_file():
                lines = [line.rstrip() for line in text.read_text(errors="replace").strip().splitlines()]
                users["\n".join(lines)].append(f"{crate['name']} ({text.relative_to(folder)})")
    table = ["| crate | version | licence |", "|---|---|---|"]
    table += [f"| {crate['name']} | {crate['version']} | {crate['license']} |" for crate in crates]
    texts = [f"## {', '.join(names)}\n\n```text\n{text}\n```" for text, names in users.items()]
    return "\n".join([HEAD, *table, "", "\n\n".join(texts), ""])


if __name__ == "__main__":
    (ROOT / "THIRD-PARTY.md").write_text(notices())
