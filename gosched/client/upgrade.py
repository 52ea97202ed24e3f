"""Whether a rolling upgrade may go on now: a pure function of what the cluster and each master say.

Invariant: what is not known counts as a reason to wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gosched.api.status import MasterHealth, Status

MAX_LAG = 100  # entries that a master may still have to apply
UNKNOWN = "an older release"
_RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\D.*)?")

Release = tuple[int, int]


class BadVersion(ValueError):
    """One line that says what a version looks like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was looked at, and whether it allows the upgrade."""

    name: str
    ok: bool
    #: What was found, and, where it is not ok, what to do.
    detail: str


def parse_release(text: str) -> Release:
    """Return the parts of a version that count: `0.2` of `0.2.1`. Raises BadVersion."""
    found = _RELEASE.fullmatch(text)
    if found is None:
        raise BadVersion(f"{text!a} is no version: write one such as 0.2.0")
    return int(found[1]), int(found[2])


def upgrade_checks(status: Status, healths: Mapping[str, MasterHealth | str], target: str | None) -> list[Check]:
    """Return the checks before a step. `healths`: of each master, or why it does not say. `target`: the release that is
    to be installed; None: not known yet. Raises BadVersion."""
    wanted = None if target is None else parse_release(target)
    known = {master: health for master, health in healths.items() if isinstance(health, MasterHealth)}
    return [
        _masters(status, healths),
        _log(known),
        _clocks(status),
        _releases(known, wanted, target),
        _features(status, known, wanted),
        _disk(known),
    ]


def _masters(status: Status, healths: Mapping[str, MasterHealth | str]) -> Check:
    problems = [f"{m.id} does not answer" for m in status.masters if not m.healthy]
    problems += [f"{master}: {why}" for master, why in healths.items() if isinstance(why, str)]
    leaders = {health.leader for health in healths.values() if isinstance(health, MasterHealth) and health.release}
    if len(leaders - {""}) > 1:
        problems.append(f"they follow different leaders ({', '.join(sorted(leaders))})")
    problems += [
        f"{master} follows no leader"
        for master, health in healths.items()
        if isinstance(health, MasterHealth) and health.release and not health.leader
    ]
    if problems:
        return Check(name="masters", ok=False, detail=f"{'; '.join(problems)}: wait, or fix it first")
    return Check(name="masters", ok=True, detail=f"{len(status.masters)} of {len(status.masters)} are healthy")


def _log(known: Mapping[str, MasterHealth]) -> Check:
    committed = max([health.commit_index for health in known.values()], default=0)
    behind = {m: committed - h.applied_index for m, h in known.items() if h.release}
    late = [f"{master} has {lag} entries to apply" for master, lag in behind.items() if lag > MAX_LAG]
    if late:
        return Check(name="log", ok=False, detail=f"{', '.join(late)}: wait until it has caught up")
    return Check(name="log", ok=True, detail=f"all have caught up with entry {committed}")


def _clocks(status: Status) -> Check:
    offsets = [m.clock_offset_ms for m in status.masters if m.clock_offset_ms is not None]
    if status.clock_problem:
        return Check(name="clocks", ok=False, detail=status.clock_problem)
    apart = (max(offsets) - min(offsets)) / 1000 if offsets else 0.0
    return Check(name="clocks", ok=True, detail=f"at most {apart:.1f} s apart")


def _releases(known: Mapping[str, MasterHealth], wanted: Release | None, target: str | None) -> Check:
    runs = {master: health.release or UNKNOWN for master, health in known.items()}
    mixed = len(set(runs.values())) > 1
    shown = ", ".join(f"{m} {r}" for m, r in runs.items()) if mixed else next(iter(runs.values()), "")
    parsed = {parse_release(release): release for release in runs.values() if release != UNKNOWN}
    if not parsed:
        return Check(name="releases", ok=False, detail=f"masters run {shown or UNKNOWN}: which one is not known")
    oldest = min(parsed)
    if not is_one_step(oldest, max(parsed)):
        detail = f"{shown}: more than one release apart; bring the older ones to {_text(_after(oldest))} first"
        return Check(name="releases", ok=False, detail=detail)
    if wanted is not None and not is_one_step(oldest, wanted):
        step = _text(_after(oldest))
        detail = f"{parsed[oldest]} to {target} skips a release: upgrade all masters to {step} first, and finish that"
        return Check(name="releases", ok=False, detail=detail)
    return Check(name="releases", ok=True, detail=shown if target is None else f"{shown}; {target} is to come")


def _features(status: Status, known: Mapping[str, MasterHealth], wanted: Release | None) -> Check:
    newest = max([m.newest_feature_level for m in status.masters], default=0)
    now = status.feature_level
    releases = {parse_release(health.release) for health in known.values() if health.release}
    mixed = len(releases) > 1 or any(not health.release for health in known.values())
    if wanted is not None and releases and wanted < min(releases):
        if now < newest:
            detail = f"level {now}: going back is possible (docs/operations/upgrades.md)"
            return Check(name="features", ok=True, detail=detail)
        only = "the release before may not know it; the only way back is a backup (docs/operations/masters.md)"
        return Check(name="features", ok=False, detail=f"level {now}: {only}")
    if now == newest:
        return Check(name="features", ok=True, detail=f"level {now}, the newest that is known")
    if mixed or wanted in releases:
        return Check(name="features", ok=True, detail=f"level {now}, {newest} is known: an upgrade is under way")
    detail = f"level {now}, {newest} is known: finish the last upgrade first (goschedctl cluster finalize-upgrade)"
    return Check(name="features", ok=False, detail=detail)


def _disk(known: Mapping[str, MasterHealth]) -> Check:
    short = [
        f"{master} has {h.disk_free_bytes >> 20} MiB free and may need {h.disk_needed_bytes >> 20}"
        for master, h in known.items()
        if h.release and h.disk_free_bytes < h.disk_needed_bytes
    ]
    if short:
        return Check(name="disk", ok=False, detail=f"{'; '.join(short)}: free disk space")
    least = min([h.disk_free_bytes for h in known.values() if h.release], default=0)
    return Check(name="disk", ok=True, detail=f"at least {least >> 20} MiB are free")


def is_one_step(old: Release, new: Release) -> bool:
    """Tell whether an upgrade may go from one to the other; backward, too: that is possible until the feature level is
    raised."""
    first, second = sorted((old, new))
    return second in (first, _after(first), (first[0] + 1, 0))


def _after(release: Release) -> Release:
    return release[0], release[1] + 1


def _text(release: Release) -> str:
    return f"{release[0]}.{release[1]}"
