"""Credentials on the command line: from files of Pulsar's tools, renewed in time, and never shown."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.fake_admin import broker, guarded, served
from tests.cluster.fake_issuer import SECRET, TOKEN, issuer, key_file
from tests.commands import ackwell

TOPIC = "persistent://shop/eu/orders"
PASSWORD = "pAsS-SeCrEt"
COMMANDS = (
    ("doctor", TOPIC, "--fail-on", "never"),
    ("collect", "-o", "stats", TOPIC),
    ("holes", TOPIC),
    ("what-if", "skip", TOPIC, "sub", "--entries", "1"),
    ("diff", "before.json", "--subscription", "sub"),
    ("rescue", "snapshot", TOPIC, "sub", "-o", "snapshot.json"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, which is the home directory, without credentials in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PULSAR_TOKEN", "PULSAR_CLIENT_CONF"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def url() -> Iterator[str]:
    """Return the address of a broker that accepts a password and the token `first`."""
    accepted = ("Basic b3BzOnBBc1MtU2VDckV0", "Bearer first")
    with broker(guarded(served(), accepted.__contains__)) as (made, _):
        yield made


def conf(**values: str) -> str:
    file = Path("client.conf")
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(file)


def basic(url: str) -> str:
    parameters = json.dumps({"userId": "ops", "password": PASSWORD})
    return conf(webServiceUrl=url, authPlugin="AuthenticationBasic", authParams=parameters)


def oauth2(url: str, issuer_url: str) -> str:
    parameters = {"issuerUrl": f"{issuer_url}/realm", "privateKey": str(Path("key.json").absolute())}
    return conf(webServiceUrl=url, authPlugin="AuthenticationOAuth2", authParams=json.dumps(parameters))


def shows_no_secret(*texts: str) -> bool:
    """Return whether neither the texts nor the new files in the working directory have a secret."""
    written = (
        each.read_bytes().decode(errors="replace")
        for each in Path().rglob("*")
        if each.is_file() and each.name not in ("client.conf", "key.json", "token")
    )
    found = "".join((*texts, *written))
    return not any(secret in found for secret in (SECRET, TOKEN, PASSWORD, "b3BzOn"))


def command_lines(process: int | str) -> Iterator[str]:
    """Yield the command lines of a process and of its descendants; none without /proc."""
    with suppress(OSError):
        yield Path(f"/proc/{process}/cmdline").read_text()
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from command_lines(child)


def is_refused(*arguments: str) -> bool:
    """Return whether a command shows that a broker or an issuer refused the credentials."""
    answer = ackwell(*arguments)
    assert shows_no_secret(answer.out, answer.err)
    return "HTTP 401" in answer.out + answer.err or "no token" in answer.out + answer.err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_every_command_takes_a_client_conf(url: str, command: tuple[str, ...]) -> None:
    options = ("--client-conf", basic(url))
    ackwell("rescue", "snapshot", TOPIC, "sub", "-o", "before.json", *options)
    assert is_refused(*command, "--admin", url)
    assert not is_refused(*command, *options)


def test_the_environment_names_a_client_conf(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULSAR_CLIENT_CONF", basic(url))
    assert ackwell("collect").code == 0
    assert ackwell("rescue", "snapshot", TOPIC, "sub").code == 0
    assert ackwell("holes", TOPIC, "--admin", url).code == 0
    # A command that also reads files asks a broker only if the command line names one.
    assert ackwell("doctor", "stats", "--fail-on", "never").code == 0
    assert "give files or folders" in ackwell("doctor").err
    conf()
    assert "$PULSAR_CLIENT_CONF: no address" in " ".join(ackwell("collect").err.split())


def test_a_context_of_pulsarctl_is_named(url: str, home: Path) -> None:
    assert "No such file" in ackwell("holes", TOPIC, "--context", "prod").err
    file = home / ".config/pulsar/config"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"contexts: {{prod: {{admin-service-url: '{url}'}}}}\nauth-info: {{prod: {{token: first}}}}"
    )
    assert ackwell("holes", TOPIC, "--context", "prod").code == 0
    assert ackwell("holes", TOPIC, "--context", "none").code == 2
    assert ackwell("holes", TOPIC, "--context", "prod", "--client-conf", basic(url)).code == 2


def test_a_token_file_comes_before_a_client_conf_and_that_before_the_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--client-conf", basic(url))
    monkeypatch.setenv("PULSAR_TOKEN", "wrong")
    assert ackwell("holes", TOPIC, *options).code == 0
    Path("token").write_text("wrong")
    assert ackwell("holes", TOPIC, *options, "--token-file", "token").code != 0
    monkeypatch.setenv("PULSAR_CLIENT_CONF", "client.conf")
    assert ackwell("holes", TOPIC, "--admin", url).code != 0
    monkeypatch.delenv("PULSAR_TOKEN")
    assert ackwell("holes", TOPIC, "--admin", url).code == 0


def test_a_password_in_the_command_line_is_refused(url: str) -> None:
    answer = ackwell("holes", TOPIC, "--admin", url.replace("://", f"://ops:{PASSWORD}@"))
    assert answer.code == 2
    assert "visible in the list of processes" in " ".join(answer.err.replace("│", "").split())
    assert PASSWORD not in answer.out + answer.err


@pytest.mark.slow
def test_a_token_is_renewed_during_a_command_that_outlives_it_and_never_shown() -> None:
    with issuer(seconds=1) as made, broker(guarded(served(), made.accepts)) as (url, asked):
        key_file(Path())
        line = ("doctor", "--watch", "2", TOPIC, "--format", "json", "--client-conf", oauth2(url, made.url))
        program = [sys.executable, "-m", "ackwell", *line]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            shown = set()
            # The first token is used until `--watch` asks for the second one.
            while len(made.forms) < 2 and process.poll() is None:
                shown |= set(command_lines(process.pid))
                time.sleep(0.01)
            out, err = process.communicate()
        finally:
            process.kill()
    found = json.loads(out)
    assert (len(found["subscriptions"]), found["unread"], err) == (1, [], "")
    assert found["subscriptions"][0]["delivery"]["code"] != "second-dump"
    assert len(made.forms) >= 2
    assert len({header for _, _, header in asked}) == len(made.forms)
    assert shows_no_secret(out, err, *shown)
    assert not Path("/proc/self/cmdline").exists() or any("--client-conf" in each for each in shown)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("refuses", ["issuer", "broker", "broker, a token file"])
def test_no_output_and_no_file_has_a_secret(command: tuple[str, ...], refuses: str) -> None:
    refused: list[str] = []
    with (
        issuer() as made,
        broker(guarded(served(), lambda _: refused in ([], ["issuer"]))) as (url, _),
    ):
        ackwell("rescue", "snapshot", TOPIC, "sub", "-o", "before.json", "--admin", url)
        refused.append(refuses)
        key_file(Path(), "WrOnG" + SECRET if refuses == "issuer" else SECRET)
        options = ["--client-conf", oauth2(url, made.url)]
        if "token file" in refuses:
            Path("token").write_text(TOKEN)
            options = ["--admin", url, "--token-file", "token"]
        assert is_refused(*command, *options)
