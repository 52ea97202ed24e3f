"""Starts a task: finds its account, makes its cgroup, asks its runtime for a Launch, and the nursery for a supervisor.

Invariant: a task that cannot be started as it was ordered is not started at all, and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gosched.agent.cgroups import devices
from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.cgroups.files import CgroupError
from gosched.agent.cgroups.tree import CgroupTree
from gosched.agent.datadir import DataDir
from gosched.agent.hardware.gpus import Gpus
from gosched.agent.logic.cgroup_values import cgroup_values
from gosched.agent.runtimes.environment import environment
from gosched.agent.runtimes.interface import CannotRun, Place, SecretPlace, TaskRuntime
from gosched.agent.supervisor.launch import Launch
from gosched.agent.supervisor.records import ALWAYS, AT_TIMES
from gosched.agent.tasks import ports
from gosched.agent.tasks.accounts import Accounts, secrets_dir
from gosched.agent.tasks.ceilings import check_ceilings
from gosched.agent.tasks.cpusets import SharedCpus
from gosched.agent.tasks.kept_memory import KeptMemory
from gosched.agent.tasks.line import Line
from gosched.agent.tasks.nursery import Nursery
from gosched.agent.tasks.processes import boot_id
from gosched.agent.tasks.reserves import Reserves
from gosched.agent.tasks.secrets import SecretStore, removal_of
from gosched.agent.tasks.spool import SupervisorRecord
from gosched.agent.tasks.task import Task
from gosched.agent.tasks.users import account_for
from gosched.config import AgentSettings
from gosched.core.commands.nodes import TaskReport
from gosched.core.cpulist import parse_cpulist
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.task_group import Runtime

CLEAN_UP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """What a start needs of the host."""

    settings: AgentSettings
    data_dir: DataDir
    runtimes: Mapping[Runtime, TaskRuntime]
    tree: CgroupTree
    nursery: Nursery
    gpus: Gpus
    #: Whether the kernel keeps tasks off GPUs that are not theirs.
    filters_devices: bool
    shared_cpus: SharedCpus
    kept_memory: KeptMemory
    #: Number of each NUMA node of this host -> mask of its CPUs.
    numa: Mapping[int, int]
    #: Where the secrets of tasks are.
    secrets: SecretStore
    #: Under which tasks of tenants run.
    accounts: Accounts
    #: Files for what has to be written when the disk is full.
    reserves: Reserves

    def start(self, task: Task) -> None:
        """Start the task: set its launch and its supervisor, or how it ended. Runs in a worker thread."""
        if task.order.port and ports.is_taken(task.order.port):
            detail = f"another program of the node listens on port {task.order.port}, which is the job's"
            self._give_up(task, task.lost(Reason.PORT_IN_USE, detail))
            return
        try:
            self._start(task)
        except CannotRun as error:
            refused = task.failed(error.reason, error.detail, exit_code=error.exit_code, blames_node=error.blames_node)
            self._give_up(task, refused)
        except CgroupError as error:
            detail = f"the node cannot make its cgroup: {error}"
            self._give_up(task, task.failed(Reason.CGROUP_FAILED, detail, blames_node=True))
        except OSError as error:
            self._give_up(task, task.not_started(Reason.START_FAILED, "the node cannot start the task", error))

    def _start(self, task: Task) -> None:
        order = task.order
        runtime = self.runtimes.get(order.runtime)
        problem = "it does not know that runtime" if runtime is None else runtime.problem()
        if runtime is None or problem:
            detail = f"this node cannot run tasks of runtime {order.runtime.name.lower()}: {problem}"
            raise CannotRun(Reason.RUNTIME_NOT_SUPPORTED, detail, blames_node=True)
        check_ceilings(order, self.settings.ceilings)
        account = account_for(order, self.settings.users, self.accounts)
        work = task.spool.prepare(account)
        if account is not None and not account.home:
            account = replace(account, home=str(work))
        task.step("directory made")
        secrets = self.secrets.put(order, task.secrets, task.spool.path.name, account)
        view = self.accounts.view(account, task.spool.path, secrets) if account is not None else ()
        place = Place(
            path=task.spool.path,
            work=work,
            cgroup=self._make_cgroup(task),
            account=account,
            secrets=secrets,
            view=view,
        )
        task.step("cgroup made")
        launch = runtime.launch(order, place, self._environment(task, place))
        task.launch = self._completed(replace(launch, owner=account.uid if account else -1), order, secrets)
        task.step("runtime prepared")
        self.reserves.give(task.spool.path, (*ALWAYS, *AT_TIMES))
        line = Line()
        try:
            supervisor = task.spool.start(task.launch, self.nursery, line=line.far_end)
        except BaseException:
            line.close()
            raise
        finally:
            line.hand_over()
        task.line = line
        task.step("supervisor started")
        if supervisor is not None:
            pid, start_time = supervisor
            task.supervisor = SupervisorRecord(pid=pid, start_time=start_time, boot_id=boot_id())

    def _make_cgroup(self, task: Task) -> Path | None:
        """Make the task's cgroup, if there are cgroups. Raises CgroupError."""
        if task.order.isolation.memory_low_bytes and self.kept_memory.problem:
            raise CgroupError(self.kept_memory.problem)
        task.shared_cpus = self.shared_cpus.current  # before it is written: what changes meanwhile is written later
        cgroup = self.tree.create(task.spool.path.name, self._values(task.order, task.shared_cpus))
        if cgroup is not None and self.filters_devices:
            devices.confine(cgroup, self.gpus.device_majors(), self.gpus.device_numbers(task.order.gpus))
        return cgroup

    def _values(self, order: TaskOrder, shared_cpus: str) -> Mapping[str, str]:
        return cgroup_values(
            order.resources,
            order.isolation,
            cpus=self.shared_cpus.owned(order),
            shared_cpus=shared_cpus,
            numa=self.numa,
            pids_max=self.settings.pids_max,
            device=self.tree.device,
            controllers=self.tree.controllers,
        )

    def _environment(self, task: Task, place: Place) -> dict[str, str]:
        found = environment(task.order, place.account, task.spool.checkpoint_file)
        if place.secrets is not None:
            found["GOSCHED_SECRETS_DIR"] = str(secrets_dir(place.path) if place.view else place.secrets.files)
        return {**found, "CUDA_VISIBLE_DEVICES": self.gpus.visible_devices(task.order.gpus)}

    def _completed(self, launch: Launch, order: TaskOrder, secrets: SecretPlace | None) -> Launch:
        """Return the launch with what every runtime's tasks need. Without the cpuset controller a task is put on its
        CPUs at its start, and could change that."""
        by_affinity = "cpuset" not in self.tree.controllers
        return replace(
            launch,
            boot_id=boot_id(),
            log_max_bytes=self.settings.log_max_bytes,
            log_files=self.settings.log_files,
            cpus=_numbers(self.shared_cpus.owned(order)) if by_affinity else (),
            lease=str(self.data_dir.lease) if order.stop_alone else "",
            lease_grace_ms=order.stop_grace_ms,
            cleanup=(*launch.cleanup, *([removal_of(secrets)] if secrets is not None else [])),
        )

    def release(self, task: Task) -> None:
        """Take back what a task that has ended needs no more: its secrets, and the files of records that it has not."""
        if task.order.secrets or task.order.isolation.registry:
            self.secrets.remove(task.spool.path.name)
        if task.launch is not None:
            self.reserves.take_back(task.spool.path, AT_TIMES)

    def _give_up(self, task: Task, ending: TaskReport) -> None:
        task.ending = ending
        self.secrets.remove(task.spool.path.name)
        # A full disk: the masters hear of it now, and the next start of the agent says that it never started.
        with contextlib.suppress(OSError):
            task.spool.record_ending(ending)
        if self.tree.root is not None:
            cgroup_files.remove(self.tree.path(task.spool.path.name), CLEAN_UP_S)


def _numbers(cpus: str) -> tuple[int, ...]:
    mask = parse_cpulist(cpus)
    return tuple([number for number in range(mask.bit_length()) if mask >> number & 1])
