"""The words of the scenario tables: queues, quotas, nodes, jobs, windows from text. README.md says what they mean."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gosched.core.commands.nodes import RegisterNode
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.node import Hardware
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.reservation import Share
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap, Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.placement_rules import (
    SELF,
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    Strategy,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.spec.policies import GangPolicy, MemberFailure, Preemption, PreemptionPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import TaskGroup

NOW_MS = 36_000_000  # when a table that speaks of time is planned

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_TIMES = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_FLAGS = ("yields", "stays", "never", "continue", "signal", "cheap")


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
        elif word in ("never", "lower_priority", "observe_only"):
            fields["preemption"] = PreemptionPolicy[word.upper()]
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
        elif key == "bad":
            hardware["bad_gpus"] = tuple(map(int, value.split(",")))
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
    preemption: dict[str, object] = {}
    for word in own:
        key, _, value = word.partition("=")
        if key in ("timeout", "estimate"):
            fields[f"{key}_ms"] = duration(value)
        elif key in ("grace", "min_runtime"):
            preemption[f"{key}_ms"] = duration(value)
        elif key == "tenant":
            fields[key] = value
        elif key == "priority":
            fields[key] = int(value)
        elif key == "due":
            fields["deadline_at_ms"] = int(value) if value.isdigit() else NOW_MS + duration(value)
        elif key == "begin":
            fields["begin_at_ms"] = NOW_MS + duration(value)
        elif key == "due_in":
            fields["deadline_in_ms"] = int(value)
        elif value and key not in ("since", "saved"):
            raise ValueError(f"a job has no {word}")
        elif not value and key not in _FLAGS:
            fields["queue"] = word
    if "yields" in own or "stays" in own:
        fields["retry"] = RetryPolicy(max_restarts=3, when=(RetryCause.NODE_LOST, RetryCause.PREEMPTED))
    if "never" in own:
        preemption["policy"] = PreemptionPolicy.NEVER
    if "cheap" in own:
        preemption["cheap"] = True
    if "signal" in own:
        preemption["checkpoint_signal"] = 10
    groups = tuple([group(f"g{i}", text.split()) for i, text in enumerate(texts)])
    on_failure = MemberFailure.CONTINUE if "continue" in own else MemberFailure.RESTART_GANG
    gang = GangPolicy(min_tasks=sum(g.floor for g in groups), on_member_failure=on_failure)
    rules = Preemption(preemptible="stays" not in own, **preemption)  # type: ignore[arg-type]
    return JobSpec(name=name, gang=gang, groups=groups, preemption=rules, **fields)  # type: ignore[arg-type]


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


def window(words: Sequence[str]) -> Window:
    """Such as `repairs a,b from=10m to=1h for=prod`."""
    name, nodes, *rest = words
    said = dict([pair(word) for word in rest])
    return Window(
        name=name,
        nodes=tuple(nodes.split(",")),
        start_ms=NOW_MS + duration(said.get("from", "0s")),
        end_ms=NOW_MS + duration(said["to"]) if "to" in said else 0,
        queues=tuple(said["for"].split(",")) if "for" in said else (),
        tenants=tuple(said["tenant"].split(",")) if "tenant" in said else (),
    )


def shares(spec: JobSpec, nodes: Sequence[str]) -> tuple[Share, ...]:
    """Of a gang that would stand on these nodes: a node for each task of the floors, in order."""
    groups = [g.name for g in spec.groups for _ in range(g.floor)]
    places = list(zip(groups, nodes, strict=True))
    return tuple([Share(group=g, node_id=n, count=places.count((g, n))) for g, n in sorted(set(places))])


def duration(text: str) -> int:
    """Milliseconds; such as `90s`, `-5m`."""
    found = re.fullmatch(r"(-?[\d.]+)(ms|s|m|h)", text)
    assert found, f"{text} is no duration"
    return round(float(found[1]) * _TIMES[found[2]])


def moment(at_ms: int) -> str:
    """As a distance from NOW_MS."""
    away = at_ms - NOW_MS
    unit = next(unit for unit in reversed(_TIMES) if away % _TIMES[unit] == 0)
    return f"{away // _TIMES[unit]}{unit}"
