"""Ten thousand connections that say little: each is held or refused, none is left in silence."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest

from ackwell.devbroker.broker import raise_open_file_limit
from ackwell.protocol import messages
from ackwell.protocol.constants import CommandType
from ackwell.protocol.frames import FrameReader, decode, encode, frame

pytest.importorskip("google.protobuf")

CONNECTIONS = 10_000
AT_ONCE = 200

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


async def fates(port: int) -> Counter[str]:
    """Connect so many times, and return what became of the connections."""
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
                assert data, "closed without a word"
            answer = decode(answers[0].command)
            if answer.type == CommandType.CONNECTED:
                found["held"] += 1
            else:
                assert "max_connections" in answer.message.message
                # The end is a reset if what the client said was not read.
                with suppress(ConnectionResetError):
                    assert await reader.read() == b""
                found["refused"] += 1

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    for each in kept:
        each.close()
    return found


@pytest.mark.proof
@pytest.mark.parametrize("most", [1_000, CONNECTIONS])
def test_ten_thousand_connections_are_held_or_refused(most: int, capsys: pytest.CaptureFixture[str]) -> None:
    raise_open_file_limit(CONNECTIONS)
    command = [sys.executable, "-c", BROKER, str(most)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        found = asyncio.run(fates(port))
        process.stdin.close()
        peak_kb = int(process.stdout.readline())
    with capsys.disabled():
        print(f"\n{most:,} allowed: {dict(found)}, {peak_kb / 1024:.0f} MB")
    assert found == Counter(held=most, refused=CONNECTIONS - most)
