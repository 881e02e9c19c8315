"""Commands that run until somebody stops them."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress


async def until_stopped() -> None:
    """Wait for Ctrl-C, or for the signal with which services and containers are stopped.

    A shell lets what it runs in the background ignore Ctrl-C; with a handler of ours it is heard there, too.
    """
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        # Windows has no such handlers; Ctrl-C raises KeyboardInterrupt there.
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(each, stopped.set)
    await stopped.wait()
