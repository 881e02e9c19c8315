"""The command line as a contract: every argument and option with its default, its limits and its choices."""

from __future__ import annotations

import re
from enum import Enum, EnumMeta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from tests.cli.test_help import COMMANDS
from tests.commands import ackwell

ADMIN = """--admin --client-conf --context --token-file --trust-host… --reach…
    --wait=0.0≥0≤3600 --tls-trust-certs --tls-cert --tls-key --tls-allow-insecure
    --timeout=30.0≥0.1 --concurrency=8≥1≤256"""

FORMAT = "--format=table(table json)"
MODE = "--mode=error(error overwrite append ignore)"
AUDIT = "--audit=ackwell-rescue.audit.jsonl"

# `!` is required, `…` repeatable, `=` the default, `≥` and `≤` the limits; the choices are in parentheses.
OPTIONS = {
    "replay": f"sources!… --spark {FORMAT} --save --replace --at≥0 --start-from… --keep-going --threads≥1",
    "history": f"sources!… --at-rest --in-flight-ms=0≥0 {FORMAT}",
    "inspect": f"files!… --ledger --compression --broker-version --broker-setting… {FORMAT}",
    "doctor": f"""sources… --broker-version --broker-setting… --restart=both(graceful crash both)
        --messages-per-entry≥1 --format=table(table json jsonl prometheus) --html --watch≥1 --count-backlogs
        --every-topic --metadata-node-bytes=1048575≥1 --explain --fail-on=at-risk(stuck at-risk losing never)
        {ADMIN}""",
    "collect": f"topics… -o/--output=stats {ADMIN}",
    "holes": f"sources… --format=table(table json prometheus) --list=0≥0≤1000 {ADMIN}",
    "diff": f"before! after --subscription --compression --ledger {FORMAT} {ADMIN}",
    "what-if": f"""move!(seek reset-cursor skip expire clear-backlog) source! subscription! --to --entries=0≥0
        --verify --broker-version {FORMAT} {ADMIN}""",
    "mcp": f"--root=. {ADMIN}",
    "upgrade-check": f"""--to! sources… --from --broker-setting… --to-setting… --moves=2≥1≤2 --count-backlogs
        --every-topic --metadata-node-bytes=1048575≥1 {FORMAT} {ADMIN}""",
    "convert": "source! target! --to! --max-ranges≥0 --max-bytes≥0 --lossy --subscription --compression",
    "dev-broker": """--port=6650≥0≤65535 --admin-port=8080≥0≤65535 --host=127.0.0.1 --advertised-host
        --as=4.2 --namespace… --load… --data --broker-setting… --max-message-bytes≥1 --tls-cert --tls-key
        --tls-trust --tls-port=6651≥0≤65535 --admin-tls-port=8443≥0≤65535 --token-key --user…""",
    "record": """--broker! --output/-o! --listen=127.0.0.1:6651 --format=jsonl(jsonl parquet)
        --events-per-file=1000000≥1 --payloads --tls-cert --tls-key --tls-trust""",
    "events check": f"sources!… {FORMAT}",
    "rescue snapshot": f"topic! subscription! -o/--output=before.json {ADMIN}",
    "rescue plan": f"""snapshots!… --acks --restart=graceful(graceful crash both) --broker-setting…
        -o/--output=plan.json
        {ADMIN}""",
    "rescue apply": f"plan_file! --yes --broker {AUDIT} {ADMIN}",
    "rescue unload": f"""topic! subscription --hold/--no-hold=True --journal --yes --broker
        {AUDIT} {ADMIN}""",
    "rescue begin": f"""topics… -o/--output=window --owner --restart=graceful(graceful crash both) --yes
        --broker {AUDIT} {ADMIN}""",
    "rescue end": f"""window! --restart=graceful(graceful crash both) --load-seconds=120.0≥0 --release-only
        --yes --broker {AUDIT} {ADMIN}""",
    "rescue status": "window!",
    "rescue watch": f"""namespaces… --every=10s -o/--output=state --listen --rounds≥1 --yes
        --broker {AUDIT} {ADMIN}""",
    "rescue hold": f"topic! subscription! --journal! --yes --broker {AUDIT} {ADMIN}",
    "rescue release": f"--journal! topic subscription --yes --broker {AUDIT} {ADMIN}",
    "rescue copy": f"topic! subscription! new! --yes --broker {AUDIT} {ADMIN}",
    "rescue ack": f"topic! subscription! positions!… --yes --broker {AUDIT} {ADMIN}",
    "spark replay": f"""--input/-i!… --strategy=auto(auto files rows) --output/-o! --master
        --write-format=parquet {MODE} {FORMAT}""",
    "spark restart-audit": f"""--input/-i!… --broker-version --broker-setting… --output/-o! --master
        --write-format=parquet {MODE} {FORMAT}""",
    "spark delayed-sizing": f"""--input/-i!… --width… --output/-o! --master
        --write-format=parquet {MODE} {FORMAT}""",
    "spark cursor-stream": """--input/-i! --output/-o! --checkpoint! --master
        --write-format=parquet --once/--no-once --files=8≥1""",
}


def written(option: Any) -> str:
    text = "/".join((*option.opts, *option.secondary_opts))
    if option.required:
        text += "!"
    if option.multiple or option.nargs != 1:
        text += "…"
    if option.default is not None and option.default is not False:
        text += f"={option.default.value if isinstance(option.default, Enum) else option.default}"
    # Typer 0.29 moves the limits to the option, and replaces the choices by the Enum class.
    kind = getattr(option, "type", option)
    for sign, limit in (("≥", "min"), ("≤", "max")):
        if getattr(kind, limit, None) is not None:
            text += f"{sign}{getattr(kind, limit)}"
    choices = getattr(kind, "choices", ())
    if kind is option:
        annotation = option.type_descriptor.annotation
        literals = get_args(annotation) if get_origin(annotation) is Literal else ()
        enums = (each for each in (annotation, *get_args(annotation)) if type(each) is EnumMeta)
        choices = next(enums, literals)
    if choices:
        text += f"({' '.join(str(getattr(each, 'value', each)) for each in choices)})"
    return text


def test_the_table_has_every_command() -> None:
    assert list(OPTIONS) == list(COMMANDS)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_options_of_a_command_are_those_of_the_table(name: str) -> None:
    assert " ".join(map(written, COMMANDS[name].params)) == " ".join(OPTIONS[name].split())


@pytest.mark.parametrize(
    "line",
    [
        "replay --at -1 x",
        "replay --threads 0 x",
        "doctor --messages-per-entry 0 x",
        "doctor --watch 0 x",
        "doctor --timeout 0.09 x",
        "doctor --concurrency 0 x",
        "doctor --concurrency 257 x",
        "what-if skip --entries -1 x s",
        "convert --max-ranges -1 --to pulsar-ranges a b",
        "convert --max-bytes -1 --to pulsar-ranges a b",
        "dev-broker --port 65536",
        "dev-broker --admin-port -1",
        "record --events-per-file 0 --broker pulsar://x:1 -o out",
    ],
)
def test_what_is_beyond_a_limit_is_a_wrong_command_line(line: str) -> None:
    done = ackwell(*line.split())
    assert (done.code, done.out) == (2, "")
    # Typer 0.29 has other words.
    assert re.search("is not in the range|than or equal to", " ".join(done.err.replace("│", "").split()))


def test_an_answer_of_a_broker_is_not_a_file_of_settings(tmp_path: Path) -> None:
    (tmp_path / "stats.json").write_text('{"cursors": {}}')
    refused = ackwell("doctor", "x", "--broker-setting", str(tmp_path / "stats.json"))
    assert refused.code == 2
    assert "is not a file of settings" in " ".join(refused.err.replace("│", " ").split())
