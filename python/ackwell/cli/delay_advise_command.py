"""`ackwell delay-advise` recommends a bucket width for delayed messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ackwell.cli.console import out, print_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TIME_MAX_MS = 36_500 * UNITS_MS["d"]
"""Some hundred years: sums of such times are far from the end of int64."""
SAMPLE = 200_000
SEED = 1


def delay_advise(
    delays: Annotated[
        str,
        typer.Argument(
            metavar="DELAYS",
            help="fixed:60s, uniform:0s..7d, exponential:10m (its mean), or a file: events with deliver_at, "
            "or a text (.txt) with a delay a line (60s, or 60000 for milliseconds).",
        ),
    ],
    tolerance: Annotated[
        str, typer.Option(metavar="TIME", help="How early or late a message may come: 500ms, 1s.")
    ] = "1s",
    rate: Annotated[float, typer.Option(metavar="N", help="Messages a second, delayed or not.")] = 1_000.0,
    share: Annotated[
        float, typer.Option(metavar="X", help="The share of the messages that is delayed.")
    ] = 1.0,
    entries_per_ledger: Annotated[
        int, typer.Option(min=1, metavar="N", help="The broker's setting of that name.")
    ] = 50_000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, an object.")] = False,
) -> None:
    """Recommend a width of time buckets; show the bytes for a message, and the least any index needs.

    Examples
    --------
        ackwell delay-advise fixed:60s --tolerance 1s
        ackwell delay-advise uniform:0s..7d --rate 10000 --share 0.2
        ackwell delay-advise trace.jsonl.gz --tolerance 500ms
    """
    from dataclasses import asdict

    from ackwell.diagnosis.delay_advice import advise

    try:
        advice = advise(
            _delays(delays),
            milliseconds(tolerance),
            messages_per_second=rate,
            delayed_share=share,
            entries_per_ledger=entries_per_ledger,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if as_json:
        print_json(asdict(advice))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("bits", "width", "buckets", "bytes a message"):
        table.add_column(name, justify="right")
    for width in advice.widths:
        mark = " *" if width.bits == advice.bits else ""
        table.add_row(
            f"{width.bits}",
            f"{width.width_ms:,} ms",
            f"{width.buckets:,}",
            f"{width.bytes_per_message:.3f}{mark}",
        )
    out.print(table)
    for what, figure in (
        ("a wheel with that tick", advice.wheel_bytes_per_message),
        ("a wheel exact to the millisecond", advice.exact_wheel_bytes_per_message),
        ("a heap", advice.heap_bytes_per_message),
        ("the least any index needs with that tick", advice.entropy_bound_bytes),
        ("the least to the millisecond", advice.exact_entropy_bound_bytes),
    ):
        out.print(f"{what}: {figure:.3f} bytes a message", highlight=False)
    out.print(f"of {advice.messages:,} delays; use {advice.recommended}", highlight=False)
    out.print("in a Pulsar broker:", highlight=False)
    for name, value in pulsar_settings(advice.bits).items():
        out.print(f"    {name}={value}", highlight=False)


def pulsar_settings(bits: int) -> dict[str, str]:
    """Return the broker settings that give buckets of `1 << bits` ms.

    A broker trims as many low bits of a delivery time as the tick time has, rounded down to a power of two.
    """
    return {
        "delayedDeliveryEnabled": "true",
        "delayedDeliveryTickTimeMillis": str(1 << bits),
        "isDelayedDeliveryDeliverAtTimeStrict": "true  # false: up to one tick early, never late",
    }


def milliseconds(text: str, unit: str | None = None) -> int:
    """Read a time such as `500ms`, `60s`, `10m`, `1h` or `7d`; a number without a unit has `unit`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", text.strip())
    if match is None:
        raise ValueError(f"not a time: {text!r}; expected 500ms, 60s, 10m, 1h or 7d")
    unit = match[2] or unit or ("ms" if not float(match[1]) else None)
    if unit is None:
        raise ValueError(f"a time without a unit: {text!r}; write {match[1]}ms, {match[1]}s or {match[1]}m")
    time_ms = float(match[1]) * UNITS_MS[unit]
    if time_ms > TIME_MAX_MS:
        raise ValueError(f"a time of more than {TIME_MAX_MS // UNITS_MS['d']:,} days: {text[:40]!r}")
    return round(time_ms)


def _delays(text: str) -> NDArray[np.int64]:
    """Draw delays from a distribution, or read them."""
    import numpy as np

    kind, separator, rest = text.partition(":")
    # The same seed each time: advice does not change from one call to the next.
    random = np.random.default_rng(SEED)
    if separator and kind == "fixed":
        return np.full(SAMPLE, milliseconds(rest), dtype=np.int64)
    if separator and kind == "uniform":
        low, _, high = rest.partition("..")
        return random.integers(milliseconds(low), milliseconds(high), SAMPLE, endpoint=True)
    if separator and kind == "exponential":
        return random.exponential(milliseconds(rest), SAMPLE).astype(np.int64)
    path = Path(text)
    if not path.exists():
        raise ValueError(f"{text!r} is neither a file nor fixed:60s, uniform:0s..7d or exponential:10m")
    if path.suffix == ".txt":
        lines = path.read_text(encoding="utf-8").split()
        return np.array([milliseconds(line, "ms") for line in lines], dtype=np.int64)
    return _published(path)


def _published(path: Path) -> NDArray[np.int64]:
    """Take the delays from the publishes of a trace."""
    import numpy as np

    from ackwell.replay.events import Kind
    from ackwell.replay.files import read_events

    found = [
        max(event.deliver_at_ms - event.time_ms, 0)
        for event in read_events([path])
        if event.kind is Kind.PUBLISH and event.deliver_at_ms is not None and event.time_ms is not None
    ]
    if not found:
        raise ValueError(f"{path}: no publish in it has a delivery time")
    return np.array(found, dtype=np.int64)
