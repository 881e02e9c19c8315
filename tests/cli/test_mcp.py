"""`ackwell mcp` with the client of the protocol's own SDK: in this process, and over a real pipe."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("mcp", reason="needs the extra [mcp]")

from mcp import Client, StdioServerParameters

from ackwell import PositionInfo
from ackwell.broker.codes import codes
from ackwell.cli.mcp_command import Tools, server
from ackwell.cluster.admin import Admin
from ackwell.cluster.endpoint import Endpoint
from tests.broker.answers import answer, holes
from tests.cluster.fake_admin import broker, served
from tests.commands import command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = {"doctor", "holes", "what_if", "inspect", "explain"}


def call(target: Any, name: str, **arguments: Any) -> Any:
    """Call one tool; return its structured result, or the text of its error."""
    return calls(target, [(name, arguments)])[0]


def calls(target: Any, wanted: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
    async def run() -> list[Any]:
        async with Client(target) as client:
            found = []
            for name, arguments in wanted:
                result = await client.call_tool(name, dict(arguments))
                text = "".join(getattr(each, "text", "") for each in result.content)
                found.append(text if result.is_error else result.structured_content)
            return found

    return asyncio.run(run())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "stats.json").write_text(json.dumps(answer(holes(500))))
    (folder / "cursor.bin").write_bytes(PositionInfo(3, 5, [(3, 6, 8)]).encode("pulsar-ranges"))
    (tmp_path / "secret.json").write_text(json.dumps(answer(holes(1))))
    return folder


def test_the_tools_only_read_and_are_described() -> None:
    async def run() -> Any:
        async with Client(server(Tools(None, Path()))) as client:
            return (await client.list_tools()).tools

    found = asyncio.run(run())
    assert {each.name for each in found} == NAMES
    for each in found:
        assert each.annotations.read_only_hint is True
        assert len(each.description) > 40
        assert "token" not in json.dumps(each.input_schema)


def test_each_tool_answers_as_its_command(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    tools = server(Tools(None, root))
    stats = str(root / "stats.json")
    found = call(tools, "doctor", sources=["stats.json"], broker_settings=["defaults"])
    wanted = json.loads(command("doctor", "--format", "json", "--broker-setting", "defaults", stats)[1])
    assert found["subscriptions"] == wanted["subscriptions"]
    assert found["omittedSubscriptions"] == 0
    found = call(tools, "holes", sources=["."])
    assert found["subscriptions"] == json.loads(command("holes", "--format", "json", root)[1])
    found = call(tools, "what_if", move="skip", source="stats.json", subscription="sub", entries=5)
    wanted = json.loads(command("what-if", "skip", "--entries", "5", "--format", "json", stats, "sub")[1])
    assert found == wanted
    (state,) = call(tools, "inspect", files=["cursor.bin"])["states"]
    assert state["individuallyDeletedMessages"] == "[(3:6..3:8]]"
    found = call(tools, "explain", code="settings-assumed")
    assert found["text"] == codes()["settings-assumed"].what


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("doctor", {"sources": ["../secret.json"]}, "not in the folder of --root"),
        ("inspect", {"files": ["/etc/passwd"]}, "not in the folder of --root"),
        ("holes", {"sources": ["gone.json"]}, "gone.json"),
        ("what_if", {"move": "jump", "source": "stats.json", "subscription": "sub"}, "is not one of seek"),
        ("what_if", {"move": "seek", "source": "stats.json", "subscription": "sub"}, "seek needs --to"),
        (
            "what_if",
            {"move": "skip", "source": "stats.json", "subscription": "x"},
            "0 subscriptions are called",
        ),
        ("inspect", {"files": ["stats.json"]}, "`ackwell doctor` reads it"),
        ("explain", {"code": "no-reason"}, "no code is called 'no-reason'"),
    ],
)
def test_an_error_is_a_text_for_the_assistant(
    name: str, arguments: dict[str, Any], said: str, root: Path
) -> None:
    found = call(server(Tools(None, root)), name, **arguments)
    assert said in (found if isinstance(found, str) else json.dumps(found))


def test_a_long_list_is_cut_and_says_so(root: Path) -> None:
    many = {f"persistent://a/b/t{n}": answer(holes(2))["internalStats"] for n in range(7)}
    (root / "many.json").write_text(json.dumps(many))
    tools = server(Tools(None, root))
    for name in ("doctor", "holes"):
        found = call(tools, name, sources=["many.json"], most=3)
        assert (len(found["subscriptions"]), found["omittedSubscriptions"]) == (3, 4)


@pytest.mark.slow
def test_a_real_client_over_a_pipe_and_the_token_stays_in_the_process(root: Path) -> None:
    (root / "token").write_text("secret-token")
    with broker(served()) as (url, asked):
        arguments = ["-m", "ackwell", "mcp", "--admin", url, "--token-file", str(root / "token")]
        environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        started = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=root)
        found, explained = calls(
            started, [("doctor", {"sources": ["shop/eu"]}), ("explain", {"code": "no-permits"})]
        )
    assert {method for method, _, _ in asked} == {"GET"}
    assert {credentials for _, _, credentials in asked} == {"Bearer secret-token"}
    (subscription,) = found["subscriptions"]
    assert subscription["topic"] == "persistent://shop/eu/orders"
    assert explained["verdict"] == "waiting"
    assert "secret-token" not in json.dumps([found, explained])


def test_a_broker_is_asked_for_topics_and_no_file_is_read(root: Path) -> None:
    with broker(served()) as (url, _):
        tools = server(Tools(Admin(Endpoint(url=url)), root))
        found = call(tools, "holes", sources=["shop/eu/orders"])
        missing = call(tools, "doctor", sources=["shop/eu/gone"])
    assert found["subscriptions"][0]["topic"] == "persistent://shop/eu/orders"
    assert missing["unread"]
