"""Real agents, real tasks; only the masters are fakes. Every test ends with no process of its own left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest
import yaml

from gosched.agent.cgroups import files as cgroup_files
from gosched.agent.cgroups.tree import PREFIX
from gosched.agent.host import tree_name
from gosched.wire.refusals import trailer
from gosched.wire.v1 import node_pb2, node_pb2_grpc, types_pb2, worker_pb2, worker_pb2_grpc
from tests.ports import HeldPort

T = TypeVar("T")

LIMIT_S = 30.0  # of a wait that ends in success long before, even on a machine that stands still for a while
AGENT = Path(sys.executable).with_name("gosched-agent")
NAMES = {number: name.removeprefix("TASK_STATE_") for name, number in types_pb2.TaskState.items()}


def wait_for(what: Callable[[], T | None], *, limit_s: float = LIMIT_S, why: str = "") -> T:
    """The first true answer."""
    deadline = time.monotonic() + limit_s
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {why or what}")
        time.sleep(0.01)


def set_frozen(cgroup: Path, frozen: bool) -> None:
    """Returns once all of its processes stand still, or go on."""
    cgroup_files.write(cgroup / "cgroup.freeze", str(int(frozen)))
    wait_for(
        lambda: f"frozen {int(frozen)}" in (cgroup / "cgroup.events").read_text(), why=f"{cgroup} frozen: {frozen}"
    )


class FakeMaster(node_pb2_grpc.NodeServiceServicer):
    """Keeps what the agent says; answers what the test set."""

    def __init__(self, epoch: int = 1) -> None:
        self.epoch = epoch
        self.cluster_id = ""
        self.lineage: list[str] = []
        self.forget_first: list[str] = []
        self.epoch_confirmed = False
        self.registration = 0
        self.away_ms = 0
        self.registrations: list[Any] = []
        self.heartbeats: list[Any] = []
        self.beats_before: list[int] = []  # each registration
        self.stop_first: list[str] = []
        self.start: list[Any] = []
        self.secrets: list[Any] = []
        self.stop: list[Any] = []
        self.forget: list[str] = []
        self.freeze: list[str] = []
        self.thaw: list[str] = []
        self.masters: list[str] = []
        self.forgotten_jobs: set[str] = set()
        self.lease_ms = 10_000
        self.heartbeat_ms = 5000
        self.register_again = False
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.refusal_reason = ""  # as of a master of an older release, which sends words alone
        self.on_registration: Callable[[], object] = lambda: None
        self.port = HeldPort()
        self.server: Any = None

    def serve(self, credentials: grpc.ServerCredentials | None = None) -> None:
        # One thread: what was said later is kept later.
        self.server = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
        node_pb2_grpc.add_NodeServiceServicer_to_server(self, self.server)
        if credentials is None:
            self.server.add_insecure_port(self.address)
        else:
            self.server.add_secure_port(self.address, credentials)
        self.server.start()

    def vanish(self) -> None:
        """Nobody listens there until it serves again."""
        self.server.stop(grace=None).wait(LIMIT_S)

    @property
    def address(self) -> str:
        return self.port.address

    def RegisterNode(self, request: Any, context: Any) -> Any:
        self.beats_before.append(len(self.heartbeats))
        self.registrations.append(request)
        self.on_registration()
        if self.refusal is not None:
            context.set_trailing_metadata(trailer(self.refusal_reason))
            context.abort(*self.refusal)
        seen = {task.allocation_id: task.state for task in request.tasks}
        live = [i for i in self.stop_first if NAMES[seen.get(i, 8)] in ("STARTING", "RUNNING", "STOPPING")]
        return node_pb2.RegisterNodeResponse(
            stop_first=live,
            heartbeat_ms=self.heartbeat_ms,
            epoch=self.epoch,
            lease_ms=self.lease_ms,
            cluster_id=self.cluster_id,
            lineage=self.lineage,
            forget=self.forget_first,
            epoch_confirmed=self.epoch_confirmed,
            registration=self.registration,
        )

    def Heartbeat(self, request: Any, context: Any) -> Any:
        self.heartbeats.append(request)
        again, self.register_again = self.register_again, False
        return node_pb2.HeartbeatResponse(
            epoch=self.epoch,
            start=self.start,
            secrets=self.secrets,
            stop=self.stop,
            forget=self.forget,
            freeze=self.freeze,
            thaw=self.thaw,
            register_again=again,
            lease_ms=self.lease_ms,
            heartbeat_ms=self.heartbeat_ms,
            cluster_id=self.cluster_id,
            lineage=self.lineage,
            masters=self.masters,
            forgotten_jobs=self.forgotten_jobs.intersection(request.log_jobs),
            away_ms=self.away_ms if request.goodbye else 0,
        )

    def seen(self, allocation_id: str) -> Any | None:
        """The newest word on a task."""
        for message in [*self.heartbeats[-1:], *self.registrations[-1:]][:1]:
            for task in message.tasks:
                if task.allocation_id == allocation_id:
                    return task
        return None

    def told(self, allocation_id: str) -> list[Any]:
        """Every word on a task in a heartbeat, the newest last."""
        return [task for beat in self.heartbeats for task in beat.tasks if task.allocation_id == allocation_id]

    def await_state(self, allocation_id: str, *states: str, limit_s: float = LIMIT_S) -> Any:
        def reached() -> Any | None:
            task = self.seen(allocation_id)
            return task if task is not None and NAMES[task.state] in states else None

        return wait_for(reached, limit_s=limit_s, why=f"{allocation_id} in {states}, last: {self.seen(allocation_id)}")

    def await_end(self, allocation_id: str, limit_s: float = LIMIT_S) -> tuple[str, int | None, str]:
        task = self.await_state(allocation_id, "SUCCEEDED", "FAILED", "KILLED", "LOST", limit_s=limit_s)
        return NAMES[task.state], (task.exit_code if task.HasField("exit_code") else None), task.reason


class Agent:
    """One `gosched-agent` on a data directory; `start` again for its next boot."""

    def __init__(self, data_dir: Path, masters: str, *flags: str) -> None:
        self.data_dir = data_dir
        self.masters = masters
        self.flags = flags
        self.process: subprocess.Popen[str] | None = None
        self.lines: list[str] = []
        self.identity: Any = None

    def start(self, master: FakeMaster) -> Agent:
        """Returns once it has registered with the master and sent a heartbeat. The last one of an agent that was killed
        may be taken as late as now: that is not its own."""
        before = len(master.registrations)
        self.launch()

        def joined() -> bool:
            boots = {registration.incarnation for registration in master.registrations[before:]}
            return bool(master.heartbeats) and master.heartbeats[-1].incarnation in boots

        wait_for(joined, why=str(self.lines))
        self.identity = master.registrations[-1]
        return self

    def launch(self) -> None:
        flags = [f"--master={self.masters}", f"--data-dir={self.data_dir}", *self.flags]
        flags += ["--config", str(self._config())]
        self.process = subprocess.Popen(
            [str(AGENT), *flags],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reader = threading.Thread(target=self._read, args=(self.process.stderr,), daemon=True)
        self.reader.start()

    def _config(self) -> Path:
        """What the test wants, and that tasks run as the tests do, who may be root and have only their own files."""
        given = [flag.partition("=")[2] for flag in self.flags if flag.startswith("--config=")]
        settings = yaml.safe_load(Path(given[-1]).read_text()) if given else {}
        home = next(parent for parent in self.data_dir.parents if parent.is_dir())
        config = home / f"own-{self.data_dir.name}.yaml"
        config.write_text(yaml.safe_dump({"users": {"own": True, "shared": True}, **settings}))
        return config

    def _read(self, stderr: Any) -> None:
        with stderr:
            for line in stderr:
                self.lines.append(line.rstrip())

    def end(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.exit_code()

    def exit_code(self) -> int:
        """Once it has ended, with all its lines."""
        assert self.process is not None
        code = self.process.wait(LIMIT_S)
        self.reader.join(LIMIT_S)
        return code

    def call(self, method: str, request: Any) -> Any:
        with grpc.insecure_channel(self.identity.address) as channel:
            return getattr(worker_pb2_grpc.WorkerServiceStub(channel), method)(request, timeout=60)

    def run(self, *orders: Any, epoch: int = 1, cluster_id: str = "", **more: int) -> None:
        request = worker_pb2.StartTasksRequest(
            epoch=epoch,
            node_id=self.identity.node_id,
            incarnation=self.identity.incarnation,
            orders=orders,
            cluster_id=cluster_id,
            **more,
        )
        self.call("StartTasks", request)

    def stop(
        self, allocation_id: str, grace_ms: int, *, epoch: int = 1, reason: str = "CANCELLED", cluster_id: str = ""
    ) -> None:
        stop = worker_pb2.StopOrder(allocation_id=allocation_id, grace_ms=grace_ms, reason=reason)
        request = worker_pb2.StopTasksRequest(
            epoch=epoch,
            node_id=self.identity.node_id,
            incarnation=self.identity.incarnation,
            orders=[stop],
            cluster_id=cluster_id,
        )
        self.call("StopTasks", request)

    def set_frozen(self, allocation_id: str, frozen: bool) -> None:
        request = worker_pb2.FreezeTasksRequest(
            epoch=1, node_id=self.identity.node_id, incarnation=self.identity.incarnation
        )
        (request.freeze if frozen else request.thaw).append(allocation_id)
        self.call("FreezeTasks", request)

    def logs(
        self, allocation_id: str, *, follow: bool = True, start: list[Any] | None = None, **more: Any
    ) -> list[Any]:
        request = worker_pb2.StreamLogsRequest(allocation_id=allocation_id, follow=follow, **more)
        getattr(request, "from").extend(start or [])
        with grpc.insecure_channel(self.identity.address) as channel:
            return list(worker_pb2_grpc.WorkerServiceStub(channel).StreamLogs(request, timeout=30))

    def stdout(self, allocation_id: str) -> bytes:
        return b"".join(c.data for c in self.logs(allocation_id) if c.stream == 1)

    @property
    def cgroup(self) -> str:
        """The name of its own cgroup, below the top of the hierarchy or what was delegated to it."""
        return PREFIX + tree_name(self.identity.node_id, self.data_dir)

    def spool(self, allocation_id: str) -> Path:
        return self.data_dir / "tasks" / allocation_id.replace("/", "%2F")


def order(allocation_id: str, *command: str, env: dict[str, str] | None = None, working_dir: str = "") -> Any:
    return worker_pb2.TaskOrder(
        allocation_id=allocation_id,
        task_id=allocation_id.rpartition(".")[0],
        job_id=allocation_id.partition("/")[0],
        runtime=types_pb2.RUNTIME_PROCESS,
        command=command,
        env=env or {},
        working_dir=working_dir,
    )


def shell(allocation_id: str, line: str, **rest: Any) -> Any:
    return order(allocation_id, "/bin/sh", "-c", line, **rest)


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.serve()
    yield fake
    fake.vanish()


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Makes agents in the test's directory. Afterwards everything of theirs must go by itself or it is a leak."""
    agents: list[Agent] = []

    def make(master: FakeMaster | str, *flags: str, name: str = "node") -> Agent:
        masters = master if isinstance(master, str) else master.address
        agents.append(Agent(tmp_path / name, masters, "--resources=cpu=4,memory=4Gi", *flags))
        return agents[-1]

    yield make
    for agent in agents:
        if agent.process is not None:
            agent.end()
        print(*agent.lines, sep="\n")  # shown where the test has failed
    try:
        wait_for(lambda: not processes_of(tmp_path), why=f"left over: {processes_of(tmp_path)}")
    finally:
        for pid in processes_of(tmp_path):
            os.kill(pid, signal.SIGKILL)


def processes_of(directory: Path) -> dict[int, str]:
    """Those that work below the directory, and those of tasks whose supervisor did: none escapes by daemonising."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                places = [os.readlink(entry / "cwd"), (entry / "environ").read_bytes().decode(errors="replace")]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if any(str(directory) in place for place in places) and int(entry.name) != os.getpid():
                found[int(entry.name)] = command
    return found


def lives(pid: int) -> bool:
    """Whether it may still run an instruction: what is about to become a zombie has no memory, so no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def number_in(path: Path) -> int:
    """A number that a task writes to a file, once it is there whole."""

    def read() -> int | None:
        text = path.read_text() if path.exists() else ""
        return int(text) if text.endswith("\n") else None

    return wait_for(read, why=f"a number in {path}")
