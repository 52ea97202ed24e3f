"""Below its own feature level this release applies a log as the release before did: outcomes, digests, snapshots.

This is what allows masters of both to run side by side. A change of what `apply` does or keeps, at a level that the
previous release knows, fails here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from random import Random

import pytest

from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Command
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Accepted, Outcome
from gosched.core.records.queue import Queue
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.applier import Applier
from gosched.replication.snapshots.snapshot import Snapshot, decode, encode, restored
from gosched.wire.batch import encode_batch, encode_command
from tests.state_machine import chaos, closing, test_relations
from tests.state_machine.cluster import registration
from tests.upgrade import previous

# Prints a line for each entry: the digest and the outcomes. Then it reads this release's snapshot and writes its own.
REPLAY = """
import json, sys
from pathlib import Path
from gosched.replication.applier import Applier
from gosched.replication.snapshot import Snapshot, decode, encode, restored
log, theirs, ours = map(Path, sys.argv[1:])
applier, data, at = Applier(), log.read_bytes(), 0
while at < len(data):
    length = int.from_bytes(data[at : at + 4], "big")
    _, applied = applier.apply(data[at + 4 : at + 4 + length])
    at += 4 + length
    said = []
    for outcome in (a.outcome for a in applied):
        if type(outcome).__name__ == "Accepted":
            refusals = [[r.job_id, r.detail] for r in outcome.refusals]
            said.append([outcome.subject, outcome.unchanged, refusals])
        else:
            said.append([int(outcome.code), outcome.detail])
    print(json.dumps([applier.state.digest(), said]))
print(json.dumps([restored(decode(theirs.read_bytes())).digest(), []]))
entry = (b"", 1, 1)
ours.write_bytes(b"".join(encode(Snapshot(applier.state.freeze(), entry, entry))))
"""

Course = Callable[[Random, ClusterState], Iterator[Command]]


def ordinary(r: Random, state: ClusterState) -> Iterator[Command]:
    return chain(chaos.opening(), chaos.commands(r, state, 2500))


def closed_and_frozen(r: Random, state: ClusterState) -> Iterator[Command]:
    return chain(chaos.opening(), closing.commands(r, state, 2500))


def related(r: Random, state: ClusterState) -> Iterator[Command]:
    """Arrays, schedules, dependencies, timers."""
    for body in (SetQueues(queues=(Queue(path="default"),)), registration("n1"), registration("n2")):
        yield Command(body=body, at_ms=1)
    for n in range(2500):
        body = r.choice(test_relations.KINDS)(r, state, n)
        yield Command(body=body, at_ms=state.clock_ms + r.choice((0, 1, 1, 3)))


@pytest.mark.parametrize("course", [ordinary, closed_and_frozen, related])
@pytest.mark.parametrize("seed", [1, 20261122])
def test_the_previous_release_applies_the_same_log_to_the_same_state(tmp_path: Path, course: Course, seed: int) -> None:
    applier, log, lines = Applier(), bytearray(), []
    assert applier.state.feature_level == FeatureLevel.FIRST
    for command in course(Random(seed), applier.state):
        entry = encode_batch("p", 1, [encode_command(command)], level=applier.state.feature_level)
        log += len(entry).to_bytes(4, "big") + entry
        _, applied = applier.apply(entry)
        lines.append([applier.state.digest(), [_said(a.outcome) for a in applied]])
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    (tmp_path / "log").write_bytes(log)
    last = (b"", 1, 1)
    ours.write_bytes(b"".join(encode(Snapshot(applier.state.freeze(), last, last))))
    source = previous.unpack(tmp_path / "previous")
    printed = previous.run(source, REPLAY, [str(tmp_path / "log"), str(ours), str(theirs)], timeout_s=100)
    seen = [json.loads(line) for line in printed.splitlines()]
    first = next((i for i, (line, other) in enumerate(zip(lines, seen, strict=False)) if line != other), None)
    assert first is None, f"entry {first}: this release says {lines[first or 0]}, the previous one {seen[first or 0]}"
    assert seen[-1][0] == lines[-1][0], "this release's snapshot is the same state to the previous one"
    assert restored(decode(theirs.read_bytes())).digest() == lines[-1][0], "and the other way round"
    assert len(seen) == len(lines) + 1


def _said(outcome: Outcome) -> list[object]:
    if isinstance(outcome, Accepted):
        return [outcome.subject, outcome.unchanged, [[r.job_id, r.detail] for r in outcome.refusals]]
    return [int(outcome.code), outcome.detail]
