"""An address that cannot be one is a wrong command line, not a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ackwell.cli import app


@pytest.mark.parametrize(
    "options",
    [
        ("--broker", "x"),
        ("--broker", "pulsar://x:99999"),
        ("--broker", "pulsar://[::1/"),
        ("--broker", "pulsar://localhost", "--listen", "127.0.0.1:99999"),
    ],
)
def test_a_recorder_of_an_address_that_is_none_is_a_wrong_command_line(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    result = CliRunner().invoke(app, ["record", *options, "-o", str(tmp_path / "events")])
    assert result.exit_code == 2, result.output
    assert options[-2] in result.output
    assert not list(tmp_path.iterdir())


def test_a_dev_broker_on_a_port_that_is_none_is_a_wrong_command_line() -> None:
    assert CliRunner().invoke(app, ["dev-broker", "--port", "99999"]).exit_code == 2


@pytest.mark.parametrize("data", [b"", b" \n", b"\xff\xfeS\0E\0", b"SECRET\nSECRET"])
@pytest.mark.parametrize("command", ["doctor", "holes"])
def test_a_file_without_a_token_is_a_wrong_command_line_that_quotes_nothing(
    command: str, data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "token").write_bytes(data)
    options = ["--admin", "http://127.0.0.1:1", "--token-file", str(tmp_path / "token")]
    result = CliRunner().invoke(app, [command, *options])
    assert result.exit_code == 2, result.output
    assert "token" in result.output
    assert "SECRET" not in result.output


@pytest.mark.parametrize("reach", ["a", "a=", "=b:1", "a:x=b:1", "a=b:x", "a=b/c", "a=b:0"])
def test_a_map_of_names_that_is_not_one_is_a_wrong_command_line(reach: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--admin", "http://a:1", "--reach", reach])
    assert result.exit_code == 2
    assert "expected OWNER=HOST:PORT" in result.output
