"""SWIM: a MapReduce job a line, by tabs: id, submit time (s), gap (s), and the bytes of map input, shuffle and output.

The format has no run times, so each job becomes a gang of slots. A map reads one block, a reducer takes one share of
the shuffle, up to MAX_SLOTS of each; all slots are held for the job's time: START_S, and all bytes at SLOT_BYTES_PER_S
for each slot.
"""

from __future__ import annotations

from gosched.core.limits import MAX_DURATION_MS
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.sim.cluster.trace import COMMAND, Trace, TraceJob, bad_line, in_order

FIELDS = 6
BLOCK_BYTES = 128 << 20  # of a map's input
SHARE_BYTES = 1 << 30  # of the shuffle, for one reducer
MAX_SLOTS = 256  # of a job's maps, and of its reducers
START_S = 10
SLOT_BYTES_PER_S = 20 << 20
SLOT = Resources(cpu_millis=1000, memory_bytes=2 << 30)

_MAX_BYTES = 1 << 60


def read(text: str, source: str) -> Trace:
    """Read a SWIM trace. Raises ConfigError."""
    jobs = []
    for line, words in enumerate(text.splitlines(), start=1):
        if words.strip():
            jobs.append(_job(words.split("\t"), source, line))
    return Trace(jobs=in_order(jobs))


def _job(fields: list[str], source: str, line: int) -> TraceJob:
    if len(fields) != FIELDS:
        raise bad_line(source, line, f"{len(fields)} fields between tabs; a job of this format has {FIELDS}")
    numbers = [_number(word, source, line, place) for place, word in enumerate(fields[1:], start=2)]
    submit_s, _, read_bytes, shuffled, written = numbers
    maps = _slots(read_bytes, BLOCK_BYTES)
    groups = [TaskGroup(name="map", count=maps, resources=SLOT, command=COMMAND)]
    if shuffled:
        groups.append(TaskGroup(name="reduce", count=_slots(shuffled, SHARE_BYTES), resources=SLOT, command=COMMAND))
    slots = sum(group.count for group in groups)
    duration_ms = START_S * 1000 + (read_bytes + shuffled + written) * 1000 // (slots * SLOT_BYTES_PER_S)
    if max(duration_ms, submit_s * 1000) > MAX_DURATION_MS:
        raise bad_line(source, line, "a time of more than a year")
    spec = JobSpec(
        name=fields[0],
        queue="default",
        gang=GangPolicy(min_tasks=slots),
        groups=tuple(groups),
        estimate_ms=duration_ms,
    )
    return TraceJob(at_ms=submit_s * 1000, spec=spec, duration_ms=duration_ms)


def _slots(amount: int, each: int) -> int:
    return max(1, min(-(-amount // each), MAX_SLOTS))


def _number(word: str, source: str, line: int, place: int) -> int:
    if not word.strip().isdigit() or int(word) > _MAX_BYTES:
        raise bad_line(source, line, f"expected a whole number in field {place}, got {word!a}")
    return int(word)
