"""Scenarios as tables: queues, quotas, nodes and jobs as text, and the plan that is expected of them.

    queues
      prod      capacity 60% max 80% limit gpu=4 order=fifo jobs=2
    quotas
      nlp       gpu:h100=8 jobs=3
    nodes
      a         8cpu 32Gi 8gpu:h100 rack=r1 !dedicated=nlp:no_schedule numa:0-3/4-7 gpu_numa:0,1 links:0,1 gpu_mem:80Gi
    jobs
      run       prod  2x 1cpu 1gpu  on a[0] a[1]
      train     prod  tenant=nlp priority=5 : 2..4x 1cpu 1gpu in:rack
    plan
      train     a b
      late      QUEUE_LIMIT  limit of 4 CPUs

A job without `on` waits. Words of a task group: `4x`, `2..4x` (at least 2, up to 4), `1cpu`, `2Gi`, `disk:5Gi`,
`1gpu:h100`, `3*license`, `gpu_mem:40Gi`, `zone=x` (a node selector), `in:rack`, `near:rack` (topology, required or
preferred), `over:zone`, `over:zone:2` (spread, with skew), `maybe-over:zone`, `apart:node`, `apart:rack:other`,
`?disk:in:ssd,nvme`, `?disk:exists*50` (affinity, with a weight), `~key`, `~key=value:effect`, `~` (tolerations),
`@spread`. Groups are separated by `|`, and named g0, g1 and so on. A job's queue and other words stand before `:`.

Expected jobs that start stand in the order in which they were placed. `a[0,1]` expects GPUs, `a[0;0-3]` CPUs too;
where no `[` is written, neither is looked at. Of a line about a job that waits, the text is a part of what is said.

Everything goes through the real state machine, which must take the plan whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import dedent

from gosched.core.cluster import Hardware, NodeState, Queue, QueueOrder, QueueType, Quota, TaskPlacement
from gosched.core.command import (
    Body,
    Command,
    CommitPlan,
    GangPlacement,
    MarkNodeDead,
    RegisterNode,
    ReportTasks,
    SetQueues,
    SetQuotas,
    SubmitJob,
    TaskReport,
)
from gosched.core.invariants import check as invariants
from gosched.core.job import (
    SELF,
    Affinity,
    AntiAffinity,
    GangPolicy,
    JobSpec,
    LabelOp,
    Mode,
    SpreadRule,
    Strategy,
    Taint,
    TaintEffect,
    TaskGroup,
    TaskState,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.outcome import Accepted, Event
from gosched.core.resources import AmountMap, Resources
from gosched.core.state import ClusterState
from gosched.machine.apply import apply
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule

SECTIONS = ("queues", "quotas", "nodes", "jobs", "plan")
SEED = 7

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


def check(table: str, policy: Policy | None = None) -> Plan:
    """The plan made of a table is the one that the table expects, and the state machine takes it."""
    rows = sections(table)
    world = World()
    world.fill(rows)
    plan = world.plan(policy or Policy())
    expected = [" ".join(row) for row in rows["plan"]]
    found = said(plan, expected)
    assert found == expected, "\n".join(["the plan is", *(f"  {line}" for line in said(plan, []))])
    world.commit(plan)
    return plan


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


def said(plan: Plan, expected: Sequence[str]) -> list[str]:
    """The plan in the words of the expected lines as far as it agrees with them, else in its own."""
    wanted = {line.split()[0]: line for line in expected}
    lines = []
    for gang in plan.gangs:
        with_devices = "[" in wanted.get(gang.job_id, "[")
        lines.append(" ".join([gang.job_id, *(_place(task, with_devices) for task in gang.tasks)]))
    for job_id, why in plan.explanations.items():
        refused = ", ".join(f"{count} {name}" for name, count in why.refused)
        whole = f"{job_id} {why.code} {why.message}" + (f" ({refused})" if refused else "")
        line = wanted.get(job_id, "")
        agrees = line.startswith(f"{job_id} {why.code}") and line.removeprefix(f"{job_id} {why.code}").strip() in whole
        lines.append(line if agrees else whole)
    placed = [line for line in lines if line.split()[0] not in plan.explanations]
    waiting = [line for line in lines if line.split()[0] in plan.explanations]
    return placed + sorted(waiting, key=lambda line: list(wanted).index(line.split()[0]) if wanted else 0)


def _place(task: TaskPlacement, with_devices: bool) -> str:
    if not with_devices or not task.gpus:
        return task.node_id
    return f"{task.node_id}[{','.join(map(str, task.gpus))}{';' + task.cpus if task.cpus else ''}]"


@dataclass
class World:
    """A state machine, and a view builder that follows it. Time goes on by a millisecond with each command."""

    state: ClusterState = field(default_factory=ClusterState)
    builder: ViewBuilder = field(default_factory=ViewBuilder)
    jobs: dict[str, JobSpec] = field(default_factory=dict)

    def fill(self, rows: Mapping[str, list[list[str]]]) -> None:
        self.do(SetQueues(queues=tuple([queue(words) for words in rows["queues"]]) or (Queue(path="default"),)))
        if rows["quotas"]:
            self.do(SetQuotas(quotas=tuple([quota(words) for words in rows["quotas"]])))
        for words in rows["nodes"]:
            self.do(node(words))
            self._turn(words[0], words[1:])
        for words in rows["jobs"]:
            self.submit(words)

    def submit(self, words: Sequence[str]) -> None:
        """One that has `on` runs at once."""
        name = words[0]
        places = list(words[words.index("on") + 1 :]) if "on" in words else []
        first = self.state.queues[next(iter(self.state.queues))].path
        spec = self.jobs[name] = job(words[: words.index("on")] if places else words, first)
        self.do(SubmitJob(job_id=name, spec=spec))
        if places:
            tasks = tuple([placement(rank, text) for rank, text in zip(ranks(spec, len(places)), places, strict=True)])
            self.commit(Plan(revision=0, gangs=[GangPlacement(job_id=name, attempt=1, tasks=tasks)]))

    def plan(self, policy: Policy, now_ms: int | None = None) -> Plan:
        now = self.state.clock_ms if now_ms is None else now_ms
        return schedule(self.builder.view(self.state), policy, now, SEED)

    def commit(self, plan: Plan) -> None:
        """The state machine takes all of it."""
        if plan.gangs:
            outcome = self.do(CommitPlan(revision=plan.revision, gangs=tuple(plan.gangs)))
            assert outcome.refusals == (), f"the state machine refuses {outcome.refusals}"

    def end(self, job_id: str, at_ms: int = 0) -> None:
        """All of its tasks succeed."""
        held = [a for a in self.state.allocations.values() if a.job_id == job_id]
        for allocation in held:
            node = self.state.nodes[allocation.node_id]
            report = TaskReport(
                allocation_id=allocation.id, state=TaskState.SUCCEEDED, exit_code=0, ended_at_ms=at_ms or 1
            )
            self.do(ReportTasks(node_id=node.id, incarnation=node.incarnation, reports=(report,)), at_ms)

    def do(self, body: Body, at_ms: int = 0) -> Accepted:
        outcome, events = apply(self.state, Command(body=body, epoch=0, at_ms=at_ms or self.state.clock_ms + 1))
        assert isinstance(outcome, Accepted), outcome
        assert invariants(self.state) == []
        self._follow(events)
        return outcome

    def _follow(self, events: Sequence[Event]) -> None:
        self.builder.apply(self.state, events)

    def _turn(self, node_id: str, words: Sequence[str]) -> None:
        record = self.state.nodes[node_id]
        if "dead" in words:
            self.do(MarkNodeDead(node_id=node_id, incarnation=record.incarnation))
        if "cordoned" in words:
            self.state.put_node(replace(record, state=NodeState.CORDONED))
            self.builder.reset(self.state)


def queue(words: Sequence[str]) -> Queue:
    path, *rest = words
    fields: dict[str, object] = {"path": path}
    vector = ""
    following = iter(rest)
    for word in following:
        if word in ("fifo", "fair", "capacity"):
            fields["type"] = QueueType[word.upper()]
        elif word == "max":
            fields["max_pct"] = int(next(following).rstrip("%"))
        elif word.endswith("%"):
            fields["capacity_pct"] = int(word.rstrip("%"))
        elif word in ("limit", "guaranteed"):
            vector = word
        elif word.startswith("weight="):
            fields["weight"] = int(word.removeprefix("weight="))
        elif word.startswith("order="):
            fields["order"] = QueueOrder[word.removeprefix("order=").upper()]
        elif word.startswith("jobs="):
            fields["max_running_jobs"] = int(word.removeprefix("jobs="))
        elif word.startswith("half_life="):
            fields["half_life_ms"] = int(word.removeprefix("half_life=").rstrip("h")) * 3_600_000
        else:
            fields[vector] = (*fields.get(vector, ()), amount(word))  # type: ignore[misc]
    return Queue(**fields)  # type: ignore[arg-type]


def quota(words: Sequence[str]) -> Quota:
    tenant, *rest = words
    jobs = [word for word in rest if word.startswith("jobs=")]
    limit = tuple([amount(word) for word in rest if word not in jobs])
    return Quota(tenant=tenant, limit=limit, max_running_jobs=int(jobs[0][5:]) if jobs else 0)


def amount(word: str) -> tuple[str, int]:
    """Such as `cpu=4`, `memory=2Gi`, `gpu:h100=8`, `license=3`."""
    name, _, number = word.rpartition("=")
    if name in ("memory", "storage"):
        return name, size(number)
    thousandths = name in ("cpu", "gpu") or name.startswith("gpu:")
    return name, round(float(number) * 1000) if thousandths else int(number)


def node(words: Sequence[str]) -> RegisterNode:
    node_id, *rest = words
    own, others = resources(rest)
    hardware: dict[str, object] = {}
    labels: list[tuple[str, str]] = []
    taints: list[Taint] = []
    for word in others:
        key, _, value = word.partition(":")
        if word in ("dead", "cordoned") or key == "model":
            continue
        if word.startswith("!"):
            taints.append(taint(word[1:]))
        elif key == "numa":
            hardware["numa_cpus"] = tuple(value.split("/"))
        elif key in ("gpu_numa", "links"):
            hardware["gpu_links" if key == "links" else key] = tuple(map(int, value.split(",")))
        elif key == "gpu_mem":
            hardware["gpu_memory_bytes"] = size(value)
        else:
            labels.append(pair(word))
    return RegisterNode(
        node_id=node_id,
        name=node_id,
        address="127.0.0.1:1",
        incarnation="1",
        capacity=own,
        gpu_model=model_of(rest),
        labels=tuple(sorted(labels)),
        taints=tuple(taints),
        hardware=Hardware(**hardware),  # type: ignore[arg-type]
    )


def job(words: Sequence[str], default_queue: str = "default") -> JobSpec:
    name, *rest = words
    own = rest[: rest.index(":")] if ":" in rest else []
    texts = " ".join(rest[len(own) + (":" in rest) :]).split("|")
    fields: dict[str, object] = {"queue": default_queue}
    for word in own:
        key, equals, value = word.partition("=")
        if not equals:
            fields["queue"] = word
        elif key == "tenant":
            fields[key] = value
        elif key == "priority":
            fields[key] = int(value)
        elif key == "due":
            fields["deadline_at_ms"] = int(value)
        elif key == "due_in":
            fields["deadline_in_ms"] = int(value)
        else:
            raise ValueError(f"a job has no {word}")
    groups = tuple([group(f"g{i}", text.split()) for i, text in enumerate(texts)])
    gang = GangPolicy(min_tasks=sum(g.floor for g in groups))
    return JobSpec(name=name, gang=gang, groups=groups, **fields)  # type: ignore[arg-type]


def group(name: str, words: Sequence[str]) -> TaskGroup:
    each, others = resources(words)
    fields: dict[str, object] = {"name": name, "count": 1, "resources": each, "command": ("true",)}
    more: dict[str, list[object]] = {"topology": [], "spread": [], "affinity": [], "anti_affinity": []}
    tolerations: list[Toleration] = []
    selector: list[tuple[str, str]] = []
    for word in others:
        key, _, value = word.partition(":")
        if found := re.fullmatch(r"(?:(\d+)\.\.)?(\d+)x", word):
            fields["count"], fields["min_count"] = int(found[2]), int(found[1] or 0)
        elif key == "model":
            continue
        elif key == "gpu_mem":
            fields["gpu_memory_bytes"] = size(value)
        elif key in ("in", "near"):
            more["topology"].append(TopologyRule(level=value, mode=Mode.REQUIRED if key == "in" else Mode.PREFERRED))
        elif key in ("over", "maybe-over"):
            level, _, skew = value.partition(":")
            mode = Mode.REQUIRED if key == "over" else Mode.PREFERRED
            more["spread"].append(SpreadRule(level=level, max_skew=int(skew or 1), mode=mode))
        elif key == "apart":
            level, _, other = value.partition(":")
            more["anti_affinity"].append(AntiAffinity(job=other or SELF, level=level))
        elif word.startswith("?"):
            more["affinity"].append(affinity(word[1:]))
        elif word.startswith("~"):
            tolerations.append(toleration(word[1:]))
        elif word.startswith("@"):
            fields["strategy"] = Strategy[word[1:].upper()]
        else:
            selector.append(pair(word))
    rules = {key: tuple(found) for key, found in more.items()}
    return TaskGroup(
        **fields,  # type: ignore[arg-type]
        **rules,  # type: ignore[arg-type]
        tolerations=tuple(tolerations),
        node_selector=tuple(sorted(selector)),
        gpu_model=model_of(words),
    )


def resources(words: Sequence[str]) -> tuple[Resources, list[str]]:
    """And the words that are none."""
    fields: dict[str, int] = {}
    custom: dict[str, int] = {}
    others: list[str] = []
    for word in words:
        if found := re.fullmatch(r"([\d.]+)(cpu|gpu)(:\S+)?", word):
            fields[f"{found[2]}_millis"] = round(float(found[1]) * 1000)
        elif re.fullmatch(r"[\d.]+[KMGT]i", word):
            fields["memory_bytes"] = size(word)
        elif word.startswith("disk:"):
            fields["storage_bytes"] = size(word.removeprefix("disk:"))
        elif found := re.fullmatch(r"(\d+)\*(\w+)", word):
            custom[found[2]] = int(found[1])
        else:
            others.append(word)
    as_map: AmountMap = tuple(sorted(custom.items()))
    return Resources(**fields, custom=as_map), others


def model_of(words: Sequence[str]) -> str:
    found = [word.partition(":")[2] for word in words if re.fullmatch(r"[\d.]+gpu:\S+", word)]
    return found[0] if found else ""


def affinity(text: str) -> Affinity:
    """Such as `disk:in:ssd,nvme` or `disk:exists*50`."""
    term, _, weight = text.partition("*")
    label, op, *values = term.split(":")
    return Affinity(
        label=label,
        op=LabelOp[op.upper()],
        values=tuple(values[0].split(",")) if values else (),
        weight=int(weight or 0),
    )


def taint(text: str) -> Taint:
    key_value, _, effect = text.partition(":")
    key, _, value = key_value.partition("=")
    return Taint(key=key, value=value, effect=TaintEffect[(effect or "no_schedule").upper()])


def toleration(text: str) -> Toleration:
    key_value, _, effect = text.partition(":")
    key, equals, value = key_value.partition("=")
    op = TolerationOp.EQUAL if equals else TolerationOp.EXISTS
    return Toleration(key=key, op=op, value=value, effect=TaintEffect[(effect or "unspecified").upper()])


def placement(rank: int, text: str) -> TaskPlacement:
    """Such as `a`, `a[0,1]` or `a[0;0-3]`."""
    node_id, _, devices = text.rstrip("]").partition("[")
    gpus, _, cpus = devices.partition(";")
    return TaskPlacement(rank=rank, node_id=node_id, gpus=tuple(map(int, gpus.split(","))) if gpus else (), cpus=cpus)


def ranks(spec: JobSpec, number: int) -> list[int]:
    """The first of each group, as many as there are places: the floors, then what is elastic."""
    firsts = [sum(g.count for g in spec.groups[:i]) for i in range(len(spec.groups))]
    found = [rank for first, g in zip(firsts, spec.groups, strict=True) for rank in range(first, first + g.floor)]
    more = [r for first, g in zip(firsts, spec.groups, strict=True) for r in range(first + g.floor, first + g.count)]
    return sorted([*found, *more[: number - len(found)]])


def pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise ValueError(f"what is {word}?")
    return key, value


def size(text: str) -> int:
    return round(float(text[:-2]) * _UNITS[text[-2:]])
