"""Tables of subscriptions: whole names or names without their middle, and every number whole."""

from io import StringIO

import pytest
from rich.console import Console

from ackwell.cli.subscription_table import print_subscriptions

TOPIC = "persistent://a-tenant-of-some-length/a-namespace-of-some-length/orders-of-the-day-partition-17"
SUBSCRIPTION = "billing-and-invoices-of-the-day"
VALUES = ["123:456789", "1,234,567", "17,500 to 30,000"]


def printed(width: int, subscription: str = SUBSCRIPTION) -> str:
    text = StringIO()
    rows = [(TOPIC, subscription, VALUES), ("persistent://t/n/x", "s", ["1:0", "0", "0"])]
    print_subscriptions(("mark-delete", "ranges", "redelivered"), rows, Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize("width", [40, 80, 99, 100, 120, 200])
def test_no_name_breaks_and_no_number_is_cut_off(width: int) -> None:
    text = printed(width)
    assert all(value in text for value in VALUES)
    if text.startswith("\n"):
        assert f"{TOPIC.removeprefix('persistent://')} · {SUBSCRIPTION}" in text
    else:
        assert all(len(line) <= width for line in text.splitlines())
        assert len(text.splitlines()) == 3


def test_a_wide_console_has_a_row_each_and_a_narrow_one_a_block() -> None:
    assert len(printed(200).splitlines()) == 3
    assert TOPIC.removeprefix("persistent://") in printed(200)
    assert printed(60).splitlines()[1:] == [
        f"{TOPIC.removeprefix('persistent://')} · {SUBSCRIPTION}",
        "  mark-delete: 123:456789",
        "  ranges: 1,234,567",
        "  redelivered: 17,500 to 30,000",
        "",
        "t/n/x · s",
        "  mark-delete: 1:0",
        "  ranges: 0",
        "  redelivered: 0",
    ]


def test_a_name_with_line_breaks_and_control_characters_stays_on_one_line() -> None:
    text = printed(200, "a\nb\x1b[2J")
    assert len(text.splitlines()) == 3
    assert "\x1b" not in text
