"""The agent's tree of cgroups: where it stands, which controllers it has, and one cgroup for each task.

Invariant: a cgroup with others below it holds no process; what cannot be enforced is said, never pretended.

    BASE/                    the setting, what was delegated to the agent, or the top of the hierarchy
      gosched-NODE/          this agent's, so that several on one host do not meet
        agent/               the agent, the nursery and the supervisors
        tasks/NAME           one for each task
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gosched.agent.cgroups import place
from gosched.agent.cgroups.files import CgroupError, is_populated, kill, read, remove, write
from gosched.agent.logic.cgroup_values import agrees, cpu_weight

WANTED = ("cpu", "cpuset", "io", "memory", "pids")
HUGETLB = "hugetlb"  # wanted where the kernel has huge pages
AGENT, TASKS = "agent", "tasks"
PREFIX = "gosched-"

_LEFTOVER_LIMIT_S = 1.0
_FORMER_LIMIT_S = 10.0  # for killed processes to be gone
_EMPTYING_ROUNDS = 10


def write_values(path: Path, values: Mapping[str, str]) -> None:
    """Write each value to its file in the cgroup and read it back. Raises CgroupError."""
    for name, value in values.items():
        file = path / name
        write(file, value)
        got = read(file)
        if not agrees(name, value, got):
            raise CgroupError(f"{file} says {got.strip()!r} after {value!r} was written to it")


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupTree:
    """The cgroups of one agent."""

    #: The agent's own cgroup. None: there are no cgroups at all.
    root: Path | None
    #: A descriptor. While it is held the tree is not one that a dead agent left behind.
    lock: int = -1
    #: Those that limit tasks.
    controllers: frozenset[str] = frozenset()
    #: What cannot be enforced, in one line. Empty: everything can.
    isolation: str = ""
    #: MAJ:MIN of the disk that I/O limits are for. Empty: there is none.
    device: str = ""
    #: Whether `memory.low` of a task means something.
    keeps_memory: bool = False

    @classmethod
    def open(cls, setting: str, node_id: str, data_dir: Path) -> CgroupTree:
        """Find the tree or make it. Where that fails, `isolation` says why; never raises."""
        try:
            base = place.find_base(setting)
            root = base / f"{PREFIX}{node_id}"
            base.mkdir(exist_ok=True)
            with _locked(base):
                _remove_dead_trees(base)
                tasks, refusals = _make_tree(base, root)
                lock = _lock(root)
            controllers = frozenset(read(tasks / "cgroup.subtree_control").split())
            device = place.block_device(data_dir)
            unkept = _unkept(base, controllers)
            lacks = (_missing(base, controllers, refusals), unkept, _no_device(controllers, device, data_dir))
            return cls(
                root=root,
                lock=lock,
                controllers=controllers,
                isolation="; ".join(filter(None, lacks)),
                device=device,
                keeps_memory="memory" in controllers and not unkept,
            )
        except (CgroupError, OSError) as error:
            return cls(root=None, isolation=f"{error}: no cgroups, so limits are not enforced")

    @property
    def tasks(self) -> Path | None:
        return self.root / TASKS if self.root else None

    def path(self, name: str) -> Path:
        """Return a task's cgroup, whether it is there or not. Raises CgroupError without a tree."""
        if self.root is None:
            raise CgroupError(self.isolation)
        return self.root / TASKS / name

    def names(self) -> list[str]:
        """Return the names of tasks that have a cgroup."""
        if self.root is None:
            return []
        try:
            with os.scandir(self.root / TASKS) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def enter_own_leaf(self, pid: int = 0) -> None:
        """Put a process (0: this one) beside the tasks; its children follow it. Raises CgroupError."""
        if self.root is not None:
            write(self.root / AGENT / "cgroup.procs", str(pid))

    @property
    def is_at_top(self) -> bool:
        """Return whether nothing, such as systemd, has given the agent a cgroup of its own."""
        return self.root is not None and place.is_top(self.root.parent)

    def create(self, name: str, values: Mapping[str, str]) -> Path | None:
        """Make a cgroup with these values, each read back; what an earlier start left empty is replaced. None without a
        tree. Raises CgroupError, and then leaves nothing."""
        if self.root is None:
            return None
        path = self.path(name)
        if not path.parent.exists():  # it was removed
            _make_tree(self.root.parent, self.root)
        try:
            path.mkdir()
        except FileExistsError as error:
            if is_populated(path) or not remove(path, _LEFTOVER_LIMIT_S):
                raise CgroupError(f"{path} is there already, with processes in it") from error
            path.mkdir()
        except OSError as error:
            raise CgroupError(f"cannot make {path}: {error.strerror}") from error
        try:
            write_values(path, _known(path, values))
        except CgroupError:
            remove(path, _LEFTOVER_LIMIT_S)
            raise
        return path

    def keep_memory(self, total: int) -> None:
        """Keep what tasks want kept together (`memory.low`): a cgroup keeps memory only as far as all those above it
        do. Raises CgroupError."""
        if self.root is None or not self.keeps_memory:
            return
        for level in (self.root.parent, self.root, self.root / TASKS):
            if not agrees("memory.low", str(total), read(level / "memory.low") or str(total)):  # the top has none
                write_values(level, {"memory.low": str(total)})

    def end_former(self, place: str) -> list[Path]:
        """Kill what runs in the trees of nodes that had this agent's data directory's place before it, and remove them.
        One with a supervisor is another agent's, which sees another directory at that place. Return their paths."""
        if self.root is None:
            return []
        ended: list[Path] = []
        for tree in self.root.parent.glob(f"{PREFIX}*-{place}"):
            if tree == self.root:
                continue
            with contextlib.suppress(OSError, CgroupError), _locked(tree, wait=False):
                if not read(tree / AGENT / "cgroup.procs").strip():
                    kill(tree / TASKS)
                    remove(tree, _FORMER_LIMIT_S)
                    ended.append(tree)
        return ended

    def close(self) -> None:
        """Leave nothing at the top, at the agent's end, if no task and no supervisor is left. What stands in a cgroup
        that the agent was given stays: this process cannot leave it. Raises CgroupError."""
        if self.root is None:
            return
        if self.is_at_top:
            write(self.root.parent / "cgroup.procs", "0")
            if not self.names():
                remove(self.root, _LEFTOVER_LIMIT_S)
        os.close(self.lock)


def _remove_dead_trees(base: Path) -> None:
    """Remove the trees of agents that were killed, once nothing runs in them any more."""
    for tree in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), _locked(tree, wait=False):
            if not is_populated(tree):
                remove(tree, 0)


@contextlib.contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    lock = _lock(path, wait=wait)
    try:
        yield
    finally:
        os.close(lock)


def _lock(path: Path, *, wait: bool = False) -> int:
    """Lock the tree. Raises OSError where another agent holds it."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(lock)
        raise
    return lock


def _make_tree(base: Path, root: Path) -> tuple[Path, dict[str, str]]:
    """Return the cgroup of all tasks, and why each controller was refused. Raises CgroupError."""
    tasks = root / TASKS
    try:
        for path in (base, root, root / AGENT, tasks):
            path.mkdir(exist_ok=True)
    except OSError as error:
        raise CgroupError(f"cannot make {error.filename}: {error.strerror}") from error
    if not place.is_top(base):
        _empty(base, root / AGENT)
    refusals: dict[str, str] = {}
    for level in (base.parent, base, root, tasks):
        if level != base.parent or place.is_top(level):
            _enable(level, refusals)
    if "cpu" in read(tasks / "cgroup.controllers").split():
        # The scale of tasks, so that a task weighs the same against all that runs beside the agent's tree.
        weight = str(cpu_weight(1000 * (os.cpu_count() or 1)))
        write_values(root, {"cpu.weight": weight})
        write_values(tasks, {"cpu.weight": weight})
    return tasks, refusals


def _empty(base: Path, leaf: Path) -> None:
    """Move the processes out: the kernel enables no controller below a cgroup with processes of its own, which may fork
    meanwhile."""
    failure: CgroupError | None = None
    for _ in range(_EMPTYING_ROUNDS):
        pids = read(base / "cgroup.procs").split()
        if not pids:
            return
        for pid in pids:
            try:
                write(leaf / "cgroup.procs", pid)
            except CgroupError as error:  # it may have ended
                failure = error
    raise CgroupError(f"{base} holds processes that cannot be moved out of it ({failure})")


def _enable(level: Path, refusals: dict[str, str]) -> None:
    """Enable as many controllers as there are: those still missing at the bottom are reported as not enforced."""
    there = read(level / "cgroup.controllers").split()
    enabled = read(level / "cgroup.subtree_control").split()
    for controller in (*WANTED, HUGETLB):
        if controller in there and controller not in enabled:
            try:
                write(level / "cgroup.subtree_control", f"+{controller}")
            except CgroupError as error:
                refusals.setdefault(controller, str(error))


def _known(path: Path, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values whose files are there. A kernel without swap has no file for it, and nothing to limit."""
    return {
        file: value
        for file, value in values.items()
        if not (file == "memory.swap.max" and value == "0" and not (path / file).exists())
    }


def _missing(base: Path, controllers: frozenset[str], refusals: Mapping[str, str]) -> str:
    on_v1 = place.on_version_1()
    reasons: dict[str, list[str]] = {}
    for name in (*WANTED, *([HUGETLB] if place.has_huge_pages() else [])):
        if name not in controllers:
            not_given = "cgroup v1 has them" if name in on_v1 else f"not given to {base}"
            reasons.setdefault(refusals.get(name, not_given), []).append(name)
    parts = [f"no {', '.join(names)} controller ({why})" for why, names in reasons.items()]
    return f"{'; '.join(parts)}: limits are not enforced" if parts else ""


def _unkept(base: Path, controllers: frozenset[str]) -> str:
    """Return why memory is not kept above the agent's own cgroups, which are not the agent's to set."""
    if "memory" not in controllers:
        return ""
    closed = [level for level in base.parents if read(level / "memory.low").strip() == "0"]
    try:
        if kept := read(base / "memory.low").strip():  # the top has none
            write(base / "memory.low", kept)
    except CgroupError:
        closed.insert(0, base)
    return f"{closed[0]} keeps no memory (memory.low): none is kept for tasks that ask for it" if closed else ""


def _no_device(controllers: frozenset[str], device: str, data_dir: Path) -> str:
    if device or "io" not in controllers:
        return ""
    return f"{data_dir} is on no disk of its own: I/O limits are not enforced"
