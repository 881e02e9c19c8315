"""The test suite of the Rust client pulsar-rs against the dev broker: `make lab-test-rust-client SUITE=…`.

    python -m tests.clients.rust_suite SUITE [cargo test arguments]

SUITE is a writable copy of the crate `pulsar`; its build needs `protoc`. The suite connects to the default
ports 6650 and 8080 of this machine, so no other broker may use them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ackwell.devbroker import Broker


def run(suite: Path, arguments: list[str]) -> int:
    """Run the suite, and return the exit code of cargo."""
    with Broker(port=6650, admin_port=8080):
        command = ["cargo", "test", "--lib", *arguments, "--", "--test-threads=1"]
        return subprocess.run(command, cwd=suite, check=False).returncode


if __name__ == "__main__":
    if not any(sys.argv[1:]) or not Path(sys.argv[1], "Cargo.toml").exists():
        print("skipped: no suite; pass a copy of the crate pulsar")
        sys.exit(0)
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
