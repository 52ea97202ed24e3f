"""A real agent in the guest, orders for it, and what it leaves behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import yaml

from gosched.wire.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from tests.agent.conftest import NAMES, Agent, FakeMaster
from tests.vm.conftest import MIB, PATIENCE_S, wait_for

CGROUPS = Path("/sys/fs/cgroup")
DISK = Path("/disk")


class PatientMaster(FakeMaster):
    def await_state(self, allocation_id: str, *states: str, limit_s: float = PATIENCE_S) -> Any:
        return super().await_state(allocation_id, *states, limit_s=limit_s)


class Node:
    """An agent that can enforce everything, and its master."""

    def __init__(self, name: str, **settings: object) -> None:
        self.master = PatientMaster()
        self.master.serve()
        config = DISK / f"{name}.yaml"
        config.write_text(yaml.safe_dump({"isolation": "required", "users": {"own": False}, **settings}))
        self.agent = Agent(DISK / name, self.master.address, f"--config={config}", "--resources=cpu=2,memory=1Gi")

    def start(self) -> Node:
        """Emulated, it takes ten seconds to import what it needs."""
        before = len(self.master.registrations)
        self.agent.launch()
        assert self.agent.process is not None
        process = self.agent.process
        wait_for(lambda: len(self.master.registrations) > before or process.poll() is not None, why="the agent's start")
        assert process.poll() is None, self.agent.lines
        self.agent.identity = self.master.registrations[-1]
        return self

    def run(self, allocation_id: str, line: str, **order: Any) -> None:
        self.agent.run(shell_order(allocation_id, line, **order))

    def run_all(self, orders: list[Any]) -> None:
        """Returns once all of them have started."""
        identity = self.agent.identity
        request = worker_pb2.StartTasksRequest(
            epoch=1, node_id=identity.node_id, incarnation=identity.incarnation, orders=orders
        )
        with grpc.insecure_channel(identity.address) as channel:
            worker_pb2_grpc.WorkerServiceStub(channel).StartTasks(request, timeout=120)

    def end_of(self, allocation_id: str) -> Any:
        return self.master.await_state(allocation_id, "SUCCEEDED", "FAILED", "KILLED", "LOST")

    def ended(self, prefix: str) -> dict[str, int]:
        """Exit codes of those of its tasks that have ended, as of the newest heartbeat."""
        tasks = self.master.heartbeats[-1].tasks if self.master.heartbeats else ()
        ended = [task for task in tasks if task.HasField("exit_code")]
        return {task.allocation_id: task.exit_code for task in ended if task.allocation_id.startswith(prefix)}

    def outcome(self, allocation_id: str) -> tuple[str, int, str]:
        end = self.end_of(allocation_id)
        return NAMES[end.state], end.exit_code, end.reason

    def freeze(self, *allocation_ids: str, thaw: bool = False) -> None:
        request = worker_pb2.FreezeTasksRequest(
            epoch=1, node_id=self.agent.identity.node_id, incarnation=self.agent.identity.incarnation
        )
        getattr(request, "thaw" if thaw else "freeze").extend(allocation_ids)
        self.agent.call("FreezeTasks", request)

    def is_frozen(self, allocation_id: str) -> bool:
        seen = self.master.seen(allocation_id)
        return seen is not None and seen.frozen

    @property
    def tasks(self) -> Path:
        """The cgroup above those of the tasks."""
        return CGROUPS / self.agent.cgroup / "tasks"

    def cgroup(self, allocation_id: str) -> Path:
        return self.tasks / allocation_id.replace("/", "%2F")

    def cgroups(self) -> list[str]:
        return [path.name for path in self.tasks.iterdir() if path.is_dir()]

    def close(self) -> None:
        """Its tasks have ended, so nothing of it may be left."""
        if self.agent.process is not None and self.agent.process.poll() is None:
            self.agent.end(signal.SIGTERM)
        self.master.vanish()
        assert not (CGROUPS / self.agent.cgroup).exists(), self.agent.lines


def shell_order(
    allocation_id: str, line: str, *, cpu: int = 1000, memory_mib: int = 64, cpus: str = "", **isolation: Any
) -> Any:
    return worker_pb2.TaskOrder(
        allocation_id=allocation_id,
        task_id=allocation_id.rpartition(".")[0],
        job_id=allocation_id.partition("/")[0],
        runtime=types_pb2.RUNTIME_PROCESS,
        command=["/bin/sh", "-c", line],
        resources=types_pb2.Resources(cpu_millis=cpu, memory_bytes=memory_mib * MIB),
        cpus=cpus,
        isolation=types_pb2.Isolation(**isolation),
    )


def marked(mark: str) -> list[int]:
    """Processes with this word in their command line or environment, however far they went."""
    return [pid for pid, words in _all_processes() if mark.encode() in words]


def _all_processes() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue


def await_gone(mark: str) -> None:
    wait_for(lambda: not marked(mark), why=f"left over: {marked(mark)}")
