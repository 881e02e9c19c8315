"""`ackwell record`: a proxy that records the traffic between clients and a broker as events."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ackwell.cli import options
from ackwell.cli.console import out


class FileFormat(StrEnum):
    """The formats of the files that `ackwell record` writes."""

    JSONL = "jsonl"
    PARQUET = "parquet"


def record(
    *,
    broker: Annotated[str, typer.Option(metavar="URL", help="The broker: pulsar://… or pulsar+ssl://….")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address for clients; port 0 takes any free one.")
    ] = "127.0.0.1:6651",
    file_format: Annotated[
        FileFormat, typer.Option("--format", help="JSON lines, or Parquet, which needs PyArrow.")
    ] = FileFormat.JSONL,
    events_per_file: Annotated[
        int, typer.Option(min=1, metavar="N", help="The number of events in each file.")
    ] = 1_000_000,
    payloads: Annotated[
        bool,
        typer.Option("--payloads", help="Keep the payloads, too: `ackwell dev-broker --load` serves them."),
    ] = False,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate for clients, which connect with TLS.")
    ] = None,
    tls_key: options.TlsKey = None,
    tls_trust: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The authorities that sign brokers' certificates; by default the system's."
        ),
    ] = None,
) -> None:
    """Record the traffic between clients and a broker until it is interrupted; `ackwell replay` reads it.

    Examples
    --------
        ackwell record --broker pulsar://localhost:6650 -o events
        ackwell replay events
        ackwell record --broker pulsar+ssl://broker:6651 --tls-cert p.pem -o e
    """
    import asyncio
    import ssl

    from ackwell.cli.stopping import until_stopped
    from ackwell.extras import require
    from ackwell.protocol.address import address_of
    from ackwell.recording.event_files import EventFiles
    from ackwell.recording.proxy import Proxy
    from ackwell.recording.recording import Recording

    require("google.protobuf", "recording")
    host, port = options.listen_address(listen)
    try:
        address_of(broker)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--broker") from None

    tls, trust = options.server_tls(tls_cert, tls_key), None
    if tls_trust is not None:
        with options.reading(tls_trust, "--tls-trust"):
            trust = ssl.create_default_context(cafile=tls_trust)

    async def run(files: EventFiles) -> None:
        recording = Recording(files.write, files.keep_payload if payloads else None)
        proxy = Proxy(broker, recording, host=host, port=int(port), tls=tls, trust=trust)
        await proxy.start()
        try:
            await until_stopped(f"clients {proxy.url}", f"broker  {broker}")
        finally:
            await proxy.stop()

    files = EventFiles(output, file_format=file_format.value, events_per_file=events_per_file)
    try:
        with files:
            asyncio.run(run(files))
    except KeyboardInterrupt:
        pass
    dropped = f", {files.dropped:,} dropped" if files.dropped else ""
    out.print(f"{files.written:,} events in {output}{dropped}")
