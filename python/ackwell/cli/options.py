"""Options that several commands share, each spelt and explained in one place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.broker.admin import Admin

BrokerVersion = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="The broker version, for its defaults and rules: 4.0, 4.2 or 5.0. "
        "Without it, what the broker says, else 4.2.",
    ),
]

BrokerSetting = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A setting of the broker that differs from its default, or a broker.conf file; repeatable.",
    ),
]

AdminUrl = Annotated[
    str | None,
    typer.Option("--admin", metavar="URL", help="Ask a live broker, reading only: http://host:8080."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The token for --admin; without it $PULSAR_TOKEN, where it is set."),
]
TrustHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="HOST",
        help="A host that may get the token although the cluster does not list it; repeatable.",
    ),
]
TlsTrustCerts = Annotated[
    Path | None, typer.Option(metavar="PEM", help="Authorities to trust, instead of the machine's list.")
]
TlsCert = Annotated[Path | None, typer.Option(metavar="PEM", help="The client certificate.")]
TlsKey = Annotated[Path | None, typer.Option(metavar="PEM", help="Its private key.")]
TlsAllowInsecure = Annotated[
    bool, typer.Option("--tls-allow-insecure", help="Accept any certificate: for test clusters only.")
]
Timeout = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long one request may take.")]
Concurrency = Annotated[int, typer.Option(min=1, max=256, metavar="N", help="How many requests at once.")]


class RestartKind(StrEnum):
    """Which restarts to look at."""

    GRACEFUL = "graceful"
    CRASH = "crash"
    BOTH = "both"


def admin_client(
    url: str,
    *,
    token_file: Path | None,
    trust_host: Sequence[str] | None,
    tls_trust_certs: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_allow_insecure: bool,
    timeout: float,
    concurrency: int,
) -> Admin:
    """Return the admin client that these options describe; a wrong address is a usage error."""
    from ackwell.broker.admin import Admin
    from ackwell.broker.endpoint import Endpoint

    token = token_file.read_text(encoding="utf-8").strip() if token_file else os.environ.get("PULSAR_TOKEN")
    try:
        endpoint = Endpoint(
            url=url,
            token=token,
            trusted_hosts=tuple(trust_host or ()),
            tls_trust_certificates=tls_trust_certs,
            tls_certificate=tls_cert,
            tls_key=tls_key,
            tls_allow_insecure=tls_allow_insecure,
            timeout_seconds=timeout,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return Admin(endpoint, requests_at_once=concurrency)


def assignments(given: Sequence[str] | None) -> Iterator[str]:
    """Yield `name=value` for each setting given, and for each line of a `broker.conf` given."""
    for value in given or ():
        path = Path(value)
        if "=" in value and not path.is_file():
            yield value
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(
                f"{value!r} is neither NAME=VALUE nor a file that can be read: {error.strerror}"
            ) from None
        for line in text.splitlines():
            name, separator, rest = line.strip().partition("=")
            # A setting without a value keeps its default, as the broker reads it.
            if separator and rest.strip() and not name.startswith("#"):
                yield f"{name.strip()}={rest.strip()}"
