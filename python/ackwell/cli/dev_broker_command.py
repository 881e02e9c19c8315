"""`ackwell dev-broker`: a Pulsar broker for tests of clients in any language."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from ackwell.cli.console import out


def dev_broker(
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, metavar="PORT", help="Where clients connect; 0 for any free port."),
    ] = 6650,
    admin_port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="Where the admin REST API listens.")
    ] = 8080,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST", help="The address to listen on; others can reach one that is not local."
        ),
    ] = ("127.0.0.1"),
    as_version: Annotated[str, typer.Option("--as", metavar="VERSION", help="Behave as 4.0, 4.2 or 5.0.")] = (
        "4.2"
    ),
    namespace: Annotated[
        list[str] | None, typer.Option(metavar="TENANT/NAMESPACE", help="A namespace to create; repeatable.")
    ] = None,
    load: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Begin with what an incident left: a dump, cursor bytes, a recording, a folder; repeatable.",
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep everything in this SQLite file.")
    ] = None,
) -> None:
    """Run a Pulsar broker for tests on this machine until it is interrupted, in memory unless given a file.

    Examples
    --------
        ackwell dev-broker
        ackwell dev-broker --port 0 --admin-port 0 --data broker.db
        ackwell dev-broker --namespace orders/live --as 4.0
        ackwell dev-broker --load stats-internal.json
    """
    import asyncio

    from ackwell.cli.stopping import until_stopped
    from ackwell.devbroker import DevBrokerSettings
    from ackwell.extras import require

    require("google.protobuf", "the dev broker")
    try:
        settings = DevBrokerSettings(version=as_version, namespaces=("public/default", *(namespace or ())))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--as") from None

    async def run() -> None:
        from ackwell.devbroker import AsyncBroker

        async with AsyncBroker(
            host=host, port=port, admin_port=admin_port, settings=settings, path=data
        ) as broker:
            if load:
                typer.echo(broker.load(*load), err=True)
            await until_stopped(f"broker {broker.url}", f"admin  {broker.admin_url}")

    # On a system without such signals, Ctrl-C is an exception.
    with suppress(KeyboardInterrupt):
        asyncio.run(run())
    out.print("stopped")
