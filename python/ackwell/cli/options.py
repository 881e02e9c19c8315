"""The options that several commands share. Each option is defined once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from ackwell.broker.broker_settings import BrokerSettings
    from ackwell.cluster.admin import Admin
    from ackwell.cluster.client_conf import ClientConf

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE…",
        help="Traces (.jsonl, .jsonl.gz, .jsonl.zst, .parquet), or folders, also s3://, gs:// or abfs://.",
    ),
]

Dumps = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SOURCE]…",
        help="Answers of `stats-internal`: files or folders (.json, .json.gz). With --admin: tenants, "
        "namespaces or topics; all by default.",
    ),
]

BrokerVersion = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="The broker version, for its defaults and rules: 4.0, 4.2 or 5.0, or a release such as 4.2.5. "
        "By default the version that the broker reports, or 4.2 if it is unknown.",
    ),
]

BrokerSetting = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A setting of the broker; repeatable. Instead of NAME=VALUE, give a broker.conf file, or "
        "`defaults`, which confirms that all other settings have their default values.",
    ),
]


class OutputFormat(StrEnum):
    """The formats in which most commands print their result."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[OutputFormat, typer.Option("--format", help="How to print the result.")]


TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The private key, if the file of --tls-cert does not contain it."),
]


METADATA_NODE_BYTES = 1_048_575
"""The default maximum size of a record in the metadata store, in bytes. It is the default of ZooKeeper's
`jute.maxbuffer`."""

MetadataNodeBytes = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        help="The maximum size of a record in the metadata store, in bytes: jute.maxbuffer of ZooKeeper.",
    ),
]


CountBacklogs = Annotated[
    bool,
    typer.Option(
        "--count-backlogs",
        help="With --admin: the broker reads each backlog and counts the messages in its batches, "
        "up to its limit subscriptionBacklogScanMaxEntries.",
    ),
]


EveryTopic = Annotated[
    bool,
    typer.Option(
        "--every-topic",
        help="With --admin: request each topic. By default, only topics with acknowledged ranges, batches "
        "or a backlog that does not move are requested. The others are judged by the overview "
        "of their broker, which may be 60 s old.",
    ),
]


class RestartKind(StrEnum):
    """The values of the option --restart."""

    GRACEFUL = "graceful"
    CRASH = "crash"
    BOTH = "both"


def admin_client(
    *,
    admin: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Ask a live broker: http://host:8080, or one of several: http://a:8080,b:8080.",
        ),
    ] = None,
    client_conf: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A client.conf of Pulsar with the address, the credentials and the TLS options of a broker. "
            "Commands that connect to a broker use $PULSAR_CLIENT_CONF by default.",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A context in pulsarctl's ~/.config/pulsar/config, with the address and the credentials.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the token. The default is the token of --client-conf, or $PULSAR_TOKEN if "
            "the client.conf has no credentials.",
        ),
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
            help="The address of a broker whose name does not resolve here; repeatable.",
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
    tls_key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="The private key of --tls-cert.")
    ] = None,
    tls_allow_insecure: Annotated[
        bool, typer.Option("--tls-allow-insecure", help="Accept any certificate: for test clusters only.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="The longest time of one request.")
    ] = 30.0,
    concurrency: Annotated[
        int,
        typer.Option(min=1, max=256, metavar="N", help="The maximum number of requests at the same time."),
    ] = 8,
) -> Admin | None:
    """Return the admin client that these options describe; None if they do not name a broker."""
    if admin is None and client_conf is None and context is None:
        return None
    from ackwell.cluster.admin import Admin
    from ackwell.cluster.credentials import Token
    from ackwell.cluster.endpoint import Endpoint

    conf, named = _client_conf(client_conf, context)
    url = conf.admin_url if admin is None else admin
    if url is None:
        raise typer.BadParameter("no address of an admin API in it (webServiceUrl)", param_hint=named)
    credentials = conf.credentials
    try:
        if admin is not None and ":" in urlsplit(admin).netloc.rpartition("@")[0]:
            raise typer.BadParameter(
                "a password in the command line is visible in the list of processes; write it into a "
                "client.conf (authPlugin=basic) and name this file with --client-conf",
                param_hint="--admin",
            )
        if token_file is not None:
            credentials = Token.in_file(token_file)
        elif os.environ.get("PULSAR_TOKEN") and (credentials is None or named == _ENVIRONMENT):
            credentials = Token(os.environ["PULSAR_TOKEN"])
        endpoint = Endpoint(
            url=url,
            credentials=credentials,
            # With --admin, the brokers of client.conf are not used, because they may be of another cluster.
            broker_url=conf.broker_url if admin is None else None,
            trusted_hosts=tuple(trust_host or ()),
            reach=dict(map(_reached, reach or ())),
            tls_trust_certificates=tls_trust_certs or conf.tls_trust_certificates,
            tls_certificate=tls_cert or conf.tls_certificate,
            tls_key=tls_key or (None if tls_cert else conf.tls_key),
            tls_allow_insecure=tls_allow_insecure or conf.tls_allow_insecure,
            tls_verify_names=conf.tls_verify_names,
            timeout_seconds=timeout,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    client = Admin(endpoint, requests_at_once=concurrency)
    client.wait_seconds = wait
    return client


_ENVIRONMENT: Final = "$PULSAR_CLIENT_CONF"


def _client_conf(file: Path | None, context: str | None) -> tuple[ClientConf, str]:
    """Return the settings of a client, and the name of the option or variable that selected them."""
    from ackwell.cluster.client_conf import ClientConf, read_client_conf, read_pulsarctl_context

    if file is not None and context is not None:
        raise typer.BadParameter("give one of --client-conf and --context")
    environment = os.environ.get("PULSAR_CLIENT_CONF")
    try:
        if context is not None:
            return read_pulsarctl_context(context), "--context"
        if file is not None and str(file) != environment:
            return read_client_conf(file), "--client-conf"
        return (read_client_conf(Path(environment)) if environment else ClientConf()), _ENVIRONMENT
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _reached(text: str) -> tuple[str, str]:
    """Split a value of --reach, `OWNER=HOST:PORT`, into owner and address. In both, the port is optional."""
    owner, _, address = text.partition("=")
    try:
        parts = [urlsplit(f"//{each}") for each in (owner, address)]
        valid = all(each.hostname and not each.path and (each.port is None or each.port) for each in parts)
    except ValueError:
        valid = False
    if not valid:
        raise typer.BadParameter(f"{text!r}: expected OWNER=HOST:PORT", param_hint="--reach")
    return owner.lower(), address


def listen_address(text: str) -> tuple[str, int]:
    """Parse the value of `--listen`; return the host and the port."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"{text!r}: expected HOST:PORT", param_hint="--listen")
    return host, int(port)


def server_tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context of a server with the files of `--tls-cert` and `--tls-key`.

    Return None if neither option is given.
    """
    import ssl

    from ackwell.regular_files import require_regular

    if cert is None:
        if key is not None:
            raise typer.BadParameter("--tls-key needs --tls-cert", param_hint="--tls-cert")
        return None
    with reading(cert, "--tls-cert"):
        require_regular(key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(cert, key)
    return context


@contextmanager
def reading(file: Path, option: str) -> Iterator[None]:
    """Convert an `OSError` in the `with` block to `typer.BadParameter`. The error names the option."""
    from ackwell.regular_files import require_regular

    try:
        require_regular(file)
        yield
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint=option) from None


def options_from(
    make: Callable[..., object], name: str
) -> Callable[[Callable[..., object]], Callable[..., Any]]:
    """Return a decorator that adds the parameters of `make` to a command as options.

    The decorated command calls `make` with the values of these options. It passes the result of `make` to the
    original command as the argument `name`.
    """

    def add(command: Callable[..., object]) -> Callable[..., Any]:
        own = [each for each in _parameters(command) if each.name != name]
        shared = _parameters(make)

        @wraps(command)
        def wrapped(**values: Any) -> object:
            made = make(**{each.name: values.pop(each.name) for each in shared})
            return command(**{name: made}, **values)

        parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        # Typer creates the options of a command from its signature.
        wrapped.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
        return wrapped

    return add


def _parameters(function: Callable[..., object]) -> list[Parameter]:
    # `Admin` and `Connection` are imported only for type checkers, so their names need a value here. No
    # option has one of these types.
    return list(
        signature(function, eval_str=True, locals={"Admin": object, "Connection": object}).parameters.values()
    )


with_admin_options = options_from(admin_client, "client")
"""A decorator that adds the options of `admin_client` to a command. The command gets the client, or None, as
its argument `client`."""


def required_admin(**options: Any) -> Admin:
    """Return the admin client that the options describe.

    Raises `typer.BadParameter` if neither the options nor $PULSAR_CLIENT_CONF name a broker.
    """
    given = (options[name] for name in ("admin", "client_conf", "context"))
    if not any(given) and os.environ.get("PULSAR_CLIENT_CONF"):
        options["client_conf"] = Path(os.environ["PULSAR_CLIENT_CONF"])
    client = admin_client(**options)
    if client is None:
        raise typer.BadParameter(
            "give --admin URL, the address of a broker or a proxy, or --client-conf FILE, which has it"
        )
    return client


required_admin.__signature__ = Signature(_parameters(admin_client))  # type: ignore[attr-defined]


with_required_admin = options_from(required_admin, "admin")
"""A decorator that adds the options of `admin_client` to a command that needs a broker. The command gets the
client as its argument `admin`."""


DEFAULTS: Final = "defaults"
"""The value of --broker-setting with the meaning: all settings that are not given have their defaults."""


class StatedSettings(NamedTuple):
    """The settings that a user stated with --broker-setting or --to-setting."""

    assignments: list[str]
    """Each given setting as `name=value`."""
    others_are_defaults: bool


def broker_settings(version: str | None, given: Sequence[str] | None) -> BrokerSettings:
    """Return the settings of a broker version, changed by the values of --broker-setting."""
    from ackwell.broker.broker_settings import BrokerSettings

    try:
        return BrokerSettings.of(version or BrokerSettings.DEFAULT_VERSION).with_values(assignments(given))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def stated_settings(given: Sequence[str] | None) -> StatedSettings:
    """Parse the values of --broker-setting or --to-setting."""
    return StatedSettings(list(assignments(given)), DEFAULTS in (given or ()))


def assignments(given: Sequence[str] | None) -> Iterator[str]:
    """Yield each setting in `given` and in the `broker.conf` files that `given` names, as `name=value`.

    An item of `given` is a setting or the path of a file. A file may be of another release, so an unknown
    name in a file is ignored with a warning.
    """
    from ackwell.broker.broker_settings import is_setting, suggestion
    from ackwell.broker.properties import properties
    from ackwell.regular_files import read_regular
    from ackwell.sources import SourceKind, source_kind

    for value in given or ():
        path = Path(value)
        if value == DEFAULTS:
            continue
        if "=" in value and not path.is_file():
            yield value
            continue
        try:
            data = read_regular(path)
            if (kind := source_kind(data)) not in (SourceKind.TEXT, SourceKind.EMPTY, SourceKind.BINARY):
                raise typer.BadParameter(f"{value!r} is not a file of settings: {kind}")
            text = data.decode()
        except OSError as error:
            raise typer.BadParameter(
                f"{value!r} is neither NAME=VALUE nor a file that can be read: {error.strerror}"
            ) from None
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{value!r} is not a file of settings: it holds no text") from None
        for name, setting in properties(text):
            # Like a broker, keep the default of a setting without a value.
            if not setting.strip():
                continue
            if is_setting(name):
                yield f"{name}={setting.strip()}"
            else:
                from ackwell.cli.console import warn

                warn(f"{path}: ignored the unknown setting {name!r}{suggestion(name)}")
