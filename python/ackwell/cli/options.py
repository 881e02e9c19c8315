"""Options that several commands share, each defined in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ackwell.cluster.admin import Admin

BrokerVersion = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="The broker version, for its defaults and rules: 4.0, 4.2 or 5.0, or a release such as 4.2.5. "
        "Without it, the version that the broker reports, else 4.2.",
    ),
]

BrokerSetting = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A setting of the broker, or a broker.conf file; `defaults` if all others have their defaults; "
        "repeatable.",
    ),
]


class RestartKind(StrEnum):
    """Which restarts to judge."""

    GRACEFUL = "graceful"
    CRASH = "crash"
    BOTH = "both"


def admin_client(
    admin: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask a live broker: http://host:8080, or one of several: http://a:8080,b:8080.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the token for --admin; by default $PULSAR_TOKEN."),
    ] = None,
    trust_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host that may get the token although the cluster does not list it; repeatable.",
        ),
    ] = None,
    reach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OWNER=HOST:PORT",
            help="The address to connect to for a broker whose name cannot be reached here; repeatable.",
        ),
    ] = None,
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            metavar="SECONDS",
            help="How long to wait for the topics of a dead broker to move.",
        ),
    ] = 0.0,
    tls_trust_certs: Annotated[
        Path | None,
        typer.Option(metavar="PEM", help="Certificate authorities to trust, instead of the machine's."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="PEM", help="The client certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="PEM", help="Its private key.")] = None,
    tls_allow_insecure: Annotated[
        bool, typer.Option("--tls-allow-insecure", help="Accept any certificate: for test clusters only.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How long one request may take.")
    ] = 30.0,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, metavar="N", help="How many requests at once.")
    ] = 8,
) -> Admin | None:
    """Return the admin client that these options describe, None without --admin."""
    if admin is None:
        return None
    from ackwell.cluster.admin import Admin
    from ackwell.cluster.endpoint import Endpoint

    token = os.environ.get("PULSAR_TOKEN") if token_file is None else _token_in(token_file)
    try:
        endpoint = Endpoint(
            url=admin,
            token=token,
            trusted_hosts=tuple(trust_host or ()),
            reach=dict(map(_reached, reach or ())),
            tls_trust_certificates=tls_trust_certs,
            tls_certificate=tls_cert,
            tls_key=tls_key,
            tls_allow_insecure=tls_allow_insecure,
            timeout_seconds=timeout,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    client = Admin(endpoint, requests_at_once=concurrency)
    client.wait_seconds = wait
    return client


def _reached(text: str) -> tuple[str, str]:
    """Split `OWNER=HOST:PORT`; the port of each may be left out."""
    owner, _, address = text.partition("=")
    try:
        parts = [urlsplit(f"//{each}") for each in (owner, address)]
        valid = all(each.hostname and not each.path and (each.port is None or each.port) for each in parts)
    except ValueError:
        valid = False
    if not valid:
        raise typer.BadParameter(f"{text!r}: expected OWNER=HOST:PORT", param_hint="--reach")
    return owner.lower(), address


def _token_in(file: Path) -> str:
    from ackwell.regular_files import read_regular

    try:
        token = read_regular(file).decode().strip()
    except UnicodeDecodeError:
        token = ""
    if not token:
        raise typer.BadParameter(f"{file}: no token in it, but nothing, or bytes that are not text")
    return token


def options_from(
    make: Callable[..., object], name: str
) -> Callable[[Callable[..., object]], Callable[..., Any]]:
    """Add the parameters of `make` to a command as options.

    The command takes what `make` returns as its parameter `name`, which is not an option.
    """

    def add(command: Callable[..., object]) -> Callable[..., Any]:
        own = [each for each in _parameters(command) if each.name != name]
        shared = _parameters(make)

        @wraps(command)
        def wrapped(**values: Any) -> object:
            made = make(**{each.name: values.pop(each.name) for each in shared})
            return command(**{name: made}, **values)

        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        # Typer reads a command's options off its signature.
        wrapped.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
        return wrapped

    return add


def _parameters(function: Callable[..., object]) -> list[Parameter]:
    # These are imported for type checkers only, and no option has their type.
    return list(
        signature(function, eval_str=True, locals={"Admin": object, "Connection": object}).parameters.values()
    )


with_admin_options = options_from(admin_client, "client")
"""Add the options of `admin_client` to a command, which takes the client as its parameter `client`."""


@with_admin_options
def required_admin(client: Admin | None = None) -> Admin:
    """Return the admin client; a command without --admin is a wrong command line."""
    if client is None:
        raise typer.BadParameter("give --admin URL, the address of a broker or a proxy")
    return client


with_required_admin = options_from(required_admin, "admin")
"""Add the same options to a command that needs a broker, which takes the client as its parameter `admin`."""


DEFAULTS: Final = "defaults"
"""The value of --broker-setting which states that all other settings have their defaults."""


def assignments(given: Sequence[str] | None) -> Iterator[str]:
    """Yield `name=value` for each setting given, and for each line of a `broker.conf` given.

    A file may be of another release, so an unknown name in it is ignored with a warning.
    """
    from ackwell.broker.broker_settings import is_setting, suggestion
    from ackwell.regular_files import read_regular

    for value in given or ():
        path = Path(value)
        if value == DEFAULTS:
            continue
        if "=" in value and not path.is_file():
            yield value
            continue
        try:
            text = read_regular(path).decode()
        except OSError as error:
            raise typer.BadParameter(
                f"{value!r} is neither NAME=VALUE nor a file that can be read: {error.strerror}"
            ) from None
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{value!r} is not a file of settings: it holds no text") from None
        for line in text.splitlines():
            name, separator, rest = line.strip().partition("=")
            # A setting without a value keeps its default, as the broker reads it.
            if not separator or not rest.strip() or name.startswith("#"):
                continue
            if is_setting(name.strip()):
                yield f"{name.strip()}={rest.strip()}"
            else:
                from ackwell.cli.console import warn

                warn(f"{path}: ignored the unknown setting {name.strip()!r}{suggestion(name.strip())}")
