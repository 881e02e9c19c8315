"""Thousands of idle connections: the broker accepts or refuses each of them.

`make test` opens 2,000 connections; the claim for 10,000 rests on `make proof`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest

from ackwell.devbroker.async_broker import raise_open_file_limit
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import FrameReader, decode, encode, frame

pytest.importorskip("google.protobuf")

AT_ONCE = 200
"""Connections that are opened at the same time."""

BROKER = """
import sys, asyncio
from ackwell.devbroker import AsyncBroker, DevBrokerSettings
async def run():
    async with AsyncBroker(settings=DevBrokerSettings(max_connections=int(sys.argv[1]))) as broker:
        print(broker.url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        print(max(map(int, (line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line))))
asyncio.run(run())
"""


async def open_connections(port: int, count: int) -> Counter[str]:
    """Open connections, and count the accepted and the refused ones."""
    found: Counter[str] = Counter()
    kept: list[asyncio.StreamWriter] = []
    turn = asyncio.Semaphore(AT_ONCE)
    hello = messages.CommandConnect(client_version="test", protocol_version=21)

    async def one() -> None:
        async with turn:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            kept.append(writer)
            writer.write(frame(encode(CommandType.CONNECT, hello)))
            frames = FrameReader()
            while not (answers := list(frames.feed(data := await reader.read(1 << 16)))):
                assert data, "closed without an answer"
            answer = decode(answers[0].command)
            if answer.type == CommandType.CONNECTED:
                found["accepted"] += 1
            else:
                assert "max_connections" in answer.message.message
                # If the broker did not read the client's bytes, the connection ends with a reset.
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
                found["refused"] += 1

    await asyncio.gather(*(one() for _ in range(count)))
    for each in kept:
        each.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "most"),
    [
        (2_000, 200),
        (2_000, 2_000),
        pytest.param(10_000, 1_000, marks=pytest.mark.proof),
        pytest.param(10_000, 10_000, marks=pytest.mark.proof),
    ],
)
def test_each_idle_connection_is_accepted_or_refused(
    count: int, most: int, capsys: pytest.CaptureFixture[str]
) -> None:
    raise_open_file_limit(count)
    command = [sys.executable, "-c", BROKER, str(most)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        found = asyncio.run(open_connections(port, count))
        process.stdin.close()
        peak_kb = int(process.stdout.readline())
    with capsys.disabled():
        print(f"\n{most:,} allowed: {dict(found)}, {peak_kb / 1024:.0f} MB")
    assert found == Counter(accepted=most, refused=count - most)
