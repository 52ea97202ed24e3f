"""Job specs as job files: the inverse of `parse_job_file`.

Invariant: a spec that came from a job file is written as one that gives the same spec; keys that say the default are
left out. A spec that no job file says is refused (floors of groups that follow no percent), or becomes the nearest one
that a file says: sorted, and on nodes that have its runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from signal import Signals
from typing import Any

import yaml

from gosched.config.jobs.group_writer import group_keys
from gosched.config.jobs.job_model import PRIORITY_CLASSES
from gosched.config.jobs.jobfile import FLAT_GROUP
from gosched.config.jobs.time_model import DEFAULT_GRACE_MS
from gosched.config.written import differing, duration
from gosched.core.limits import REPLACE_AFTER_MS
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import MemberFailure, Preemption

Keys = dict[str, Any]


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes text of several lines as a block, as people do."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text.rstrip("\n") else None
    ),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unwritable(ValueError):
    """No job file says this; the message says what."""


def job_keys(spec: JobSpec) -> Keys:
    """Return the job as the keys of a job file, in the order of the documentation. Raises Unwritable."""
    floor = _floor(spec)
    groups = {group.name: group_keys(group) for group in spec.groups}
    tasks = groups[FLAT_GROUP] if [*groups] == [FLAT_GROUP] else {"tasks": groups}
    return {
        "name": spec.name,
        **differing(
            queue=(spec.queue, "default"),
            tenant=(spec.tenant, "default"),
            priority=(_priority(spec.priority), "normal"),
            labels=(dict(spec.labels), {}),
            gang=(_gang(spec, floor), {}),
        ),
        **tasks,
        **differing(
            retry=(_retry(spec), {}),
            on_disconnect=(_word(spec.on_disconnect), "keep"),
            preemption=(_preemption(spec.preemption), {}),
            begin=(_moment(spec.begin_at_ms, spec.begin_in_ms), {}),
            deadline=(_deadline(spec), {}),
            estimate=(spec.estimate_ms and duration(spec.estimate_ms), 0),
            timeout=(spec.timeout_ms and duration(spec.timeout_ms), 0),
            stop_grace=(duration(spec.stop_grace_ms), "10s"),
            array=(_array(spec.array), {}),
            schedule=(_schedule(spec), {}),
            after=({wanted.job: _word(wanted.condition) for wanted in spec.after}, {}),
            hold=(spec.hold, False),
        ),
    }


def job_text(spec: JobSpec) -> str:
    """Return the job as the text of a job file. Raises Unwritable."""
    return str(yaml.dump(job_keys(spec), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _floor(spec: JobSpec) -> int | str:
    """Return what `gang.min` says."""
    if not any(group.min_count for group in spec.groups):
        return "all"
    if len(spec.groups) == 1:
        return spec.groups[0].min_count
    for percent in range(1, 101):
        if all(-(-group.count * percent // 100) == group.floor for group in spec.groups):
            return f"{percent}%"
    floors = ", ".join(f"{group.floor} of {group.count} {group.name}" for group in spec.groups)
    raise Unwritable(f"no job file says how many tasks start together ({floors}): gang.min is one percent for all")


def _gang(spec: JobSpec, floor: int | str) -> Keys:
    gang = spec.gang
    usual_ms = REPLACE_AFTER_MS if gang.on_member_failure is MemberFailure.CONTINUE else 0
    return differing(
        min=(floor, "all"),
        wait=(duration(gang.wait_ms), "0s"),
        on_member_failure=(_word(gang.on_member_failure), "restart_gang"),
        ends_with=(gang.ends_with, ""),
        initial=(gang.initial_tasks, 0),
        replace_after=(duration(gang.replace_after_ms), duration(usual_ms)),
    )


def _retry(spec: JobSpec) -> Keys:
    return differing(
        max=(spec.retry.max_restarts, 3),
        backoff=(duration(spec.retry.backoff_ms), "0s"),
        when=([_word(cause) for cause in spec.retry.when], ["node_lost", "preempted"]),
    )


def _preemption(rules: Preemption) -> Keys:
    known = {int(signal): signal.name for signal in Signals}
    number = rules.checkpoint_signal
    return differing(
        policy=(_word(rules.policy), "lower_priority"),
        preemptible=(rules.preemptible, True),
        grace=(duration(rules.grace_ms), duration(DEFAULT_GRACE_MS if number else 0)),
        checkpoint_signal=(known.get(number, number), 0),
        min_runtime=(duration(rules.min_runtime_ms), "0s"),
        cheap=(rules.cheap, False),
    )


def _deadline(spec: JobSpec) -> Keys:
    if not spec.deadline_at_ms and not spec.deadline_in_ms:
        return {}
    when = _moment(spec.deadline_at_ms, spec.deadline_in_ms)
    return {**when, **differing(on_miss=(_word(spec.on_miss), "continue"))}


def _moment(at_ms: int, in_ms: int) -> Keys:
    """Return a moment, or a time after the submission; empty: neither."""
    if at_ms:
        return {"at": (_EPOCH + timedelta(milliseconds=at_ms)).isoformat()}
    return {"in": duration(in_ms)} if in_ms else {}


def _array(array: Array) -> Keys:
    if not array.step and not array.matrix:
        return {}
    step = f":{array.step}" if array.step != 1 else ""
    elements: Keys = (
        {"range": f"{array.first}-{array.last}{step}"}
        if array.step
        else {"matrix": {axis.name: list(axis.values) for axis in array.matrix}}
    )
    return {
        **elements,
        **differing(parallelism=(array.parallelism, 0), max_failures=(array.max_failures, -1)),
    }


def _schedule(spec: JobSpec) -> Keys:
    if not spec.cron:
        return {}
    overlap = _word(spec.overlap) if spec.overlap else "allow"
    return {"cron": spec.cron, **differing(timezone=(spec.timezone, "UTC"), overlap=(overlap, "allow"))}


def _priority(priority: int) -> int | str:
    names: Mapping[int, str] = {number: name for name, number in PRIORITY_CLASSES.items()}
    return names.get(priority, priority)


def _word(value: IntEnum) -> str:
    return value.name.lower()
