"""Commands that run until a signal stops them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from ackwell.cli.console import out


async def until_stopped(*lines: str) -> None:
    """Install signal handlers, print `lines`, and wait for Ctrl-C or SIGTERM.

    A background process of a shell ignores Ctrl-C by default. The handler changes that.
    """
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        # Windows has no such handlers; Ctrl-C raises KeyboardInterrupt there.
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    # From here on a signal ends the work in order, so only now others may learn that it has begun.
    for line in lines:
        out.print(line)
    await stopped.wait()
