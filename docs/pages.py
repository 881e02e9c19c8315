"""Write the generated pages: commands, settings, the dev broker's routes, tables of the doctor's codes.

    python docs/pages.py

writes them, and so does `make lab-docs`; a test compares them with the committed pages.
"""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final

from sphinx.pycode import ModuleAnalyzer
from typer.core import TyperGroup
from typer.main import get_command

from ackwell.broker.broker_settings import ABSENT, BrokerSettings, defaults
from ackwell.broker.codes import codes
from ackwell.cli import program
from ackwell.cursor.cursor_settings import CursorSettings
from ackwell.devbroker.admin_api.route_table import Route, routes
from ackwell.devbroker.devbroker_settings import DevBrokerSettings
from ackwell.devbroker.namespace_policies import POLICIES
from ackwell.releases import RELEASES
from ackwell.saving.chunks import EntrySettings
from ackwell.subscription import RedeliveryBackoff, SubscriptionSettings

SETTINGS: Final = (
    SubscriptionSettings,
    RedeliveryBackoff,
    CursorSettings,
    EntrySettings,
    BrokerSettings,
    DevBrokerSettings,
)
PRESETS: Final = {SubscriptionSettings: "pulsar", CursorSettings: "pulsar", BrokerSettings: "of"}
"""How a class is made with the values of one broker version."""

WRITTEN: Final = "<!-- Written by docs/pages.py. -->\n"


def paragraph(text: str) -> str:
    """Return a text as a paragraph, in lines of at most 120 characters."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its name, in the order of the help."""
    group = get_command(program())
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from ((f"{name} {inner}", each) for inner, each in command.commands.items())
        else:
            yield name, command


def option_rows(command: Any) -> Iterator[str]:
    """Yield the arguments and options of a command as rows of a table."""
    for parameter in command.params:
        shown = getattr(parameter, "metavar", None) or ""
        if parameter.param_type_name == "argument":
            yield f"| `{shown or parameter.name}` | {cell(parameter.help or '')} | |"
            continue
        if getattr(parameter, "hidden", False):
            continue
        names = ", ".join(f"`{name}`" for name in parameter.opts)
        if not parameter.is_flag:
            choices = getattr(parameter.type, "choices", None)
            names += f" {'|'.join(map(str, choices)) if choices else shown}".replace("|", "\\|").rstrip()
        default = parameter.default
        has_default = default is not None and default is not False and not callable(default) and default != ()
        yield f"| {names} | {cell(parameter.help or '')} | {f'`{default}`' if has_default else ''} |"


def connection_rows(tables: Iterable[list[str]]) -> list[str]:
    """Return the rows that all commands with `--admin` have in common, in their order."""
    connected = [rows for rows in tables if any(row.startswith("| `--admin`") for row in rows)]
    return [row for row in connected[0] if all(row in rows for rows in connected)]


def commands_page() -> str:
    """Return the page of all commands."""
    found = list(commands())
    tables = {name: list(option_rows(command)) for name, command in found}
    shared = connection_rows(tables.values())
    head = "| argument or option | meaning | default |\n|---|---|---|\n"
    parts = [
        "# Commands\n\n",
        paragraph(
            "This page contains the help of every command (`ackwell COMMAND --help`). Results are printed to "
            "standard output, and notes, progress and errors to standard error."
        ),
        "\n## Connection options\n\nAll commands that connect to a cluster have these options:\n\n",
        head,
        *(f"{row}\n" for row in shared),
    ]
    for name, command in found:
        rows = [row for row in tables[name] if row not in shared]
        parts.append(f"\n## ackwell {name}\n\n{(command.help or '').strip()}\n")
        if rows:
            parts += ["\n", head, *(f"{row}\n" for row in rows)]
        if len(rows) < len(tables[name]):
            parts.append("\nThe [connection options](#connection-options) select and access the cluster.\n")
        examples = re.sub(r"(?m)^    ", "", command.examples.rstrip())
        lines, _, notes = examples.partition("\n\n")
        parts.append(f"\n```console\n{re.sub(r'(?m)^(?=ackwell)', '$ ', lines)}\n```\n")
        if notes.strip():
            parts.append(f"\n{notes.strip()}\n")
    return WRITTEN + "".join(parts)


def value(given: Any) -> str:
    """Return a value of a setting as Python code; settings with a separate table are not repeated."""
    if isinstance(given, Enum):
        given = given.value
    return "see its table" if dataclasses.is_dataclass(given) else cell(f"`{given!r}`")


def settings_rows(cls: type, documented: dict[str, str]) -> Iterator[str]:
    """Yield the settings of a class as rows of a table."""
    ours = cls()
    presets = [getattr(cls, PRESETS[cls])(version) for version in RELEASES] if cls in PRESETS else []
    for field in dataclasses.fields(cls):
        text = documented.get(field.name, "")
        found = re.match(r"`([a-z]\w*[A-Z]\w*(?:\.\w+)?|[A-Z]\w+\.\w+)`", text)
        pulsar = field.metadata.get("name") or (found[1] if found else "")
        text = text.removeprefix(f"`{pulsar}`").removeprefix(": ")
        text = text[:1].upper() + text[1:]
        values = [value(getattr(each, field.name)) for each in (ours, *presets)]
        shown = " | ".join([values[0], *(each if each != values[0] else "" for each in values[1:])])
        name = f"`{pulsar}`" if pulsar else ""
        yield f"| `{field.name}` | {name} | {shown} | {cell(text)} |"


def settings_page() -> str:
    """Return the page of all settings."""
    parts = [
        "# Settings\n\n",
        paragraph(
            "This page lists the settings of ackwell, with the name of the same setting in Pulsar. "
            "A *preset* contains the values of a version of Pulsar. The presets of 4.2 are "
            '`SubscriptionSettings.pulsar("4.2")`, `CursorSettings.pulsar("4.2")` and '
            '`BrokerSettings.of("4.2")`. '
            "The column of a version shows the value in its preset if it differs from the default."
        ),
    ]
    for cls in SETTINGS:
        documented = {
            name: " ".join(lines)
            for (owner, name), lines in ModuleAnalyzer.for_module(cls.__module__).find_attr_docs().items()
            if owner == cls.__name__
        }
        head = (cls.__doc__ or "").strip().partition("\n\n")[0]
        versions = list(RELEASES) if cls in PRESETS else []
        columns = ["setting", "Pulsar's name", "default", *versions, "meaning"]
        parts.append(f"\n## {cls.__name__}\n\n{paragraph(head)}\n| {' | '.join(columns)} |\n")
        parts.append(
            "|---" * len(columns) + "|\n" + "".join(f"{r}\n" for r in settings_rows(cls, documented))
        )
    parts.append(releases_table())
    return WRITTEN + "".join(parts)


def releases_table() -> str:
    """Return the settings of the broker whose defaults differ between two known releases as a table."""
    columns = [defaults(release) for release in RELEASES]
    lines = [
        "\n## Where releases differ\n",
        paragraph(
            "This table lists every setting of the broker whose default differs between the known releases. "
            "`(machine)` means that the default depends on the machine, and absent means that the release "
            "does not have the setting."
        ),
        f"| Pulsar's name | {' | '.join(RELEASES)} |",
        "|---" * (len(RELEASES) + 1) + "|",
    ]
    for name in sorted(set().union(*columns), key=str.lower):
        values = [column.get(name, ABSENT) for column in columns]
        if len(set(values)) > 1:
            shown = ("absent" if each == ABSENT else f"`{each}`" for each in values)
            lines.append(f"| `{name}` | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def codes_table(*verdicts: str) -> str:
    """Return the doctor's codes with these verdicts as a table."""
    lines = ["| code | meaning | upstream |", "|---|---|---|"]
    for entry in codes().values():
        if entry.verdict in verdicts:
            fixed = f"; fixed in {', '.join(entry.fixed_in)}" if entry.fixed_in else ""
            issues = ", ".join(issue.removeprefix("apache/pulsar") for issue in entry.issues)
            lines.append(f"| `{entry.code}` | {entry.what} | {issues}{fixed} |")
    return "\n".join(lines) + "\n"


def operators_page() -> str:
    """Return the guide for operators with the tables between its `codes` comments written anew."""
    guide = (Path(__file__).parent / "operators.md").read_text()
    return re.sub(
        r"(<!-- codes: ([a-z, ]+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{codes_table(*found[2].split(', '))}\n{found[3]}",
        guide,
        flags=re.DOTALL,
    )


def admin_page() -> str:
    """Return the page of the dev broker's admin API: its policies, and its routes by resource."""
    found = routes()
    done = sum(each.handler is not None for each in found)
    parts = [
        "# The admin API of the dev broker\n\n",
        paragraph(
            "The [dev broker](test-your-consumer.md) is a Pulsar broker for tests. Its admin API has the "
            f"{len(found)} routes of Pulsar 4.2.4 and 5.0.1. {done} of them are implemented. The others "
            "answer 501 and the name of the operation."
        ),
        "\n## Policies\n\n",
        paragraph(
            "A client can set, read and delete every policy. An *enforced* policy has the same effect as in "
            "Pulsar. A policy that is *stored only* has no effect, and its answers have the header "
            "`X-Ackwell-Policy`."
        ),
        "\n| policy of a namespace | of a topic | effect |\n|---|---|---|\n",
    ]
    parts += [
        f"| {_code(each.name)} | {_code(each.topic)} | {'enforced' if each.enforced else 'stored only'} |\n"
        for each in sorted(POLICIES, key=lambda policy: (not policy.enforced, policy.name or policy.topic))
    ]
    by_resource: dict[str, list[Route]] = {}
    for each in found:
        by_resource.setdefault(each.operation.partition(".")[0], []).append(each)
    parts.append("\n## Routes\n")
    for resource, rows in sorted(by_resource.items()):
        parts.append(f"\n### {resource}\n\n| route | operation | dev broker |\n|---|---|---|\n")
        parts += [
            f"| `{each.method} {each.path}` | `{each.operation.partition('.')[2]}` | "
            f"{'yes' if each.handler else '501'} |\n"
            for each in sorted(rows, key=lambda row: (row.path, row.method))
        ]
    return WRITTEN + "".join(parts)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


PAGES: Final = {
    "commands.md": commands_page,
    "settings.md": settings_page,
    "operators.md": operators_page,
    "admin-api.md": admin_page,
}


def write_pages(folder: Path) -> None:
    """Write each page."""
    for name, page in PAGES.items():
        (folder / name).write_text(page())


if __name__ == "__main__":
    write_pages(Path(__file__).parent)
