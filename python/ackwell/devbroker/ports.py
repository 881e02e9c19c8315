"""Ports that accept connections of one protocol, with or without TLS."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

ACCEPTING_STEPS: Final = 5
"""The number of event-loop iterations after which every accepted connection has a protocol object."""


class Ports:
    """The open ports of one protocol. `make` creates the `asyncio` protocol object for a new connection."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._make = make
        self._servers: list[asyncio.Server] = []

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen on a port and return its number. For port 0, the system selects a free port."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make, host, port, ssl=tls, reuse_address=True)
        self._servers.append(server)
        taken: int = server.sockets[0].getsockname()[1]
        return taken

    def close(self) -> None:
        """Stop listening at once."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def stop_accepting(self) -> None:
        """Accept no further connections. Wait until all accepted connections have a protocol object.

        Without this wait, a connection that has no protocol object yet would stay open after the server is
        closed.
        """
        loop = asyncio.get_running_loop()
        for each in [each for server in self._servers for each in server.sockets]:
            with suppress(NotImplementedError):
                loop.remove_reader(each.fileno())
        for _ in range(ACCEPTING_STEPS):
            await asyncio.sleep(0)

    async def wait_closed(self) -> None:
        """Stop listening, and wait until every connection is closed."""
        servers = list(self._servers)
        self.close()
        for server in servers:
            await server.wait_closed()
