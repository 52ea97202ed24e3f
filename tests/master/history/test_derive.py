"""What a log makes in the history: the same on each master, whatever the batches; and its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import Action, CancelJob, ControlJob, DropFinishedJobs, NoteWaitReasons, WaitNote
from gosched.core.commands.nodes import ControlNode, NodeAction
from gosched.core.commands.plans import Cause, Eviction
from gosched.core.features import NEWEST_LEVEL, FeatureLevel
from gosched.core.limits import MAX_NOTES
from gosched.core.outcome import Code, Outcome
from gosched.core.records.job import JobState
from gosched.core.records.node import ClosedBy
from gosched.core.records.task import TaskState
from gosched.core.spec.policies import Preemption, PreemptionPolicy
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.restore import restore
from gosched.master.history.derive import Derived, derive
from gosched.master.history.kinds import Kind
from gosched.master.history.rows import Row, Table, ended_state, rows_of
from gosched.replication.applier import Applier
from gosched.replication.interface import AppliedCommand, Observer
from gosched.wire.batch import encode_batch, encode_command
from tests.state_machine import chaos
from tests.state_machine.cluster import Cluster, gang, group, retrying, spec

COMMANDS = 300
SEEDS = (1, 2)
EVICTS = Preemption(policy=PreemptionPolicy.LOWER_PRIORITY)


@cache
def log_of(seed: int) -> list[Command]:
    """Return commands at random, sensible and nonsensical ones."""
    state, r = Applier(), Random(seed)
    made = []
    first = [Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c"), at_ms=1)]
    for command in [*first, *chaos.opening()]:
        made.append(command)
        state.apply(_entry(state.state, [command]))
    for command in chaos.commands(r, state.state, COMMANDS):
        made.append(command)
        state.apply(_entry(state.state, [command]))
        if r.random() < 0.1 and (waiting := sorted(state.state.pending)):
            note = Command(body=NoteWaitReasons(notes=(WaitNote(job_id=r.choice(waiting), code="QUOTA"),)))
            made.append(note)
            state.apply(_entry(state.state, [note]))
    return made


def _entry(state: ClusterState, commands: Sequence[Command]) -> bytes:
    return encode_batch("p", 1, [encode_command(command) for command in commands], level=state.feature_level)


def history_of(commands: Sequence[Command], sizes: Iterator[int], *, restore_at: int = 0) -> list[Derived]:
    """Return what a master derives that gets these commands in entries of these sizes."""
    found: list[Derived] = []

    def observe(state: ClusterState, applied: AppliedCommand) -> None:
        if (derived := derive(state, applied)) is not None:
            found.append(derived)

    return _replay(commands, sizes, observe, found, restore_at)


def _replay(
    commands: Sequence[Command], sizes: Iterator[int], observe: Observer, found: list[Derived], restore_at: int
) -> list[Derived]:
    applier, at = Applier(), 0
    applier.observers.append(observe)
    while at < len(commands):
        # The first command raises the level, so it is in an entry of its own.
        size = 1 if not at else next(sizes)
        if restore_at and at <= restore_at < at + size:
            applier.state = restore(applier.state.freeze())
        applier.apply(_entry(applier.state, commands[at : at + size]))
        at += size
    return found


def some(seed: int) -> Iterator[int]:
    r = Random(seed)
    while True:
        yield r.choice((1, 1, 2, 5, 20, 100))


def ones() -> Iterator[int]:
    while True:
        yield 1


def rows(derived: Sequence[Derived]) -> list[tuple[Table, Row]]:
    return [row for one in derived for row in rows_of(one)]


def test_the_history_of_a_log_is_the_same_whatever_its_batches() -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        commands = log_of(seed)
        found = history_of(commands, ones())
        wanted = rows(found)
        assert rows(history_of(commands, some(seed))) == wanted, seed
        restored = rows(history_of(commands, ones(), restore_at=COMMANDS // 2))
        assert restored == wanted, f"{seed}: from a snapshot on, too"
        kinds.update(event.kind for one in found for event in one.events)
        submitted = Counter(e.job_id for one in found for e in one.events if e.kind == Kind.JOB_SUBMITTED)
        again = {job for job, count in submitted.items() if count > 1}  # real masters never give an id twice
        keys = Counter((table.name, row[: table.key]) for table, row in wanted if again.isdisjoint(row))
        assert not [key for key, count in keys.items() if count > 1], f"{seed}: a key names one row"
    met = {Kind.JOB_SUBMITTED, Kind.JOB_PLACED, Kind.JOB_STARTED, Kind.JOB_QUEUED, Kind.JOB_EVICTED, Kind.JOB_RETRIED}
    met |= {Kind.JOB_SUCCEEDED, Kind.JOB_FAILED, Kind.JOB_CANCELLED, Kind.TASK_FAILED, Kind.TASK_LOST, Kind.NODE_DEAD}
    assert met <= set(kinds), "the logs were worth the name"


def test_a_history_that_reads_the_state_after_the_whole_entry_would_differ() -> None:
    """The property can fail: this is what it guards against."""
    commands, found = log_of(SEEDS[0]), []
    applier, at, sizes = Applier(), 0, some(SEEDS[0])
    while at < len(commands):
        size = 1 if not at else next(sizes)
        _, applied = applier.apply(_entry(applier.state, commands[at : at + size]))
        found += [derived for one in applied if (derived := derive(applier.state, one)) is not None]
        at += size
    assert rows(found) != rows(history_of(commands, ones()))


def test_every_start_of_a_task_and_of_a_gang_has_its_row_once_it_has_ended() -> None:
    commands = log_of(SEEDS[1])
    derived = history_of(commands, ones())
    ended = {task.task.allocation_id for one in derived for task in one.tasks}
    placed, live = set(), Applier()
    for command in commands:
        _, applied = live.apply(_entry(live.state, [command]))
        placed |= live.state.allocations.keys()
        del applied
    assert ended == placed - live.state.allocations.keys()
    jobs = {job.id for one in derived for job in one.jobs}
    finished = {job.id for job in live.state.jobs.values() if job.state.is_final}
    assert finished <= jobs


class Story(Cluster):
    """A state machine whose history is kept."""

    def __init__(self) -> None:
        self.told: list[Derived] = []
        super().__init__()

    def apply(self, command: Command) -> Outcome:
        outcome = super().apply(command)
        revision, at_ms = self.state.revision, self.state.clock_ms
        applied = AppliedCommand(revision=revision, at_ms=at_ms, command=command, outcome=outcome, events=self.events)
        self.told.append(derive(self.state, applied) or Derived(revision, at_ms))
        return outcome

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return the kinds and lines of the newest command's events."""
        return [(event.kind, event.message) for event in self.told[-1].events]


def test_a_gang_has_one_line_for_its_placement_and_one_for_its_start_with_its_nodes() -> None:
    c = Story()
    for node in ("n1", "n2", "n3", "n4", "n5", "n6"):
        c.node(node, name=f"gpu-{node}")
    c.submit(retrying("train", group(count=6)), "j1")
    assert c.lines == [("job_submitted", "submitted to queue default: 6 tasks")]
    c.place("j1", "n1", "n2", "n3", "n4", "n5", "n6")
    assert c.lines == [("job_placed", "6 tasks placed on n1, n2, n3, n4 and 2 more after 0 s")]
    told = len(c.told)
    c.run_all("j1")
    started = [event for one in c.told[told:] for event in one.events]
    assert [(e.kind, e.message, e.job_name, e.attempt) for e in started] == [
        ("job_started", "runs: 1 of its 6 tasks", "train", 1)
    ]


def test_a_failure_says_which_task_where_and_why_and_what_follows() -> None:
    c = Story()
    c.node("n1", name="gpu-1")
    c.submit(retrying("train", group(count=2), backoff_ms=60_000), "j1")
    c.place("j1", "n1")
    c.run_all("j1")
    c.report("j1", 1, TaskState.FAILED, 3, reason="NONZERO_EXIT")
    assert c.lines == [
        ("task_failed", "task worker/1 failed on n1 with exit code 3: NONZERO_EXIT"),
        ("job_stopping", "1 task is ordered to stop: GANG_MEMBER_FAILED"),
    ]
    c.report("j1", 0, TaskState.KILLED)
    ((kind, line),) = c.lines
    assert kind == "job_retried"
    assert line.startswith("attempt 1 failed: task worker/1: exit code 3 (NONZERO_EXIT); attempt 2 follows, not before")
    (attempt,) = c.told[-1].attempts
    assert (attempt.was.attempt, ended_state(attempt.was, attempt.job)) == (1, JobState.FAILED)


def test_a_task_that_never_was_seen_to_run_has_its_end_and_no_start() -> None:
    c = Story()
    c.node()
    c.submit(spec("quick", group(count=1)), "j1")
    c.place("j1", "n1")
    c.report("j1", 0, TaskState.SUCCEEDED, 0)
    assert [kind for kind, _ in c.lines] == ["job_succeeded"]
    assert [one.task.allocation_id for one in c.told[-1].tasks] == ["j1/worker/0.1"]


def test_held_suspended_cancelled_and_what_people_do_to_nodes_is_told() -> None:
    c = Story()
    c.node("n1", name="gpu-1")
    c.submit(spec("a"), "j1")
    story = []
    for action in (Action.HOLD, Action.RELEASE, Action.SUSPEND, Action.RESUME):
        c.accept(ControlJob(job_id="j1", action=action))
        story += c.lines
    c.accept(CancelJob(job_id="j1", reason="TOO_OLD"))
    story += c.lines
    assert story == [
        ("job_held", "held: it is not started until it is released"),
        ("job_released", "released"),
        ("job_suspended", "suspended"),
        ("job_resumed", "resumed"),
        ("job_cancelled", "cancelled: TOO_OLD"),
    ]
    told = []
    for action in (NodeAction.CORDON, NodeAction.UNCORDON, NodeAction.DRAIN):
        c.accept(ControlNode(node_id="n1", action=action, by=ClosedBy.OPERATOR, reason="new disk"))
        told += c.lines
    c.die()
    told += c.lines
    c.node("n1", name="gpu-1", boot="b2")
    assert [*told, *c.lines] == [
        ("node_cordoned", "node gpu-1 takes no new work: new disk"),
        ("node_uncordoned", "node gpu-1 takes work again"),
        ("node_cordoned", "node gpu-1 takes no new work: drained: new disk"),
        ("node_dead", "node gpu-1 is dead: silent"),
        ("node_back", "node gpu-1 is back, CORDONED: drained: new disk"),
    ]


def test_an_eviction_says_for_whom() -> None:
    c = Story()
    c.node(cpus=2)
    c.submit(retrying("low", group(count=2)), "low")
    c.place("low", "n1")
    c.run_all("low")
    c.submit(spec("high", group(count=2), priority=9, preemption=EVICTS), "high")
    c.plan(replace(gang(c.job("high"), "n1"), evictions=(Eviction(job_id="low", attempt=1, cause=Cause.PREEMPT),)))
    assert c.lines == [
        ("job_evicted", "evicted for job high: all its tasks stop, 0 s of work is lost"),
        ("job_fenced", "it starts on n1 once its victims have ended"),
    ]
    for rank in (0, 1):
        c.report("low", rank, TaskState.KILLED)
    assert [kind for kind, _ in c.lines] == ["job_requeued", "job_placed"]
    assert "attempt 1 was stopped: gave way to job high (PREEMPTED); attempt 2 follows" in c.lines[0][1]


def test_noted_reasons_are_told_of_jobs_that_wait_and_change_nothing() -> None:
    c = Story()
    c.state.feature_level = FeatureLevel.BOUNDED
    c.submit(spec("a"), "j1")
    before = c.state.digest()
    notes = (WaitNote(job_id="j1", code="QUOTA", message="m" * 5000), WaitNote(job_id="gone", code="QUOTA"))
    c.accept(NoteWaitReasons(notes=notes))
    (event,) = c.told[-1].events
    assert (event.kind, event.code, event.job_name, len(event.message)) == ("job_queued", "QUOTA", "a", 1024 + 10)
    c.state.revision, c.state.clock_ms = c.state.revision - 1, c.state.clock_ms - 1
    assert c.state.digest() == before
    assert "one command notes" in c.reject(NoteWaitReasons(notes=notes[:1] * (MAX_NOTES + 1)), Code.INVALID)


def test_a_job_that_is_forgotten_is_told_by_its_name() -> None:
    c = Story()
    c.submit(spec("a"), "j1")
    c.cancel("j1")
    c.accept(DropFinishedJobs(keep=0, ended_before_ms=0))
    ((kind, line),) = c.lines
    assert (kind, c.told[-1].events[0].job_name) == ("job_forgotten", "a")
    assert line.startswith("its record is dropped: it ended CANCELLED at ")
