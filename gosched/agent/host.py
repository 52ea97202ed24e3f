"""The host as its agent uses it: cgroups, GPUs, what it offers, and the runtimes that work here.

Invariant: what is not there is said once, at the start, and never pretended.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import structlog

from gosched.agent.cgroups import devices
from gosched.agent.cgroups.files import kill, remove
from gosched.agent.cgroups.tree import WANTED, CgroupTree
from gosched.agent.datadir import DataDir
from gosched.agent.hardware.gpus import NO_GPUS, Gpus, find_gpus
from gosched.agent.hardware.offer import Offer, make_offer, numa_nodes
from gosched.agent.runtimes.docker import Docker
from gosched.agent.runtimes.docker import remove_orphans as remove_containers
from gosched.agent.runtimes.inside import AllowedPaths
from gosched.agent.runtimes.interface import TaskRuntime
from gosched.agent.runtimes.process import Process
from gosched.agent.runtimes.rootfs import Rootfs
from gosched.agent.runtimes.spark import Spark
from gosched.agent.tasks.accounts import Accounts
from gosched.agent.tasks.cpusets import SharedCpus
from gosched.agent.tasks.kept_memory import KeptMemory
from gosched.agent.tasks.nursery import Nursery
from gosched.agent.tasks.orphans import end_orphans
from gosched.agent.tasks.reserves import Reserves
from gosched.agent.tasks.secrets import SecretStore
from gosched.agent.tasks.starting import Starter
from gosched.agent.tasks.users import unfit_for
from gosched.config import AgentSettings
from gosched.config.node_labels import NODE_LABEL, RUNTIME_LABEL, SECRETS_LABEL
from gosched.core.limits import MAX_DETAIL_LENGTH
from gosched.core.primitives import StringMap
from gosched.core.records.node import Hardware
from gosched.core.resources import MILLI
from gosched.core.spec.task_group import Runtime

ORPHAN_LIMIT_S = 5.0


class CannotStart(Exception):
    """One line for people."""


@dataclass(slots=True, kw_only=True)
class Host:
    """The host as the agent found it."""

    tree: CgroupTree
    gpus: Gpus
    offer: Offer
    runtimes: Mapping[Runtime, TaskRuntime]
    starter: Starter
    #: What the settings say, what was found, the id of the node, and one for each runtime that works here, which jobs
    #: ask for; the process runtime works everywhere. They change with `look`.
    labels: StringMap = ()
    #: Why each runtime does not work, by its name; empty: it does.
    problems: dict[str, str] = field(default_factory=dict)
    #: The problems that were logged last.
    logged_problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: AgentSettings, data_dir: DataDir) -> Host:
        """Look at the host and take what the agent needs of it. Raises CannotStart, and ConfigError where the settings
        contradict what is here."""
        if unfit := unfit_for(data_dir.tasks, settings.users):
            raise CannotStart(unfit)
        tree = _open_tree(settings, data_dir)
        try:
            gpus = find_gpus() if settings.hardware_from == "found" else NO_GPUS
            unfiltered = _unfiltered(tree, gpus)
            tree = replace(tree, isolation="; ".join(filter(None, (tree.isolation, unfiltered))))
            if tree.isolation and settings.isolation == "required":
                raise CannotStart(f"isolation is required, and this node has {tree.isolation}")
            return cls._open(settings, data_dir, tree, gpus, filters_devices=bool(gpus.gpus) and not unfiltered)
        except BaseException:
            tree.close()
            raise

    @classmethod
    def _open(
        cls, settings: AgentSettings, data_dir: DataDir, tree: CgroupTree, gpus: Gpus, *, filters_devices: bool
    ) -> Host:
        paths = AllowedPaths(volumes=settings.volumes.allowed, images=settings.images.allowed)
        runtimes: dict[Runtime, TaskRuntime] = {
            Runtime.PROCESS: Process(),
            Runtime.ROOTFS: Rootfs(settings.oci_runtime, data_dir.path / "images", paths, gpus.device_paths),
            Runtime.DOCKER: Docker(settings.docker_host, settings.registries, settings.pids_max, paths, data_dir.path),
            Runtime.SPARK: Spark(settings.spark_home),
        }
        numa = numa_nodes(Path("/"))
        starter = Starter(
            settings=settings,
            data_dir=data_dir,
            runtimes=runtimes,
            tree=tree,
            nursery=Nursery(tree.enter_own_leaf, data_dir.path),
            gpus=gpus,
            filters_devices=filters_devices,
            shared_cpus=SharedCpus(tree, numa),
            kept_memory=KeptMemory(tree),
            numa=numa,
            secrets=SecretStore(data_dir.path),
            accounts=Accounts(data_dir.accounts, settings.users),
            reserves=Reserves(data_dir.spare),
        )
        offer = make_offer(settings, data_dir.path, gpus)
        host = cls(tree=tree, gpus=gpus, offer=offer, runtimes=runtimes, starter=starter)
        host.look()
        return host

    def look(self) -> None:
        """Look which runtimes work: daemons come and go. May wait for them a few seconds."""
        asked_for = {
            runtime.name.lower(): way for runtime, way in self.runtimes.items() if runtime is not Runtime.PROCESS
        }
        self.problems = {name: way.problem() for name, way in asked_for.items()}
        runtimes = {f"{RUNTIME_LABEL}{name}": "true" for name, problem in self.problems.items() if not problem}
        own = {NODE_LABEL: self.starter.data_dir.node_id}
        if not self.starter.accounts.shared:
            own[SECRETS_LABEL] = "true"
        self.labels = tuple(sorted({**runtimes, **dict(self.offer.labels), **own}.items()))

    def log_problems(self) -> None:
        """Log the problems that have changed since the last call."""
        for name, problem in self.problems.items():
            if problem and problem != self.logged_problems.get(name):
                structlog.get_logger().info("tasks of this runtime cannot run here", runtime=name, why=problem)
        self.logged_problems = self.problems

    @property
    def isolation(self) -> str:
        """Return what is not enforced here, in one line; empty: everything is."""
        accounts = self.starter.accounts
        shared = f"no secrets for tasks ({accounts.shared})" if accounts.shared else ""
        seen = f"tasks see names of others ({accounts.view_problem})" if accounts.view_problem else ""
        return "; ".join(filter(None, (self.tree.isolation, shared, seen)))[:MAX_DETAIL_LENGTH]

    def missing(self) -> tuple[str, ...]:
        """Return what of cgroups is not enforced here, in one word each."""
        unfiltered = ["devices"] if self.gpus.gpus and not self.starter.filters_devices else []
        return tuple(sorted([*set(WANTED) - self.tree.controllers, *unfiltered]))

    def hardware(self) -> Hardware:
        """Return the hardware as it is now: GPUs break, but for those that are only pretended."""
        offered = self.offer.capacity.gpu_millis // MILLI
        bad = self.gpus.bad if offered <= len(self.gpus.gpus) else ()
        return replace(self.offer.hardware, bad_gpus=tuple([gpu for gpu in bad if gpu < offered]))

    def orphans(self, known: set[str]) -> list[str]:
        """Return the cgroups of tasks that are not known."""
        return [name for name in self.tree.names() if name not in known]

    def remove_orphans(self, cgroups: Collection[str], live: Collection[str], since_s: float) -> None:
        """Remove orphaned cgroups and containers. Only once the masters have named no task of theirs; in a worker
        thread, while new tasks start. `cgroups`: by name. `live`: allocations that have not ended at `since_s`, by the
        wall clock."""
        log = structlog.get_logger()
        for name in cgroups:
            path = self.tree.path(name)
            log.warning("a cgroup of no known task is removed", cgroup=str(path))
            kill(path)
            remove(path, ORPHAN_LIMIT_S)
        self._remove_containers(live, since_s)

    def _remove_containers(self, live: Collection[str], since_s: float) -> None:
        log = structlog.get_logger()
        if self.runtimes[Runtime.DOCKER].problem():
            return
        host, tasks = self.starter.settings.docker_host, self.starter.data_dir.tasks
        try:
            for allocation in remove_containers(host, tasks, live, since_s):
                log.warning("a container of no known task is removed", allocation=allocation)
        except OSError as error:
            log.warning("cannot look for containers of former tasks", why=str(error))

    def end_orphans(self) -> None:
        """End what earlier agents left and none can adopt, before the node joins. In a worker thread."""
        data_dir = self.starter.data_dir
        end_orphans(data_dir, self.tree, _place(data_dir.path))
        if data_dir.epoch == 0:  # it has never had an order: whatever bears its label is of an agent before it
            self._remove_containers((), time.time())

    def close(self) -> None:
        self.starter.nursery.close()
        self.gpus.close()
        self.tree.close()


def _open_tree(settings: AgentSettings, data_dir: DataDir) -> CgroupTree:
    tree = CgroupTree.open(settings.cgroup_root, tree_name(data_dir.node_id, data_dir.path), data_dir.path)
    if tree.is_at_top:
        tree.enter_own_leaf()  # otherwise its own cgroup is that of the program that started it
    return tree


def tree_name(node_id: str, data_dir: Path) -> str:
    """Return the name of an agent's tree of cgroups."""
    return f"{node_id}-{_place(data_dir)}"


def _place(data_dir: Path) -> str:
    """Return a name of the data directory: two clusters on one host may have nodes of the same id, but never one
    directory."""
    return blake2b(bytes(data_dir), digest_size=4).hexdigest()


def _unfiltered(tree: CgroupTree, gpus: Gpus) -> str:
    """Return why tasks are not kept off GPUs that are not theirs; empty: they are, or there are none."""
    if not gpus.gpus:
        return ""
    unknown = [number for number, gpu in enumerate(gpus.gpus) if gpu.minor < 0 and number not in gpus.bad]
    reason = devices.problem() if tree.root is not None else "no device filter (no cgroups)"
    if not reason and unknown:
        reason = f"no device filter (the driver does not tell the device nodes of GPUs {unknown})"
    return f"{reason}: tasks are not kept off GPUs of others" if reason else ""
