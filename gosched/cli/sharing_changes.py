"""What `queue apply` and `quota apply` would change, as lines: what is added, changed key by key, and removed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gosched.api.status import QuotaStatus, Status
from gosched.core.features import FeatureLevel
from gosched.core.records.tenant import Quota

Keys = Mapping[str, Any]


def change_lines(noun: str, before: Mapping[str, Keys], after: Mapping[str, Keys]) -> list[str]:
    """Return `queue research changed` and below it `  capacity_pct: 60 -> 50`, for each that is not the same."""
    lines: list[str] = []
    for name, keys in after.items():
        old = before.get(name)
        if old is None:
            lines += [f"{noun} {name} added", *_fields({}, keys)]
        elif old != keys:
            lines += [f"{noun} {name} changed", *_fields(old, keys)]
    return lines + [f"{noun} {name} removed" for name in before if name not in after]


def quota_changes(before: Sequence[QuotaStatus], after: Sequence[Quota]) -> list[str]:
    """Return the lines of quotas that take the place of all others; one without any limit is none."""
    from gosched.config.queue_writer import quota_keys

    old = {found.quota.tenant: quota_keys(found.quota) for found in before}
    new = {quota.tenant: quota_keys(quota) for quota in after}
    return change_lines("quota", {t: keys for t, keys in old.items() if keys}, {t: k for t, k in new.items() if k})


def knows_tries(status: Status) -> bool:
    """Return whether every master knows requests that only try: a leader of an earlier release carries them out."""
    return status.feature_level >= FeatureLevel.BOUNDED


def _fields(before: Keys, after: Keys) -> list[str]:
    keys = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    if not before:
        return [f"  {key}: {_shown(after[key])}" for key in keys]
    return [f"  {key}: {_shown(before.get(key))} -> {_shown(after.get(key))}" for key in keys]


def _shown(value: object) -> str:
    if value is None:
        return "(default)"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {item}" for key, item in value.items()) + "}"
    return json.dumps(value) if isinstance(value, list) else str(value)
