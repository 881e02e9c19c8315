"""`ackwell collect` keeps what a cluster's brokers say of its subscriptions, a dated folder a run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from ackwell.cli import options
from ackwell.cli.console import err, name_of, out, progress

EXAMPLES = """
Examples:

    ackwell collect --admin http://broker:8080 -o stats/
    ackwell collect --admin https://broker:8443 --token-file token -o stats/ public/default
    ackwell doctor stats/

Safe to run from cron: two runs never share a folder, a run that was cut off is resumed, and each file appears
whole. Exit code: 0 all collected, 5 some topics could not be read; 1 an error, 2 a wrong command line.
"""


def collect(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]…", help="Tenants, tenant/namespace or topics; none for all."),
    ] = None,
    admin: options.AdminUrl = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where the dated folders go.")
    ] = Path("stats"),
    token_file: options.TokenFile = None,
    trust_host: options.TrustHost = None,
    tls_trust_certs: options.TlsTrustCerts = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    tls_allow_insecure: options.TlsAllowInsecure = False,
    timeout: options.Timeout = 30.0,
    concurrency: options.Concurrency = 8,
) -> None:
    """Write a dated, compressed dump of every topic's statistics, for `doctor` and the pipeline."""
    from ackwell.broker.collect import collect as collect_dumps

    if admin is None:
        raise typer.BadParameter("give --admin URL, the address of a broker or a proxy")
    client = options.admin_client(
        admin,
        token_file=token_file,
        trust_host=trust_host,
        tls_trust_certs=tls_trust_certs,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_allow_insecure=tls_allow_insecure,
        timeout=timeout,
        concurrency=concurrency,
    )
    written, unread = 0, 0
    run: Path | None = None
    steps = collect_dumps(client, output, topics or (), time_ms=int(time.time() * 1000))
    for step in progress(steps, "collecting"):
        if step.unread is not None:
            unread += 1
            reason = f"{name_of(step.unread.topic or step.unread.source)}: {step.unread.reason}"
            err.print(f"not read: {reason}", highlight=False, markup=False)
        elif step.written is not None:
            written, run = written + 1, step.written.parent
    where = "" if run is None else f" in {run}"
    out.print(f"{written:,} topic{'' if written == 1 else 's'} collected{where}", highlight=False)
    if unread:
        raise typer.Exit(5)


collect.__doc__ = f"{collect.__doc__}\n{EXAMPLES}"
