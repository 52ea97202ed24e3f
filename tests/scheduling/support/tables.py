"""Scenarios as tables: a cluster as text, and the plan that is expected of it. README.md teaches the notation.

Everything goes through the real state machine, which must take the plan whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import dedent
from typing import Any

from gosched.core.commands.cluster import PassTime, SetQueues, SetQuotas, SetWindow
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import ControlNode, MarkNodeDead, NodeAction, ReportTasks, TaskReport
from gosched.core.commands.plans import CommitPlan, Eviction, GangPlacement
from gosched.core.events import Event
from gosched.core.invariants.check_state import check as invariants
from gosched.core.limits import MAX_CLOCK_STEP_MS
from gosched.core.outcome import Accepted
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.job import JobState
from gosched.core.records.node import ClosedBy
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.task import TaskState
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule
from gosched.state_machine.apply import apply
from tests.scheduling.support import notation
from tests.scheduling.support.notation import NOW_MS, duration, moment

SECTIONS = ("queues", "quotas", "nodes", "jobs", "windows", "reservations", "plan")
SEED = 7


def check(table: str, policy: Policy | None = None) -> Plan:
    """The plan made of a table is the one that the table expects, and the state machine takes it."""
    return begin(table)._expect(sections(table)["plan"], policy or Policy())


def begin(table: str) -> World:
    """The world of a table, before its plan."""
    world = World()
    world.fill(sections(table))
    return world


def sections(table: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {name: [] for name in SECTIONS}
    current = ""
    for line in dedent(table).splitlines():
        text = line.partition("#")[0].rstrip()
        if text and not text.startswith(" "):
            assert text in SECTIONS, f"there is no section {text}"
            current = text
        elif text:
            found[current].append(text.split())
    return found


def said(plan: Plan, expected: Sequence[str], promises: Mapping[str, Reservation]) -> list[str]:
    """The plan in the words of the expected lines as far as it agrees with them, else in its own."""
    wanted = {line.split()[0]: line for line in expected}
    lines = []
    for gang in plan.gangs:
        with_devices = "[" in wanted.get(gang.job_id, "[")
        places = [_place(task, with_devices) for task in gang.tasks]
        until = [f"until={moment(gang.until_ms)}"] if gang.until_ms else []
        lines.append(" ".join([gang.job_id or "-", *places, *until, *(_eviction(e) for e in gang.evictions)]))
    for job_id, why in plan.explanations.items():
        refused = ", ".join(f"{count} {name}" for name, count in why.refused)
        whole = f"{job_id} {why.code} {why.message}" + (f" ({refused})" if refused else "")
        victims = [
            f" would {v.cause.name.lower()} {_name(v.gang.job_id, v.ranks)}" for v in plan.observed.get(job_id, ())
        ]
        promise = f" @{moment(why.start_ms)}" if why.start_ms else ""
        shares = promises[job_id].shares if job_id in promises and why.start_ms else ()
        nodes = "".join([f" {share.node_id}" * share.count for share in shares])
        more = "".join(victims) + promise
        line = wanted.get(job_id, "")
        text = line.removesuffix(nodes).removesuffix(more) if more else line
        agrees = text.startswith(f"{job_id} {why.code}") and text.removeprefix(f"{job_id} {why.code}").strip() in whole
        agrees = agrees and line in (text + more, text + more + nodes)
        lines.append(line if agrees else whole + more + nodes)
    placed = [line for line in lines if line.split()[0] not in plan.explanations]
    waiting = [line for line in lines if line.split()[0] in plan.explanations]
    order = {job_id: number for number, job_id in enumerate(wanted)}
    return placed + sorted(waiting, key=lambda line: order.get(line.split()[0], len(order)))


def _place(task: TaskPlacement, with_devices: bool) -> str:
    if not with_devices or not task.gpus:
        return task.node_id
    return f"{task.node_id}[{','.join(map(str, task.gpus))}{';' + task.cpus if task.cpus else ''}]"


def _eviction(eviction: Eviction) -> str:
    return f"| {eviction.cause.name.lower()} {_name(eviction.job_id, eviction.ranks)}"


def _name(job_id: str, ranks: Sequence[int]) -> str:
    return f"{job_id}/{','.join(map(str, ranks))}" if ranks else job_id


@dataclass
class World:
    """A state machine, and a view builder that follows it. Time goes on by a millisecond with each command; once it is
    NOW_MS, by `go` alone. `careful`: what must always hold is looked at after each command."""

    state: ClusterState = field(default_factory=ClusterState)
    builder: ViewBuilder = field(default_factory=ViewBuilder)
    jobs: dict[str, JobSpec] = field(default_factory=dict)
    careful: bool = True

    def fill(self, rows: Mapping[str, list[list[str]]]) -> None:
        self.do(
            SetQueues(queues=tuple([notation.queue(words) for words in rows["queues"]]) or (Queue(path="default"),))
        )
        if rows["quotas"]:
            self.do(SetQuotas(quotas=tuple([notation.quota(words) for words in rows["quotas"]])))
        for words in rows["nodes"]:
            self.do(notation.node(words))
            self._turn(words[0], words[1:])
        running = [words for words in rows["jobs"] if "on" in words]
        for words in rows["jobs"]:
            self.submit(words, starts=not _since(words))
        for words in sorted(running, key=_since, reverse=True):
            if since := _since(words):
                self._start(words, NOW_MS - since)
        if rows["windows"] or rows["reservations"] or any(_since(words) for words in running):
            self.go("0s")
        for words in rows["windows"]:
            self.do(SetWindow(window=notation.window(words)))
        for words in rows["reservations"]:
            self._promise(words)

    def submit(self, words: Sequence[str], *, starts: bool = True) -> None:
        """One that has `on` runs at once, if it `starts`."""
        name = words[0]
        runs = "on" in words
        first = self.state.queues[next(iter(self.state.queues))].path
        spec = self.jobs[name] = notation.job(words[: words.index("on")] if runs else words, first)
        self.do(SubmitJob(job_id=name, spec=spec))
        if runs and starts:
            self._start(words, 0)

    def start(self, text: str, **more: Any) -> None:
        """Submit such a job, with these fields of its spec, and start it."""
        words = text.split()
        spec = notation.job(words[: words.index("on")], next(iter(self.state.queues)))
        self.jobs[words[0]] = replace(spec, **more)
        self.do(SubmitJob(job_id=words[0], spec=self.jobs[words[0]]))
        self.go("0s")
        self._start(words, 0)

    def run(self, job_id: str) -> None:
        """All of its tasks run."""
        for task in self.state.tasks_of(self.state.jobs[job_id]):
            self.report(task.allocation_id, TaskState.RUNNING)

    def fail(self, job_id: str, rank: int) -> None:
        """Its task of the rank fails."""
        task = self.state.tasks_of(self.state.jobs[job_id])[rank]
        self.report(task.allocation_id, TaskState.FAILED)

    def plan(self, policy: Policy, now_ms: int | None = None) -> Plan:
        now = self.state.clock_ms if now_ms is None else now_ms
        return schedule(self.builder.view(self.state), policy, now, SEED)

    def expect(self, lines: str, policy: Policy | None = None) -> Plan:
        """One more cycle, whose plan the state machine takes."""
        rows = [line.split() for line in lines.splitlines()]
        return self._expect([row for row in rows if row], policy or Policy())

    def commit(self, plan: Plan) -> None:
        """The state machine takes all of it: gangs that evict get a fence, or start if nothing is left to go."""
        for command in plan.commands(epoch=0, at_ms=0):
            outcome = self.do(command.body)
            assert outcome.refusals == (), f"the state machine refuses {outcome.refusals}"
        for gang in plan.gangs:
            if gang.evictions and gang.job_id:
                runs = self.state.jobs[gang.job_id].state is JobState.RUNNING
                assert runs or self.state.fences[gang.job_id].tasks == gang.tasks

    def go(self, until: str) -> None:
        """Time passes, up to so long after NOW_MS."""
        self.do(PassTime(), NOW_MS + duration(until))

    def end(self, job_id: str, at_ms: int = 0) -> None:
        """All of its tasks succeed."""
        for allocation in [a for a in self.state.allocations.values() if a.job_id == job_id]:
            self.report(allocation.id, TaskState.SUCCEEDED, at_ms)

    def stop(self) -> None:
        """All tasks that were ordered to stop have done so."""
        tasks = self.state.tasks
        stopping = [a for a in self.state.allocations.values() if tasks[a.task_id].state is TaskState.STOPPING]
        for allocation in stopping:
            self.report(allocation.id, TaskState.KILLED)

    def kill(self, node_id: str) -> None:
        """The node dies, under tasks that ran."""
        for allocation in [a for a in self.state.allocations.values() if a.node_id == node_id]:
            if self.state.tasks[allocation.task_id].state is TaskState.PLACED:
                self.report(allocation.id, TaskState.RUNNING)
        self.do(MarkNodeDead(node_id=node_id, incarnation=self.state.nodes[node_id].incarnation))

    def turn(self, node_id: str, action: NodeAction) -> None:
        """By an operator."""
        self.do(ControlNode(node_id=node_id, action=action, by=ClosedBy.OPERATOR))

    def report(self, allocation_id: str, state: TaskState, at_ms: int = 0, saved_ms: int = 0) -> None:
        node = self.state.nodes[self.state.allocations[allocation_id].node_id]
        code = 0 if state is TaskState.SUCCEEDED else None
        ended = (at_ms or self.state.clock_ms or 1) if state.is_final else 0
        started = self.state.clock_ms if state is TaskState.RUNNING else 0
        report = TaskReport(
            allocation_id=allocation_id,
            state=state,
            exit_code=code,
            started_at_ms=started,
            ended_at_ms=ended,
            checkpoint_at_ms=saved_ms,
        )
        self.do(ReportTasks(node_id=node.id, incarnation=node.incarnation, reports=(report,)), at_ms)

    def do(self, body: Body, at_ms: int = 0) -> Accepted:
        tick = self.state.clock_ms < NOW_MS
        if self.state.clock_ms:  # a single stamp is not believed beyond that
            self.state.clock_ms = max(self.state.clock_ms, at_ms - MAX_CLOCK_STEP_MS)
        outcome, events = apply(self.state, Command(body=body, epoch=0, at_ms=at_ms or self.state.clock_ms + tick))
        assert isinstance(outcome, Accepted), outcome
        assert not self.careful or invariants(self.state) == []
        self._follow(events)
        return outcome

    def _expect(self, rows: Sequence[Sequence[str]], policy: Policy) -> Plan:
        plan = self.plan(policy)
        expected = [" ".join(row) for row in rows]
        promises = self.state.reservations | {r.job_id: r for r in plan.reservations}
        found = said(plan, expected, promises)
        assert found == expected, "\n".join(["the plan is", *(f"  {line}" for line in said(plan, [], promises))])
        self.commit(plan)
        return plan

    def _start(self, words: Sequence[str], at_ms: int) -> None:
        name, spec, places = words[0], self.jobs[words[0]], words[words.index("on") + 1 :]
        of_ranks = zip(notation.ranks(spec, len(places)), places, strict=True)
        tasks = tuple([notation.placement(rank, text) for rank, text in of_ranks])
        gang = GangPlacement(job_id=name, attempt=1, tasks=tasks)
        assert self.do(CommitPlan(revision=0, gangs=(gang,)), at_ms).refusals == ()
        saved = [word.partition("=")[2] for word in words if word.startswith("saved=")]
        if saved:
            own = [a.id for a in self.state.allocations.values() if a.job_id == name]
            self.report(own[0], TaskState.RUNNING, NOW_MS - duration(saved[0]), NOW_MS - duration(saved[0]))

    def _promise(self, words: Sequence[str]) -> None:
        """Such as `late 50m a b made=5m`."""
        name, start, *nodes = words
        made = [duration(word.partition("=")[2]) for word in nodes if word.startswith("made=")]
        shares = notation.shares(self.jobs[name], [word for word in nodes if "=" not in word and word != "deadline"])
        span, at_ms = self.jobs[name].span_ms, NOW_MS + duration(start)
        promise = Reservation(
            job_id=name,
            attempt=1,
            start_ms=at_ms,
            end_ms=at_ms + span if span else 0,
            shares=shares,
            for_deadline="deadline" in nodes,
            made_at_ms=NOW_MS - (made[0] if made else 0),
        )
        assert self.do(CommitPlan(revision=0, gangs=(), reservations=(promise,))).refusals == ()

    def _follow(self, events: Sequence[Event]) -> None:
        self.builder.apply(self.state, events)

    def _turn(self, node_id: str, words: Sequence[str]) -> None:
        record = self.state.nodes[node_id]
        if "dead" in words:
            self.do(MarkNodeDead(node_id=node_id, incarnation=record.incarnation))
        if "cordoned" in words:
            self.turn(node_id, NodeAction.CORDON)


def _since(words: Sequence[str]) -> int:
    return next((duration(word[6:]) for word in words if word.startswith("since=")), 0)
