"""Connect a Python worker to Spark before it imports anything.

Spark waits 10 seconds until the Python process of a stream has connected and sent its secret, and no setting
changes that. The process first imports pandas, PyArrow and gRPC, which takes longer on a loaded machine.
Python imports this module when it starts, so the secret arrives in time. The worker itself connects to a
relay in its own process.
"""

import atexit
import os
import socket
import struct
import threading


def relay(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one side closes."""
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


connected: list[socket.socket] = []
"""The relay's side of the worker's connection."""


def serve(listener: socket.socket, spark: socket.socket) -> None:
    """Accept the worker; it gets the bytes of Spark, the first of which accept the secret."""
    worker, _ = listener.accept()
    connected.append(worker)
    (length,) = struct.unpack(">i", worker.recv(4, socket.MSG_WAITALL))
    worker.recv(length, socket.MSG_WAITALL)
    threading.Thread(target=relay, args=(spark, worker), daemon=True).start()
    relay(worker, spark)


def drain(serving: threading.Thread) -> None:
    """Pass on the last bytes of a worker that ends without closing its connection."""
    for worker in connected:
        worker.shutdown(socket.SHUT_RD)
        serving.join(timeout=10)


port, secret = (os.environ.get(f"PYTHON_WORKER_FACTORY_{name}") for name in ("PORT", "SECRET"))
if port and secret:
    to_spark = socket.create_connection(("127.0.0.1", int(port)))
    to_spark.sendall(struct.pack(">i", len(secret)) + secret.encode())
    accepting = socket.create_server(("127.0.0.1", 0))
    os.environ["PYTHON_WORKER_FACTORY_PORT"] = str(accepting.getsockname()[1])
    thread = threading.Thread(target=serve, args=(accepting, to_spark), daemon=True)
    thread.start()
    atexit.register(drain, thread)
