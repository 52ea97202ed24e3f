"""One node: what it is, what runs there, its GPUs, what is promised there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gosched.api.history import HistoryEvent
from gosched.core.amounts import amount_text
from gosched.core.records.allocation import Allocation
from gosched.core.records.node import Node
from gosched.core.records.task import Task
from gosched.core.records.window import Window
from gosched.core.sharing import charge_of
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.callers import Caller
from gosched.master.web.bars import bar
from gosched.master.web.capacity import CapacityRow
from gosched.master.web.job_ends import JobEnd, job_end
from gosched.master.web.node_cells import NodeCell, read_cell
from gosched.master.web.page import Asked, NoSuchPage, Shows
from gosched.master.web.recent_events import recent_events
from gosched.master.web.sources import Sources
from gosched.master.web.text import resource_order
from gosched.master.web.usage import NodeUse
from gosched.wire.v1 import node_pb2

MAX_TASKS = 500  # that are listed
MAX_STARTS = 50
EVENTS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task that holds a place there."""

    task: Task
    job_name: str
    queue: str
    held: dict[str, int]
    end: JobEnd
    #: None: not known.
    cpu_millis: int | None
    memory_bytes: int | None
    #: Job that it is evicted for; empty: it is not.
    evicted_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One GPU."""

    index: int
    #: Thousandths that are held.
    held: int
    #: (id, name) of the jobs that hold it.
    jobs: tuple[tuple[str, str], ...]
    #: Thousandths of the time; None: not known.
    busy: int | None
    memory_bytes: int | None
    #: Why it takes no work; empty: it does.
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedStart:
    """A start that is reserved there, or waits for victims."""

    job_id: str
    job_name: str
    tasks: int
    #: 0: when the last victim has ended.
    start_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What the page of a node shows."""

    node: Node
    cell: NodeCell
    levels: tuple[str, ...]
    capacity: tuple[CapacityRow, ...]
    gpus: tuple[GpuRow, ...]
    tasks: tuple[TaskRow, ...]
    starts: tuple[PromisedStart, ...]
    windows: tuple[Window, ...]
    hardware: tuple[tuple[str, str], ...]
    use: NodeUse | None
    events: tuple[HistoryEvent, ...]


async def node_page(sources: Sources, asked: Asked) -> NodeView:
    """Build the view. Raises NoSuchPage."""
    node = find_node(sources.state, asked.params["node"])
    usage, events = await asyncio.gather(
        _usage(sources, node.id, asked.caller),
        recent_events(sources, asked.caller, EVENTS_SHOWN, node=node.id),
    )
    node = find_node(sources.state, node.id)  # it may have changed meanwhile
    state, now_ms = sources.state, sources.now_ms()
    use = _use(usage)
    cell = read_cell(state, node, sources.topology, {node.id: use} if use else None)
    return NodeView(
        node=node,
        cell=cell,
        levels=sources.topology,
        capacity=_capacity(cell),
        gpus=_gpus(state, cell, usage, asked.shows),
        tasks=_tasks(state, node.id, usage, now_ms, asked.shows),
        starts=_starts(state, node.id, asked.shows),
        windows=tuple([window for window in state.windows.values() if node.id in window.nodes]),
        hardware=_hardware(node),
        use=use,
        events=events,
    )


def find_node(state: ClusterState, id_or_name: str) -> Node:
    """Return the node of the id, else of the name. Raises NoSuchPage."""
    found = state.nodes.get(id_or_name) or next((n for n in state.nodes.values() if n.name == id_or_name), None)
    if found is None:
        raise NoSuchPage(f"There is no node {id_or_name[:80]}; it may have been removed.")
    return found


async def _usage(sources: Sources, node_id: str, caller: Caller) -> node_pb2.ListUsageResponse:
    request = node_pb2.ListUsageRequest(node=node_id, tasks=True)
    return await sources.ask("ListUsage", request, caller) or node_pb2.ListUsageResponse()


def _use(usage: node_pb2.ListUsageResponse) -> NodeUse | None:
    for node in usage.nodes:
        return NodeUse(
            cpu_millis=node.usage.cpu_milli,
            memory_bytes=node.usage.memory_bytes,
            gpu_busy=tuple([(gpu.gpu, gpu.busy_milli) for gpu in node.usage.gpus]),
            age_ms=node.age_ms,
            version=node.version,
        )
    return None


def _capacity(cell: NodeCell) -> tuple[CapacityRow, ...]:
    total, held, use = charge_of(cell.capacity), charge_of(cell.held), cell.use
    busy = {"cpu": use.cpu_millis, "memory": use.memory_bytes} if use else {}
    if use and use.gpu_busy:
        busy["gpu"] = use.gpu_millis
    return tuple(
        [
            CapacityRow(
                name=name,
                total=total[name],
                held=held.get(name, 0),
                promised=0,
                wanted=0,
                busy=busy.get(name),
                drawing=bar(total[name], ("held", held.get(name, 0)), ("busy", busy.get(name, 0))),
            )
            for name in resource_order(total)
        ]
    )


def _gpus(state: ClusterState, cell: NodeCell, usage: node_pb2.ListUsageResponse, shows: Shows) -> tuple[GpuRow, ...]:
    measured = {gpu.gpu: gpu for node in usage.nodes for gpu in node.usage.gpus}
    jobs: dict[int, dict[str, str]] = {}
    for allocation in _allocations(state, cell.id):
        job = state.jobs[allocation.job_id]
        for gpu in allocation.gpus if shows(job) else ():
            jobs.setdefault(gpu, {})[job.id] = job.spec.name
    held = dict(cell.gpu_held)
    rows = []
    for index in range(cell.gpus):
        seen = measured.get(index)
        problem = seen.problem if seen else ""
        rows.append(
            GpuRow(
                index=index,
                held=held.get(index, 0),
                jobs=tuple(jobs.get(index, {}).items()),
                busy=seen.busy_milli if seen else None,
                memory_bytes=seen.memory_bytes if seen else None,
                problem=problem or ("it has errors" if index in cell.bad_gpus else ""),
            )
        )
    return tuple(rows)


def _tasks(
    state: ClusterState, node_id: str, usage: node_pb2.ListUsageResponse, now_ms: int, shows: Shows
) -> tuple[TaskRow, ...]:
    """Return the tasks on a node, of jobs that `shows` shows."""
    used = {task.task_id: task for task in usage.tasks}
    rows = []
    shown = [held for held in _allocations(state, node_id) if shows(state.jobs[held.job_id])]
    for allocation in shown[:MAX_TASKS]:
        job, seen = state.jobs[allocation.job_id], used.get(allocation.task_id)
        rows.append(
            TaskRow(
                task=state.tasks[allocation.task_id],
                job_name=job.spec.name,
                queue=job.spec.queue,
                held=charge_of(allocation.resources),
                end=job_end(job, now_ms),
                cpu_millis=seen.cpu_milli if seen else None,
                memory_bytes=seen.usage.memory_bytes or None if seen else None,
                evicted_for=allocation.evicted_for_fence,
            )
        )
    return tuple(rows)


def _starts(state: ClusterState, node_id: str, shows: Shows) -> tuple[PromisedStart, ...]:
    starts = [
        PromisedStart(job_id=job_id, job_name=state.jobs[job_id].spec.name, tasks=len(placements), start_ms=0)
        for job_id, placements in state.fenced.placements.get(node_id, {}).items()
        if shows(state.jobs[job_id])
    ]
    for reservation in state.reservations.values():
        tasks = sum(share.count for share in reservation.shares if share.node_id == node_id)
        job = state.jobs.get(reservation.job_id)
        if tasks and job and shows(job):
            starts.append(
                PromisedStart(job_id=job.id, job_name=job.spec.name, tasks=tasks, start_ms=reservation.start_ms)
            )
    return tuple(sorted(starts, key=lambda start: start.start_ms)[:MAX_STARTS])


def _allocations(state: ClusterState, node_id: str) -> list[Allocation]:
    return [state.allocations[held] for held in state.node_allocations.get(node_id, ())]


def _hardware(node: Node) -> tuple[tuple[str, str], ...]:
    """Return what is known of how it is built, as names and values."""
    hardware = node.hardware
    found = [(f"NUMA node {i}", f"CPUs {cpus}") for i, cpus in enumerate(hardware.numa_cpus)]
    if hardware.gpu_memory_bytes:
        found.append(("Memory of a GPU", amount_text("memory", hardware.gpu_memory_bytes, bare=True)))
    if hardware.gpu_links:
        islands: dict[int, list[str]] = {}
        for gpu, island in enumerate(hardware.gpu_links):
            islands.setdefault(island, []).append(str(gpu))
        found.append(("Linked GPUs", "; ".join(", ".join(gpus) for gpus in islands.values())))
    return tuple(found)
