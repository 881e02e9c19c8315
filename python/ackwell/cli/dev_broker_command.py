"""`ackwell dev-broker`: a Pulsar broker for tests of clients in any language."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ackwell.cli.console import out
from ackwell.cli.options import BrokerSetting, TlsKey, assignments, reading, server_tls

if TYPE_CHECKING:
    import ssl

    from ackwell.devbroker import DevBrokerSettings
    from ackwell.devbroker.accepted_credentials import AcceptedCredentials


def dev_broker(
    *,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, metavar="PORT", help="The port for clients; 0 for any free port."),
    ] = 6650,
    admin_port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="The port of the admin REST API.")
    ] = 8080,
    host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="The address to listen on. Other machines cannot connect to 127.0.0.1.",
        ),
    ] = ("127.0.0.1"),
    advertised_host: Annotated[
        str | None, typer.Option(metavar="HOST", help="The host in the addresses that clients receive.")
    ] = None,
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
            help="Start with the state in a dump, cursor bytes, a recording or a folder; repeatable.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Store all data in this SQLite file, instead of in memory."),
    ] = None,
    broker_setting: BrokerSetting = None,
    max_message_bytes: Annotated[
        int | None, typer.Option(min=1, metavar="BYTES", help="The largest message; by default 5 MiB.")
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate; with it the broker also opens TLS ports."),
    ] = None,
    tls_key: TlsKey = None,
    tls_trust: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The authorities that sign client certificates. The name in a certificate is the role.",
        ),
    ] = None,
    tls_port: Annotated[
        int, typer.Option(min=0, max=65_535, metavar="PORT", help="The port for clients with TLS.")
    ] = 6651,
    admin_tls_port: Annotated[
        int,
        typer.Option(min=0, max=65_535, metavar="PORT", help="The port of the admin REST API with TLS."),
    ] = 8443,
    token_key: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The secret key that signs tokens. Without a valid token, clients are refused.",
        ),
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PASSWORD", help="A user for basic authentication; repeatable."),
    ] = None,
) -> None:
    """Run a Pulsar broker for tests on this machine until it is interrupted.

    Examples
    --------
        ackwell dev-broker
        ackwell dev-broker --port 0 --admin-port 0 --data broker.db
        ackwell dev-broker --namespace orders/live --as 4.0
        ackwell dev-broker --load stats-internal.json
        ackwell dev-broker --broker-setting maxMessageSize=1048576
        ackwell dev-broker --user admin:123456 --advertised-host localhost
    """
    import asyncio

    from ackwell.cli.stopping import until_stopped
    from ackwell.extras import require

    require("google.protobuf", "the dev broker")
    conf = tuple(assignments(broker_setting))
    settings = _settings(as_version, namespace or [], conf, max_message_bytes)
    credentials = _credentials(conf, user or [], token_key)
    tls = _tls(tls_cert, tls_key, tls_trust)

    async def run() -> None:
        from ackwell.devbroker import AsyncBroker

        async with AsyncBroker(
            host=host,
            port=port,
            admin_port=admin_port,
            settings=settings,
            tls=tls,
            tls_port=tls_port,
            admin_tls_port=admin_tls_port,
            authenticate=credentials,
            advertised_host=advertised_host,
            path=data,
        ) as broker:
            if load:
                typer.echo(broker.load(*load), err=True)
            lines = [f"broker {broker.url}", f"admin  {broker.admin_url}"]
            if tls is not None:
                lines += [f"broker {broker.tls_url}", f"admin  {broker.admin_tls_url}"]
            await until_stopped(*lines)

    # On a system without handlers for signals, Ctrl-C raises an exception.
    with suppress(KeyboardInterrupt):
        asyncio.run(run())
    out.print("stopped")


def _settings(
    version: str, namespaces: list[str], conf: tuple[str, ...], max_message_bytes: int | None
) -> DevBrokerSettings:
    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.devbroker.broker_conf import settings_of

    try:
        BrokerSettings.of(version)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--as") from None
    fields = {} if max_message_bytes is None else {"max_message_bytes": max_message_bytes}
    try:
        return settings_of(conf, version=version, namespaces=("public/default", *namespaces), **fields)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--broker-setting") from None


def _credentials(
    conf: tuple[str, ...], users: list[str], token_key: str | None
) -> AcceptedCredentials | None:
    from ackwell.devbroker.broker_conf import credentials_of

    named = dict(each.split(":", 1) for each in users if ":" in each)
    if len(named) != len(users) or not all(map(all, named.items())):
        raise typer.BadParameter("expected NAME:PASSWORD, each name once", param_hint="--user")
    try:
        return credentials_of(conf, named, token_key)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--token-key") from None


def _tls(cert: Path | None, key: Path | None, trust: Path | None) -> ssl.SSLContext | None:
    import ssl

    context = server_tls(cert, key)
    if trust is not None:
        if context is None:
            raise typer.BadParameter("--tls-trust needs --tls-cert", param_hint="--tls-cert")
        # Do not require a certificate, because a client may have other credentials.
        context.verify_mode = ssl.CERT_OPTIONAL
        with reading(trust, "--tls-trust"):
            context.load_verify_locations(trust)
    return context
