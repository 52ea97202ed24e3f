"""How the tasks of Slurm become tasks of gosched: one for each node, which holds all ranks of it, or one for each rank.

Invariant: there is place for all ranks, and the first group holds the task that runs the script.
"""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.resources import MILLI
from gosched.integrations.slurm.command_line import Given
from gosched.integrations.slurm.hostlist import distinct
from gosched.integrations.slurm.values import gpus, gres, mebibytes, node_count, number


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Tasks, ranks, and what each gosched task holds."""

    #: Tasks of gosched, and the ranks of each.
    groups: tuple[tuple[int, int], ...]
    #: Each gosched task has a node of its own.
    by_node: bool
    #: Of each rank.
    cpus: int
    #: Of each gosched task of a group, in its order; 0: no bound.
    mebibytes: tuple[int, ...]
    #: `2` or `h100:2` of each gosched task of a group; empty: none.
    gpus: tuple[str, ...]
    #: Other resources of each gosched task.
    custom: tuple[tuple[str, int], ...] = ()
    #: Thousandths of the CPUs of a node, all of which each gosched task holds; 0: it holds those of its ranks.
    node_cpu_millis: int = 0

    @property
    def ranks(self) -> int:
        """Return how many ranks there is place for."""
        return sum(count * ranks for count, ranks in self.groups)

    @property
    def tasks(self) -> int:
        return sum(count for count, _ in self.groups)

    def cpu_millis(self, ranks: int) -> int:
        """Return the CPUs of a gosched task with so many ranks, in thousandths."""
        return self.node_cpu_millis or ranks * self.cpus * MILLI


def shape_of(given: Given) -> Shape:
    """Return the shape that the options ask for. Raises ConfigError. Adds warnings."""
    groups, by_node = _groups(given)
    cpus = _count(given, "cpus-per-task") or 1
    total_gpus, custom = _gpus(given, groups, by_node)
    return Shape(
        groups=groups,
        by_node=by_node,
        cpus=cpus,
        mebibytes=tuple(_memory(given, groups, by_node, cpus, ranks) for _, ranks in groups),
        gpus=total_gpus,
        custom=custom,
    )


def ranks_alone(given: Given) -> int:
    """Return how many ranks are asked for where nothing says on how many nodes; 0: something does."""
    is_placed = any(name in given for name in ("nodes", "ntasks-per-node", "nodelist"))
    return 0 if is_placed else _count(given, "ntasks")


def _groups(given: Given) -> tuple[tuple[tuple[int, int], ...], bool]:
    per_node, ranks = _count(given, "ntasks-per-node"), _count(given, "ntasks")
    nodes = named = len(given.read("nodelist", distinct)) if "nodelist" in given else 0
    if "nodes" in given:
        nodes, most = given.read("nodes", node_count)
        nodes = _with_names(given, named, nodes, most)
        if most > nodes:
            given.warnings.append(f"--nodes={given.get('nodes')}: {nodes} are asked for; gosched does not take more")
    if not nodes and per_node:
        nodes = -(-ranks // per_node) if ranks else 1
    if not nodes and ranks > 1:
        return ((ranks, 1),), False
    nodes = nodes or 1
    ranks = ranks or nodes * (per_node or 1)
    if per_node and ranks > nodes * per_node:
        raise given.problem("ntasks", f"{ranks} tasks do not fit on {nodes} nodes with {per_node} on each")
    if per_node and nodes <= ranks:  # each node gets as much, as in Slurm
        return ((nodes, per_node),), True
    if ranks < nodes:
        given.warnings.append(f"{ranks} tasks cannot run on {nodes} nodes: {ranks} nodes are asked for")
        nodes = ranks
    least, more = divmod(ranks, nodes)
    groups = ((more, least + 1), (nodes - more, least)) if more else ((nodes, least),)
    return groups, True


def _with_names(given: Given, named: int, least: int, most: int) -> int:
    """Return the number of nodes: of --nodelist where there is one."""
    if named > most:
        raise given.problem("nodelist", f"names {named} nodes, and --nodes is {most}: name no more than that")
    if 0 < named < least:
        raise given.problem(
            "nodelist",
            f"names {named} nodes of {least}, and a job runs on the named ones alone: name all {least}, or choose the "
            "nodes by --constraint",
        )
    return named or least


def _memory(given: Given, groups: tuple[tuple[int, int], ...], by_node: bool, cpus: int, ranks: int) -> int:
    """Return the memory of a gosched task with so many ranks."""
    if "mem" in given and "mem-per-cpu" in given:
        raise given.problem("mem-per-cpu", "stands beside --mem: give one of them")
    if "mem-per-cpu" in given:
        return given.read("mem-per-cpu", mebibytes) * cpus * ranks
    if "mem" not in given:
        return 0
    whole = given.read("mem", mebibytes)
    if by_node:
        return whole
    part = -(-whole // groups[0][0])
    given.warnings.append(
        f"--mem={given.get('mem')} is of a node: without --nodes each of {groups[0][0]} tasks gets {part} MiB; "
        "say --mem-per-cpu, or --nodes"
    )
    return part


def _gpus(
    given: Given, groups: tuple[tuple[int, int], ...], by_node: bool
) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Return the GPUs of a task of each group, and its other resources."""
    custom: dict[str, int] = {}
    of_node: tuple[str, int] | None = None
    if "gres" in given:
        of_node, custom = given.read("gres", gres)
    if "gpus-per-node" in given:
        of_node = given.read("gpus-per-node", gpus)
    if (of_node or custom) and not by_node:
        name = "gpus-per-node" if "gpus-per-node" in given else "gres"
        raise given.problem(name, "is of a node: say how many --nodes, or use --gpus-per-task")
    found: tuple[tuple[str, int], ...]
    if "gpus-per-task" in given:
        model, count = given.read("gpus-per-task", gpus)
        found = tuple((model, count * ranks) for _, ranks in groups)
    elif of_node:
        found = tuple(of_node for _ in groups)
    elif "gpus" in given:
        model, count = given.read("gpus", gpus)
        tasks = sum(count for count, _ in groups)
        if count % tasks:
            what = "nodes" if by_node else "tasks"
            raise given.problem("gpus", f"{count} do not divide evenly over {tasks} {what}: use --gpus-per-node")
        found = tuple((model, count // tasks) for _ in groups)
    else:
        found = tuple(("", 0) for _ in groups)
    written = tuple(f"{model}:{count}" if model else (str(count) if count else "") for model, count in found)
    return written, tuple(sorted(custom.items()))


def _count(given: Given, name: str) -> int:
    """Return the number; 0: it was not given."""
    return given.read(name, number) if name in given else 0
