"""`ackwell mcp` offers read-only commands to an assistant, as tools of the Model Context Protocol over stdio.

A tool calls the function of a command and returns the JSON that the command prints. The credentials are
options of this process. No tool takes or returns credentials.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ackwell.cli import options
from ackwell.errors import AckwellError

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from ackwell.cluster.admin import Admin

LISTED: Final = 20
"""The default maximum number of subscriptions in an answer. It is small, because an assistant reads the whole
answer."""

INSTRUCTIONS: Final = (
    "Examine Apache Pulsar subscriptions. Every tool only reads. `doctor` predicts which acknowledged "
    "messages a restart, an unload or a crash redelivers, and why a subscription does not deliver. Its "
    "numbers are `{min, max, exact}`: report an interval as one. Report the contradictions and notes. "
    "`explain` explains a code. Do not recommend an unload, a restart or a seek without the `ackwell rescue` "
    "commands that the remedies name."
)

WATCH_SECONDS_MAX: Final = 120.0
"""The maximum time that a tool waits between its two requests to a broker, in seconds."""


@options.with_admin_options
def mcp(
    root: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="The folder whose files may be read; by default the current one."
        ),
    ] = Path(),
    client: Admin | None = None,
) -> None:
    """Offer doctor, holes, what-if, inspect and explain as tools for an assistant (MCP over stdio).

    Examples
    --------
        ackwell mcp --admin https://broker:8443 --token-file token
        ackwell mcp --root dumps/

    With --admin, the sources of a tool are tenants, namespaces or topics;
    without it, they are files and folders in --root.
    """
    server(Tools(client, root.resolve())).run("stdio")


def server(tools: Tools) -> MCPServer[Any]:
    """Return the MCP server that offers the tools."""
    from ackwell.extras import require

    require("mcp", "`ackwell mcp`")
    from mcp.server import MCPServer
    from mcp_types import ToolAnnotations

    import ackwell

    made: MCPServer[Any] = MCPServer(
        "ackwell", version=ackwell.__version__, instructions=INSTRUCTIONS, log_level="WARNING"
    )
    only_reads = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)
    for tool in (tools.doctor, tools.holes, tools.what_if, tools.inspect, tools.explain):
        made.add_tool(tool, annotations=only_reads)
    return made


class Tools:
    """The tools. The docstring of each public method is the description that an assistant reads."""

    def __init__(self, client: Admin | None, root: Path) -> None:
        self._client = client
        self._root = root
        # Only one tool runs at a time, because a command writes to the standard output of the process, which
        # `_run` redirects.
        self._lock = threading.Lock()

    def doctor(
        self,
        sources: list[str],
        watch_seconds: float | None = None,
        broker_version: str | None = None,
        broker_settings: list[str] | None = None,
        most: int = LISTED,
    ) -> dict[str, Any]:
        """Predict the messages that a restart redelivers, and explain why a subscription delivers nothing.

        `sources` are topics, `tenant/namespace` or tenants of the broker, or else files and folders with
        answers of `stats-internal`. `watch_seconds` asks a broker twice, which distinguishes slow delivery
        from no delivery. `broker_settings` are `NAME=VALUE`, needed for files. The worst subscriptions come
        first.
        """
        from ackwell.cli.doctor_command import DoctorFormat, FailThreshold, doctor

        if watch_seconds is not None and not 1 <= watch_seconds <= WATCH_SECONDS_MAX:
            raise _tool_error(f"watch_seconds is {watch_seconds}; expected 1 to {WATCH_SECONDS_MAX:g}")
        found, _ = self._run(
            doctor,
            sources=self._sources(sources),
            watch=watch_seconds,
            broker_version=broker_version,
            broker_setting=broker_settings,
            output=DoctorFormat.JSON,
            fail_on=FailThreshold.NEVER,
            client=self._client,
        )
        return {**found, **_first(found["subscriptions"], most)}

    def holes(self, sources: list[str], most: int = LISTED) -> dict[str, Any]:
        """List the unacknowledged entry that blocks each mark-delete position, and the bytes that it pins.

        `sources` are as for `doctor`. The entry that pins most bytes comes first.
        """
        from ackwell.cli.holes_command import HolesFormat, holes

        found, unread = self._run(
            holes, sources=self._sources(sources), output=HolesFormat.JSON, client=self._client
        )
        return {**_first(found, most), "unread": unread}

    def what_if(
        self, move: str, source: str, subscription: str, to: str | None = None, entries: int = 0
    ) -> dict[str, Any]:
        """Predict a seek, reset-cursor, skip, expire or clear-backlog; nothing is moved.

        `source` is a topic of the broker, or else a file. `to` is LEDGER:ENTRY, earliest, latest, or with a
        broker a time; `entries` is the number of entries to skip.
        """
        from ackwell.cli.options import OutputFormat
        from ackwell.cli.what_if_command import what_if
        from ackwell.diagnosis.what_if import MoveKind

        try:
            kind = MoveKind(move)
        except ValueError:
            raise _tool_error(f"{move!r} is not one of {', '.join(MoveKind)}") from None
        (checked,) = self._sources([source])
        found: dict[str, Any]
        found, _ = self._run(
            what_if,
            move=kind,
            source=checked,
            subscription=subscription,
            to=to,
            entries=entries,
            output=OutputFormat.JSON,
            client=self._client,
        )
        return found

    def inspect(self, files: list[str]) -> dict[str, Any]:
        """Decode persisted cursors in files: entries of a cursor ledger, values of the metadata store.

        The files may contain bytes, or the hex dumps, base64 or messages that Pulsar's tools print.
        """
        from ackwell.cli.inspect_command import inspect
        from ackwell.cli.options import OutputFormat

        return {"states": self._run(inspect, files=self._files(files), output=OutputFormat.JSON)[0]}

    def explain(self, code: str) -> dict[str, Any]:
        """Explain a code of the doctor: the meaning, the upstream issues, and the remedies."""
        from ackwell.broker.codes import codes

        entry = codes().get(code)
        if entry is None:
            raise _tool_error(f"no code is called {code!r}; there are {', '.join(codes())}")
        return {
            "code": entry.code,
            "verdict": entry.verdict,
            "text": entry.what,
            "why": entry.why,
            "until": entry.until,
            "issues": list(entry.issues),
            "fixedIn": list(entry.fixed_in),
            "saveFirst": entry.save,
            "remedies": entry.steps("TOPIC", "SUBSCRIPTION"),
        }

    def _sources(self, sources: list[str]) -> list[str]:
        return sources if self._client is not None else self._files(sources)

    def _files(self, sources: list[str]) -> list[str]:
        """Return the absolute paths of the sources. Raise an error for a path outside of --root."""
        paths = [(self._root / each).resolve() for each in sources]
        for path, source in zip(paths, sources, strict=True):
            if not path.is_relative_to(self._root):
                raise _tool_error(f"{source}: not in the folder of --root")
        return [str(path) for path in paths]

    def _run(self, command: Callable[..., object], **arguments: Any) -> tuple[Any, list[str]]:
        """Call the function of a command. Return the JSON that it prints, and its lines on standard error.

        An error of the command is raised as an error of the MCP library.
        """
        printed, errors = io.StringIO(), io.StringIO()
        with self._lock, redirect_stdout(printed), redirect_stderr(errors):
            try:
                unwrap(command)(**arguments)
            except typer.Exit:
                pass
            except SystemExit:
                raise _tool_error(errors.getvalue().strip()) from None
            except (typer.BadParameter, AckwellError, OSError) as error:
                raise _tool_error(str(error)) from None
        if not printed.getvalue():
            raise _tool_error(errors.getvalue().strip() or "no result")
        return json.loads(printed.getvalue()), errors.getvalue().splitlines()


def _first(subscriptions: list[Any], most: int) -> dict[str, Any]:
    """Return an answer with the first `most` subscriptions and the number of omitted subscriptions."""
    shown = subscriptions[: max(most, 0)]
    return {"subscriptions": shown, "omittedSubscriptions": len(subscriptions) - len(shown)}


def _tool_error(text: str) -> Exception:
    """Return an error of the MCP library. The assistant gets its text as the answer of the tool."""
    from mcp.server.mcpserver.exceptions import ToolError

    return ToolError(text)
