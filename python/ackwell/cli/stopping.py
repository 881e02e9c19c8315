"""Wait for the signal that stops a command."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from ackwell.cli.console import out


async def until_stopped(*lines: str) -> None:
    """Install signal handlers, print `lines`, and wait for Ctrl-C or SIGTERM.

    A shell makes its background processes ignore SIGINT, the signal of Ctrl-C. With the handler, SIGINT also
    stops such a process.
    """
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        # On Windows, asyncio has no signal handlers, and Ctrl-C raises KeyboardInterrupt.
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    # Other programs may wait for these lines, and then send a signal. So print them only now: from here on, a
    # signal ends the command in order.
    for line in lines:
        out.print(line)
    await stopped.wait()
