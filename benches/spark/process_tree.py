"""CPU time and memory of this process and its descendants: driver, JVM and Python workers."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree() -> list[int]:
    """Return the process ids of this process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [os.getpid()]
    while queue:
        found.append(queue.pop())
        queue += children.get(found[-1], [])
    return found


def cpu_seconds() -> float:
    """Return the user and system time of this process and its descendants, including ended ones."""
    return sum(sum(map(int, fields[11:15])) for pid in tree() if (fields := _stat(pid))) / _TICKS


def worker_peak_mb() -> float:
    """Return the peak resident memory of the largest Python worker, in MB."""
    return max((_peak_mb(pid) for pid in tree()[1:] if _is_worker(pid)), default=0.0)


def _is_worker(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2].startswith(b"pyspark.")
    except (OSError, IndexError):
        return False


def _peak_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0")
    return int(line.split()[1]) / 1024


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()
