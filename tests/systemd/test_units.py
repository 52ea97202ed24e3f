"""The units of deploy/systemd as an administrator has them: installed, started, restarted, stopped."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.agent.conftest import NAMES, Agent
from tests.vm.conftest import MIB, PATIENCE_S, wait_for
from tests.vm.node import PatientMaster, marked, shell_order

UNITS = Path(__file__).resolve().parents[2] / "deploy/systemd"
AGENT, TASKS = "gosched-agent.service", "gosched-tasks.service"
TOP = Path("/sys/fs/cgroup") / TASKS
GO = Path("/disk/go")


class Node:
    """A machine with the units; `master` is what its agent reports to."""

    def __init__(self) -> None:
        self.master = PatientMaster()
        self.master.serve()
        settings = yaml.safe_load((UNITS / "agent.yaml").read_text())
        local = {"masters": [self.master.address], "grpc_addr": "127.0.0.1:0"}
        Path("/etc/gosched").mkdir(exist_ok=True)
        Path("/etc/gosched/agent.yaml").write_text(yaml.safe_dump({**settings, **local}))
        install_programs()
        for unit in (AGENT, TASKS):
            (Path("/etc/systemd/system") / unit).write_bytes((UNITS / unit).read_bytes())
        systemctl("daemon-reload")
        self.agent = Agent(Path(settings["data_dir"]), self.master.address)

    def await_agent(self, *after: str) -> None:
        """Does what is asked of systemctl, if anything, and returns once the agent has registered afterwards."""
        before = len(self.master.registrations)
        if after:
            systemctl(*after)
        wait_for(lambda: len(self.master.registrations) > before, why=f"an agent after {after}")
        self.agent.identity = self.master.registrations[-1]

    def start(self, allocation_id: str, line: str, **order: int) -> None:
        self.agent.run(shell_order(allocation_id, line, **order))
        self.master.await_state(allocation_id, "RUNNING")

    def outcome(self, allocation_id: str) -> tuple[str, int, str]:
        end = self.master.await_state(allocation_id, "SUCCEEDED", "FAILED", "KILLED", "LOST")
        return NAMES[end.state], end.exit_code, end.reason

    def cgroup(self, allocation_id: str) -> Path:
        (found,) = TOP.glob(f"gosched-*/tasks/{allocation_id.replace('/', '%2F')}")
        return found


def install_programs() -> None:
    """Where the units look for them."""
    Path("/opt").mkdir(exist_ok=True)
    if not Path("/opt/gosched").is_symlink():
        Path("/opt/gosched").symlink_to(sys.prefix)


def systemctl(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, f"systemctl {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def main_pid(unit: str) -> int:
    return int(systemctl("show", "--value", "--property=MainPID", unit))


def is_active(unit: str) -> bool:
    return systemctl("show", "--value", "--property=ActiveState", unit) == "active"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    made = Node()
    made.await_agent("start", AGENT)
    yield made
    subprocess.run(["systemctl", "stop", TASKS], timeout=PATIENCE_S, check=False)
    made.master.vanish()


def test_everything_can_be_enforced_in_the_cgroup_that_systemd_gave(node: Node) -> None:
    assert node.agent.identity.isolation == ""
    node.start("place/0.1", "exec sleep 1000")
    (pid,) = (node.cgroup("place/0.1") / "cgroup.procs").read_text().split()
    assert Path(f"/proc/{pid}/cgroup").read_text().startswith(f"0::/{TASKS}/gosched-")
    assert int((node.cgroup("place/0.1") / "memory.max").read_text()) == 64 * MIB
    node.agent.stop("place/0.1", 0)
    assert node.outcome("place/0.1")[0] == "KILLED"


def test_tasks_outlive_restart_crash_and_stop_of_the_agents_unit(node: Node) -> None:
    codes = {f"outlive/{n}.1": n for n in range(6)}
    for allocation_id, code in codes.items():
        node.start(allocation_id, f"until [ -e {GO} ]; do sleep 0.2; done; exit {code}")
    pids = {allocation_id: (node.cgroup(allocation_id) / "cgroup.procs").read_text() for allocation_id in codes}
    first = main_pid(AGENT)
    node.await_agent("restart", AGENT)
    second = main_pid(AGENT)
    node.await_agent("kill", "--signal=KILL", "--kill-whom=main", AGENT)
    third = main_pid(AGENT)
    assert len({first, second, third}) == 3
    systemctl("stop", AGENT)
    assert not is_active(AGENT)
    for allocation_id, before in pids.items():
        assert set(before.split()) & set((node.cgroup(allocation_id) / "cgroup.procs").read_text().split())
    GO.touch()  # they end while there is no agent
    wait_for(lambda: not any(marked(allocation_id) for allocation_id in codes), why="the tasks' end")
    node.await_agent("start", AGENT)
    assert {i: node.outcome(i)[1] for i in codes} == codes
    GO.unlink()


def test_limits_stay_when_systemd_reads_its_units_again_and_starts_others(node: Node) -> None:
    node.start("limits/0.1", "exec sleep 1000")
    names = ("memory.max", "cpu.max", "pids.max", "cgroup.controllers")
    before = {name: (node.cgroup("limits/0.1") / name).read_text() for name in names}
    systemctl("daemon-reload")
    systemctl("set-property", "--runtime", AGENT, "CPUWeight=50", "MemoryHigh=1G")
    assert {name: (node.cgroup("limits/0.1") / name).read_text() for name in names} == before
    node.agent.stop("limits/0.1", 0)
    assert node.outcome("limits/0.1")[0] == "KILLED"


def test_a_task_that_is_out_of_memory_ends_alone(node: Node) -> None:
    node.start("stays/0.1", "exec sleep 1000")
    node.agent.run(shell_order("eats/0.1", "dd if=/dev/zero of=/dev/null bs=200M count=1"))
    assert node.outcome("eats/0.1") == ("FAILED", 137, "OOM_KILLED")
    assert is_active(TASKS)
    assert (node.cgroup("stays/0.1") / "cgroup.procs").read_text()
    node.agent.stop("stays/0.1", 0)
    assert node.outcome("stays/0.1")[0] == "KILLED"


def test_stopping_the_tasks_unit_ends_the_agent_and_every_task(node: Node) -> None:
    node.start("all/0.1", "trap '' TERM; sleep 1000 & setsid sleep 1001 & wait")
    systemctl("stop", TASKS)
    assert not is_active(AGENT)
    assert not TOP.exists()
    assert not marked("all/0.1")
    node.await_agent("start", AGENT)
    assert node.outcome("all/0.1")[0] == "LOST"
    node.start("again/0.1", "exec sleep 1000")
    node.agent.stop("again/0.1", 0)
    assert node.outcome("again/0.1")[0] == "KILLED"
