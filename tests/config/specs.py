"""Strategies for jobs, trees of queues and quotas: mostly sound, with a wrong value here and there.

They are what can be written: see `tests/config/written.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from gosched.core.limits import MAX_AMOUNT, MAX_DURATION_MS, MAX_JOB_DEMAND, MAX_NAME_LENGTH, MAX_TASKS_PER_JOB
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.tenant import Quota
from gosched.core.resources import Resources
from gosched.core.spec.array import Array, Axis
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.isolation import Isolation, Network, Pull, Rlimit, Volume
from gosched.core.spec.job_spec import JobSpec, OnDisconnect, OnMiss, Overlap
from gosched.core.spec.placement_rules import (
    Affinity,
    AntiAffinity,
    LabelOp,
    Mode,
    SpreadRule,
    Strategy,
    TaintEffect,
    Toleration,
    TolerationOp,
    TopologyRule,
)
from gosched.core.spec.policies import GangPolicy, MemberFailure, Preemption, PreemptionPolicy, RetryCause, RetryPolicy
from gosched.core.spec.task_group import Framework, Runtime, TaskGroup
from tests.config.written import of_runtime, sorted_pairs

ODDS = 40  # one value in so many is of the edges

_LONG = "x" * (MAX_NAME_LENGTH + 1)
_EDGE_TEXTS = ("a b", "é", "a\nb", "x" * MAX_NAME_LENGTH, _LONG, "-", ".", "a/b", "x" * (MAX_NAME_LENGTH - 23))


def either(sound: st.SearchStrategy[Any], *edges: Any) -> st.SearchStrategy[Any]:
    """Return what is sound, and now and then one of the edges."""
    return st.integers(0, ODDS).flatmap(lambda n: st.sampled_from(edges) if n == ODDS else sound)


def kinds(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


names = either(kinds("a", "b", "job-1", "x.y", "A_"), *_EDGE_TEXTS)
texts = either(kinds("a", "zone-1", "5"), *_EDGE_TEXTS, "x" * 2000)
keys = either(kinds("zone", "rack", "example.org/disk"), *_EDGE_TEXTS)
counts = either(st.integers(1, 4), 0, -1, MAX_TASKS_PER_JOB, MAX_TASKS_PER_JOB + 1)
durations = either(kinds(0, 1, 60_000), MAX_DURATION_MS, MAX_DURATION_MS + 1)
amounts = either(kinds(0, 1, 1 << 30), MAX_AMOUNT, MAX_AMOUNT + 1)
modes = kinds(Mode.REQUIRED, Mode.PREFERRED)


def pairs(keys: st.SearchStrategy[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(keys, values), max_size=2).map(sorted_pairs)


def some(items: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    many = st.builds(lambda item, count: (item,) * count, items, kinds(64, 65))
    few = st.lists(items, max_size=2).map(tuple)
    return st.integers(0, 3 * ODDS).flatmap(lambda n: many if n == 3 * ODDS else few)


own_resources = pairs(either(kinds("fpga", "tpu", "licence.x"), "a b", "é", _LONG), either(kinds(1, 5), MAX_AMOUNT + 1))
resources = st.builds(
    Resources,
    cpu_millis=amounts,
    memory_bytes=amounts,
    storage_bytes=amounts,
    gpu_millis=either(kinds(0, 500, 1000, 8000), 1500, 1_024_000, 1_025_000),
    custom=st.one_of(own_resources, either(st.just(()), tuple((f"r{n:02}", 1) for n in range(17)))),
)
rlimits = st.lists(
    st.builds(
        Rlimit,
        name=kinds("nofile", "core", "as"),
        soft=either(kinds(0, 10), -1, 20),
        hard=either(kinds(10, -1), 5, (1 << 63) - 1),
    ),
    max_size=2,
    unique_by=lambda limit: limit.name,
).map(lambda found: tuple(sorted(found, key=lambda limit: limit.name)))
paths = either(kinds("/a", "/b", "/c/d"), "/", "a", "/a/../b", "/" + "x" * 1024, "/a\nb")
volumes = st.builds(Volume, host=paths, to=paths, read_only=st.booleans())
isolations = st.builds(
    Isolation,
    user=either(kinds("", "alice"), "a b", "a\nb", _LONG),
    umask=either(st.none(), 0, 0o777),
    rlimits=rlimits,
    volumes=either(st.just(()), "use").flatmap(lambda use: some(volumes) if use else st.just(())),
    network=either(st.just(Network.UNSPECIFIED), Network.HOST, Network.NONE),
    read_only=either(st.just(False), True),
    pull=either(st.just(Pull.UNSPECIFIED), Pull.ALWAYS),
    registry=either(st.just(""), "ours", "a b"),
    cpu_soft=st.booleans(),
    memory_low_bytes=either(st.just(0), 1, 2 << 30, MAX_AMOUNT + 1),
    memory_high_bytes=either(st.just(0), 1, 2 << 30),
    swap_bytes=either(st.none(), 0, MAX_AMOUNT + 1),
    pids=either(st.just(0), 5, (1 << 22) + 1),
    hugepages=pairs(either(kinds("2Mi", "1Gi"), "4Ti", "64Ki"), either(kinds(1 << 30), 0, 3 << 19)),
    io_weight=either(st.just(0), 10_000, 10_001),
    io_reads=either(st.just(0), 1, MAX_AMOUNT + 1),
    io_write_bytes=either(st.just(0), 1, MAX_AMOUNT + 1),
)
affinities = st.builds(
    Affinity,
    label=keys,
    op=kinds(*[op for op in LabelOp if op]),
    values=either(kinds((), ("5",), ("a", "b")), ("x",) * 1001),
    weight=either(kinds(0, 50), 1001, -1001),
)
tolerations = st.builds(
    Toleration,
    key=either(kinds("gpu"), "", "a b"),
    op=kinds(TolerationOp.EXISTS, TolerationOp.EQUAL),
    value=either(st.just(""), "x", "a\nb"),
    effect=kinds(TaintEffect.UNSPECIFIED, TaintEffect.NO_SCHEDULE),
)
sound_terms = st.builds(Affinity, label=keys, op=kinds(LabelOp.EXISTS, LabelOp.NOT_EXISTS), weight=kinds(0, 5))


@st.composite
def groups(draw: st.DrawFn, name: str) -> TaskGroup:
    runtime = draw(either(st.just(Runtime.PROCESS), Runtime.DOCKER, Runtime.ROOTFS, Runtime.SPARK))
    image = {Runtime.DOCKER: "debian:12", Runtime.ROOTFS: "/srv/debian"}.get(runtime, "")
    affinity = draw(some(st.one_of(sound_terms, either(sound_terms, *[draw(affinities)]))))
    added = of_runtime(runtime)
    return TaskGroup(
        name=name,
        count=draw(counts),
        resources=draw(resources),
        gpu_model=draw(either(kinds("", "h100"), "a b", "a\nb")),
        runtime=runtime,
        image=draw(either(st.just(image), "debian:12", "/srv/x", "a\nb", _LONG)) or image,
        command=draw(kinds(("true",), ("sh", "-c", "x"))),
        env=draw(pairs(either(kinds("A", "a-b", "x.y"), "GOSCHED_X", "a=b", "a\nb", _LONG), kinds("", "x"))),
        working_dir=draw(kinds("", "/data", "data")),
        node_selector=draw(pairs(keys, texts)),
        strategy=draw(kinds(*Strategy)),
        framework=draw(kinds(Framework.NONE, Framework.TORCH, Framework.MPI)),
        mpi_ranks=draw(st.sampled_from((0,) * 12 + (1, 4096, 4097))),
        mpi_implementation=draw(st.sampled_from(("",) * 12 + ("mpich", "lam"))),
        gpu_memory_bytes=draw(either(st.just(0), 1 << 30, MAX_AMOUNT + 1)),
        topology=draw(some(st.builds(TopologyRule, level=keys, mode=modes))),
        spread=draw(some(st.builds(SpreadRule, level=keys, mode=modes, max_skew=counts))),
        affinity=(*affinity, *([added] if added else [])),
        anti_affinity=draw(some(st.builds(AntiAffinity, job=either(st.just("self"), *_EDGE_TEXTS), level=keys))),
        tolerations=draw(some(tolerations)),
        isolation=draw(isolations),
    )


arrays = st.builds(
    Array,
    first=either(kinds(0, 3), 999_999_999),
    last=either(kinds(3, 9), 1, 99_999_999),
    step=either(kinds(1, 3), 100),
    parallelism=either(kinds(0, 1, 5), 10_000, 10_001),
    max_failures=kinds(-1, 0, 3),
)
axes = st.lists(
    st.builds(
        Axis,
        name=either(kinds("LR", "SEED"), "a-b", "GOSCHED_X", _LONG),
        values=either(kinds(("1",), ("1", "2")), (), ("a\nb",), (_LONG,), ("x",) * 1001),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda axis: axis.name,
)
matrices = st.builds(lambda axes, parallelism: Array(matrix=tuple(axes), parallelism=parallelism), axes, kinds(0, 1))


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    wanted = draw(st.lists(names, min_size=1, max_size=2, unique=True))
    made = [draw(groups(name)) for name in wanted]
    if len(made) == 1 and made[0].count > 1:
        made[0] = replace(made[0], min_count=draw(st.integers(0, made[0].count - 1)))
    cron = draw(either(st.just(""), "0 2 * * *"))
    in_ms = draw(either(st.just(0), 60_000, MAX_DURATION_MS + 1))
    at_ms = 0 if in_ms else draw(either(st.just(0), 1, 1_796_104_800_250))
    begin_in_ms = draw(either(st.just(0), 50_000, 70_000))
    begin_at_ms = 0 if begin_in_ms else draw(either(st.just(0), 2, 1_796_104_800_000))
    has_signal = draw(st.booleans())
    return JobSpec(
        name=draw(names),
        queue="default",
        tenant=draw(names),
        priority=draw(either(kinds(0, 500), -1, 1000, 1001)),
        labels=draw(pairs(keys, texts)),
        gang=GangPolicy(
            min_tasks=sum(group.floor for group in made),
            on_member_failure=(failure := draw(kinds(*[kind for kind in MemberFailure if kind]))),
            wait_ms=draw(durations),
            ends_with=draw(either(st.just(""), "a", "nothing")),
            replace_after_ms=draw(either(st.just(0), 120_000, -1)) if failure is MemberFailure.CONTINUE else 0,
        ),
        groups=tuple(made),
        retry=RetryPolicy(
            max_restarts=draw(either(kinds(0, 3), -1, 2_000_000_000)),
            backoff_ms=draw(durations),
            when=draw(kinds((), (RetryCause.NODE_LOST, RetryCause.FAILED))),
        ),
        on_disconnect=draw(kinds(OnDisconnect.KEEP, OnDisconnect.STOP)),
        stop_grace_ms=draw(durations),
        deadline_at_ms=at_ms,
        deadline_in_ms=in_ms,
        begin_at_ms=begin_at_ms,
        begin_in_ms=begin_in_ms,
        on_miss=draw(kinds(OnMiss.CONTINUE, OnMiss.REFUSE)) if at_ms or in_ms else OnMiss.CONTINUE,
        estimate_ms=draw(durations),
        timeout_ms=draw(either(kinds(0, 60_000), 1, MAX_DURATION_MS + 1)),
        preemption=Preemption(
            policy=draw(kinds(PreemptionPolicy.NEVER, PreemptionPolicy.LOWER_PRIORITY)),
            preemptible=draw(st.booleans()),
            grace_ms=draw(durations),
            checkpoint_signal=draw(either(kinds(10, 15), 9, 19, 64, 65)) if has_signal else 0,
            min_runtime_ms=draw(durations),
            cheap=draw(st.booleans()),
        ),
        hold=draw(st.booleans()),
        after=draw(either(st.just(()), (Dependency(job="etl", condition=Condition.ANY),), (_after(_LONG),))),
        array=draw(st.one_of(st.just(Array()), st.just(Array()), arrays, matrices)),
        cron=cron,
        timezone="UTC" if cron else "",
        overlap=draw(kinds(Overlap.ALLOW, Overlap.REPLACE)) if cron else Overlap.UNSPECIFIED,
    )


def _after(name: str) -> Dependency:
    return Dependency(job=name, condition=Condition.SUCCESS)


resource_names = either(kinds("cpu", "memory", "gpu", "fpga", "gpu:h100"), "gpu:", "gpu:a\nb", "a b", _LONG)
vectors = pairs(resource_names, either(kinds(1, 1000), MAX_JOB_DEMAND))
limits = pairs(resource_names, either(kinds(1000, 5000), 0, MAX_JOB_DEMAND))
tenants = st.lists(names, max_size=3)


@st.composite
def nodes(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    kind = draw(kinds("fifo", "fair", "capacity"))
    has_share = kind == "capacity" or draw(either(st.just(False), True))
    children = draw(st.lists(nodes(depth - 1), max_size=2)) if depth else []
    given = {
        "max_running_jobs": draw(either(kinds(0, 5), 2_000_000_000)),
        "order": draw(kinds("", "fifo", "deadline")),
        "preemption": draw(kinds("", "never", "observe_only")),
    }
    return {
        "name": draw(either(kinds("a", "b", "c", "default"), "a b", "é", _LONG, "x" * 130)),
        "type": kind,
        "weight": draw(either(kinds(1, 3), 0, -1, 1_000_000, 1_000_001)),
        "capacity_pct": draw(either(kinds(0, 30), 60, 101, -1)) if has_share else 0,
        "max_pct": draw(either(kinds(100, 80), 50, 0, 101)),
        "guaranteed": draw(vectors) if has_share else (),
        "limit": draw(limits),
        "tenants": draw(tenants),
        "half_life": draw(either(kinds(0, 60_000), 59_999, MAX_DURATION_MS + 1)),
        "children": children,
        **{key: value for key, value in given.items() if value},
    }


def trees() -> st.SearchStrategy[tuple[list[dict[str, Any]], tuple[Queue, ...]]]:
    """Return nodes as they are nested in a file, and the records of the same queues."""
    return st.lists(nodes(2), min_size=1, max_size=3).map(lambda tree: (tree, _records(tree)))


def _records(tree: Sequence[dict[str, Any]]) -> tuple[Queue, ...]:
    found = [record for node in tree for record in _below(node, "")]
    known = any(record.path == "default" for record in found)
    return tuple(found if known else [*found, Queue(path="default")])


def _below(node: dict[str, Any], parent: str) -> list[Queue]:
    path = f"{parent}.{node['name']}" if parent else node["name"]
    queue = Queue(
        path=path,
        type=QueueType[node["type"].upper()],
        weight=node["weight"],
        capacity_pct=node["capacity_pct"],
        max_pct=node["max_pct"],
        guaranteed=node["guaranteed"],
        limit=node["limit"],
        order=QueueOrder[node.get("order", "unspecified").upper()],
        max_running_jobs=node.get("max_running_jobs", 0),
        tenants=tuple(sorted(node["tenants"])),
        half_life_ms=node["half_life"],
        preemption=PreemptionPolicy[node.get("preemption", "unspecified").upper()],
    )
    return [queue, *[record for child in node["children"] for record in _below(child, path)]]


def quotas() -> st.SearchStrategy[tuple[Quota, ...]]:
    quota = st.builds(Quota, tenant=names, limit=limits, max_running_jobs=either(kinds(0, 5), 2_000_000_000))
    return st.lists(quota, max_size=2).map(tuple)
