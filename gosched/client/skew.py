"""Which releases of the client, the masters and the agents go together, and what is said where they do not.

Invariant: programs at most one minor release apart work together; none is newer than the masters that it talks to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})(\D|$)")


def warnings(client: str, masters: Mapping[str, str], agents: Mapping[str, str]) -> list[str]:
    """Return a line for each kind of skew; masters and agents are versions by name, empty where not known."""
    known = {name: release for name, version in masters.items() if (release := _release(version))}
    if not known:
        return []
    oldest, newest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    lines = []
    if _is_far(known[oldest], known[newest]):
        lines.append(
            f"master {newest} ({masters[newest]}) is more than one minor release ahead of {oldest} ({masters[oldest]}):"
            " upgrade one minor release at a time"
        )
    mine = _release(client)
    if mine and mine > known[oldest]:
        lines.append(
            f"goschedctl {client} is newer than master {oldest} ({masters[oldest]}): use goschedctl {masters[oldest]},"
            " or upgrade the masters"
        )
    elif mine and _is_far(mine, known[newest]):
        lines.append(
            f"goschedctl {client} is more than one minor release behind master {newest} ({masters[newest]}): upgrade"
            " goschedctl"
        )
    releases = {name: release for name, version in agents.items() if (release := _release(version))}
    ahead = [name for name, release in releases.items() if release > known[oldest]]
    behind = [name for name, release in releases.items() if release < known[newest] and _is_far(release, known[newest])]
    if ahead:
        lines.append(f"{_some(ahead)} newer than master {oldest} ({masters[oldest]}): upgrade masters before agents")
    if behind:
        lines.append(
            f"{_some(behind)} more than one minor release behind master {newest} ({masters[newest]}): upgrade them"
        )
    return lines


def _release(version: str) -> tuple[int, int] | None:
    found = _RELEASE.match(version)
    return (int(found[1]), int(found[2])) if found else None


def _is_far(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] != other[0] or abs(one[1] - other[1]) > 1


def _some(names: Iterable[str]) -> str:
    first, *more = sorted(names)
    return f"agent {first} is" if not more else f"agent {first} and {len(more)} more are"
