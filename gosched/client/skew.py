"""Warnings about a client, masters and agents whose releases do not go together.

Invariant: one release apart, as an upgrade goes, is fine; no program is newer than the masters that it talks to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gosched.client.upgrade import BadVersion, Release, is_one_step, parse_release


def warnings(client: str, masters: Mapping[str, str], agents: Mapping[str, str]) -> list[str]:
    """Return a line for each kind of skew; masters and agents are versions by name, empty where not known."""
    known = {name: release for name, version in masters.items() if (release := _release(version))}
    if not known:
        return []
    oldest, newest = min(known, key=known.__getitem__), max(known, key=known.__getitem__)
    lines = []
    if not is_one_step(known[oldest], known[newest]):
        lines.append(
            f"master {newest} ({masters[newest]}) is more than one release ahead of {oldest} ({masters[oldest]}):"
            " upgrade one release at a time"
        )
    mine = _release(client)
    if mine and mine > known[oldest]:
        lines.append(
            f"goschedctl {client} is newer than master {oldest} ({masters[oldest]}): use goschedctl {masters[oldest]},"
            " or upgrade the masters"
        )
    elif mine and _is_far_behind(mine, known[newest]):
        lines.append(
            f"goschedctl {client} is more than one release behind master {newest} ({masters[newest]}): upgrade"
            " goschedctl"
        )
    releases = {name: release for name, version in agents.items() if (release := _release(version))}
    ahead = [name for name, release in releases.items() if release > known[oldest]]
    behind = [name for name, release in releases.items() if _is_far_behind(release, known[newest])]
    if ahead:
        lines.append(f"{_some(ahead)} newer than master {oldest} ({masters[oldest]}): upgrade masters before agents")
    if behind:
        lines.append(f"{_some(behind)} more than one release behind master {newest} ({masters[newest]}): upgrade them")
    return lines


def _release(version: str) -> Release | None:
    try:
        return parse_release(version)
    except BadVersion:  # of a release that does not say
        return None


def _is_far_behind(old: Release, new: Release) -> bool:
    return old < new and not is_one_step(old, new)


def _some(names: Iterable[str]) -> str:
    first, *more = sorted(names)
    return f"agent {first} is" if not more else f"agent {first} and {len(more)} more are"
