"""A port of 127.0.0.1 on which a test answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def listening(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Call `talk` with each connection in a new thread; yield the address for a client."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(client,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"pulsar://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        # A shutdown wakes a thread that waits in accept(); a close does not.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
