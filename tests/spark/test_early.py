"""The connection that `early/sitecustomize.py` opens for a Python worker of Spark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

SECRET = b"\x00\x00\x00\x06secret"
OK = b"\x00\x00\x00\x02ok"
WORKER = """
import os, socket, sys
sys.stdin.readline()
spark = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
spark.sendall(b"\\x00\\x00\\x00\\x06secret")
assert spark.recv(6, socket.MSG_WAITALL) == b"\\x00\\x00\\x00\\x02ok"
spark.sendall(b"ready" * 100_000)
print(spark.recv(4, socket.MSG_WAITALL).decode())
spark.sendall(b"done")
"""


def test_the_secret_arrives_before_the_worker_connects_and_all_bytes_pass() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        environment = os.environ | {
            "PYTHONPATH": str(Path(__file__).with_name("early")),
            "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        command = [sys.executable, "-c", WORKER]
        with subprocess.Popen(
            command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as worker:
            spark, _ = server.accept()
            with spark:
                # The worker itself still waits for its input here.
                assert spark.recv(len(SECRET), socket.MSG_WAITALL) == SECRET
                spark.sendall(OK)
                assert worker.stdin is not None
                worker.stdin.write("go\n")
                worker.stdin.flush()
                assert spark.recv(500_000, socket.MSG_WAITALL) == b"ready" * 100_000
                spark.sendall(b"task")
                assert spark.recv(4, socket.MSG_WAITALL) == b"done"
                assert spark.recv(1) == b""
            assert worker.communicate()[0] == "task\n"
        assert worker.returncode == 0
