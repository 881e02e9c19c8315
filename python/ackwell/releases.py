"""Releases of the broker: their order, and the releases whose defaults and rules are known."""

from __future__ import annotations

from typing import Final

RELEASES: Final = ("4.0.7", "4.2.4", "5.0.0-M1", "5.0.1")
"""The known releases, oldest first. Their defaults were read from the broker by reflection, and their
behaviour was compared with running brokers."""


def release_number(version: str) -> tuple[int, ...]:
    """Return a release as a tuple of numbers that can be compared. A milestone is less than its release.

    >>> release_number("4.0.13") > release_number("4.0.7") > release_number("4.0.7-M1")
    True
    """
    release, _, milestone = version.partition("-")
    numbers = [int(part) if part.isdecimal() else 0 for part in release.split(".")]
    return (*[*numbers, 0, 0, 0][:3], 0 if milestone else 1)


def minor_version(version: str) -> str:
    """Return the minor version of a broker release.

    >>> minor_version("4.2.4"), minor_version("5.0.0-M1")
    ('4.2', '5.0')
    """
    return ".".join(version.split("-")[0].split(".")[:2])


MINOR_VERSIONS: Final = tuple(dict.fromkeys(map(minor_version, RELEASES)))
"""The minor versions of the known releases. If only a minor version is given, its last known release is
meant."""


def full_release(version: str) -> str:
    """Return the last known release of a minor version such as `5.0`.

    If the version is not a known minor version, return it unchanged.

    >>> full_release("5.0"), full_release("4.2.5"), full_release("3.3")
    ('5.0.1', '4.2.5', '3.3')
    """
    return next((known for known in reversed(RELEASES) if minor_version(known) == version), version)


def known_release(version: str) -> str | None:
    """Return the known release whose defaults apply to a version; None if its minor version is unknown.

    For a patch release, this is the last known patch release of the minor version. For a milestone, it is the
    last known milestone.

    >>> [known_release(version) for version in ("4.2", "4.2.5", "5.0.0", "5.0.0-M2", "4.1.3")]
    ['4.2.4', '4.2.4', '5.0.1', '5.0.0-M1', None]
    """
    same_minor = [known for known in RELEASES if minor_version(known) == minor_version(version)]
    same_kind = [known for known in same_minor if ("-" in known) == ("-" in version)]
    return next(reversed(same_kind or same_minor), None)
