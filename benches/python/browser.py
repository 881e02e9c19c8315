"""A headless Chromium that measures how long a page takes to open, over its DevTools port."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from tornado.websocket import WebSocketClientConnection, websocket_connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Two frames after the condition holds, its effect has been painted.
OPENED = """
new Promise(done => {
  const look = () => %s
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
    : setTimeout(look, 5);
  look();
})
"""


@contextmanager
def running(profile: Path) -> Iterator[int]:
    """Start a browser with a new profile; return the port it listens to on 127.0.0.1."""
    assert BROWSER
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
    options += ["--disable-background-networking", "--disable-component-update"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-port=0"]
    with subprocess.Popen(
        [BROWSER, *options, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            told = profile / "DevToolsActivePort"
            while not (told.exists() and "\n" in told.read_text()):
                time.sleep(0.02)
            yield int(told.read_text().split()[0])
        finally:
            process.terminate()


def milliseconds_to_open(port: int, page: Path, condition: str) -> float:
    """Open `page`; return the milliseconds from the navigation until `condition` holds and is painted."""
    return asyncio.run(_open(port, page, condition))


async def _open(port: int, page: Path, condition: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
        tab = next(each for each in json.load(answer) if each["type"] == "page")
    connection = await websocket_connect(tab["webSocketDebuggerUrl"], max_message_size=1 << 26)
    await _ask(connection, 1, "Page.navigate", url=page.as_uri())
    found = await _ask(
        connection,
        2,
        "Runtime.evaluate",
        expression=OPENED % condition,
        awaitPromise=True,
        returnByValue=True,
    )
    connection.close()
    return float(found["result"]["value"])


async def _ask(
    connection: WebSocketClientConnection, number: int, method: str, **params: Any
) -> dict[str, Any]:
    await connection.write_message(json.dumps({"id": number, "method": method, "params": params}))
    while True:
        message = await connection.read_message()
        assert message is not None, "the browser went away"
        answer = json.loads(message)
        if answer.get("id") == number:
            assert "result" in answer, answer
            return dict(answer["result"])
