"""What an agent promises its tasks, and the node, with everything enforced."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from tests.agent.conftest import NAMES
from tests.vm.conftest import (
    BOMB,
    BUSY,
    MIB,
    REFUSED_AT_ONCE,
    Figure,
    cpu_seconds,
    cpus_by_period,
    most_processes,
    wait_for,
)
from tests.vm.node import DISK, Node, await_gone, marked, shell_order

# Emulated, a task costs twenty times what it does on the machine itself, where test_many_tasks.py runs a thousand.
MANY = 200
EAT = "dd if=/dev/zero of=/dev/null bs=200M count=1"


GPUS = ("/dev/nvidia0", "/dev/nvidia1")  # device nodes without a driver: the filter is the kernel's all the same


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    for minor, path in enumerate(GPUS):
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(195, minor))
    made = Node("node", users={"allowed": ["alice"], "own": False}, ceilings={"memory_low": "64Mi"})
    yield made.start()
    made.close()
    for path in GPUS:
        os.unlink(path)


@pytest.fixture(autouse=True)
def nothing_is_left(node: Node) -> Iterator[None]:
    yield
    wait_for(lambda: not node.cgroups(), why=f"cgroups left over: {node.cgroups()}")


def test_a_node_that_enforces_everything_starts_with_isolation_required(node: Node) -> None:
    assert node.agent.identity.isolation == ""
    (pid,) = {node.agent.process.pid} if node.agent.process else set()
    own = (node.tasks.parent / "agent" / "cgroup.procs").read_text().split()
    assert str(pid) in own
    assert (node.tasks.parent / "cgroup.procs").read_text() == ""


def test_a_task_over_its_memory_limit_is_reported_as_oom_killed(node: Node, figure: Figure) -> None:
    node.run("oom/0.1", EAT)
    assert node.outcome("oom/0.1") == ("FAILED", 137, "OOM_KILLED")
    usage = node.end_of("oom/0.1").usage
    assert usage.oom_kills >= 1
    assert 32 * MIB < usage.memory_peak_bytes <= 64 * MIB
    figure(f"memory limit 64 MiB, wanted 200 MiB: OOM_KILLED, peak {usage.memory_peak_bytes / MIB:.1f} MiB")


def test_the_whole_task_goes_when_a_child_is_out_of_memory(node: Node) -> None:
    node.run("child/0.1", f"(sleep 0.2; {EAT}; sleep 1000) & sleep 1000; echo survived")
    state, _, reason = node.outcome("child/0.1")
    assert (state, reason) == ("FAILED", "OOM_KILLED")  # at once: its shell sleeps for longer than is waited here


def test_a_task_that_dies_because_the_node_is_out_of_memory_is_not_blamed_for_it(node: Node) -> None:
    limit = node.tasks / "memory.max"
    limit.write_text(str(64 * MIB))  # stands for all memory of the machine: above the task, and below what it may use
    try:
        node.run("dry/0.1", EAT, memory_mib=500)
        assert node.outcome("dry/0.1") == ("FAILED", 137, "NODE_OUT_OF_MEMORY")
    finally:
        limit.write_text("max")


def test_a_cpu_limit_is_kept_within_five_per_cent(node: Node, figure: Figure) -> None:
    node.run("cpu/0.1", f"{BUSY} & {BUSY}", cpu=500)
    path = node.cgroup("cpu/0.1")
    wait_for(path.exists)
    wait_for(lambda: cpu_seconds(path) > 0.5)
    held = cpus_by_period(path, 15)
    wait_for(lambda: (seen := node.master.seen("cpu/0.1")) is not None and seen.usage.cpu_stalled_ms > 2500)
    asked_at, used_s = time.monotonic(), cpu_seconds(path)
    node.agent.stop("cpu/0.1", 0)
    end = node.end_of("cpu/0.1")
    took_s = time.monotonic() - asked_at
    figure(f"CPU quota 0.5, two busy loops, 15 s: measured {median(held):.3f}, {mean(held):.3f} in the mean")
    reported = end.usage.cpu_ms / (end.ended_at_ms - end.started_at_ms)
    figure(f"PSI reported with the task: two loops on half a CPU waited {end.usage.cpu_stalled_ms / 1000:.1f} s")
    figure(f"CPU reported with the task: {reported:.3f} of its time, throttled {end.usage.throttled_ms / 1000:.1f} s")
    assert abs(median(held) - 0.5) <= 0.025
    assert mean(held) <= 0.525, "what it used up too early, it does not get later"
    assert used_s - 0.01 <= end.usage.cpu_ms / 1000 <= used_s + took_s, "the kernel's count, at its end"
    assert end.usage.cpu_stalled_ms > 2500


def test_io_limits_are_kept_and_io_is_counted(node: Node, figure: Figure) -> None:
    write = "dd if=/dev/zero of=data bs=256K count=80 oflag=direct"
    read = "dd if=data of=/dev/null bs=256K count=80 iflag=direct"
    node.run("free/0.1", write)
    free = node.end_of("free/0.1")
    assert NAMES[free.state] == "SUCCEEDED", free
    node.run("io/0.1", f"{write} && {read} && {read} && {read}", io_write_bytes=4 * MIB, io_read_bytes=8 * MIB)
    wait_for(lambda: io_bytes(node.cgroup("io/0.1"))["wbytes"])
    out, back = io_rates(node.cgroup("io/0.1"))
    end = node.end_of("io/0.1")
    assert NAMES[end.state] == "SUCCEEDED", end
    assert end.usage.written_bytes >= 20 * MIB
    assert end.usage.read_bytes >= 60 * MIB
    took_s = (end.ended_at_ms - end.started_at_ms) / 1000
    figure(f"I/O limits 4 MiB/s out, 8 MiB/s in: measured {out:.2f} and {back:.2f} MiB/s")
    figure(f"20 MiB out and 60 MiB in: {took_s:.1f} s, 12.5 s are due ({20_000 / ms_of(free):.0f} MiB/s out without)")
    # A guest that has to stand still is slower in the mean, and never faster.
    assert 2 < out <= 4.4
    assert 4 < back <= 8.8
    assert took_s >= 12


def io_bytes(cgroup: Path) -> dict[str, int]:
    """Of all its devices, so far; nothing where there is no cgroup."""
    try:
        fields = re.findall(r"([rw]bytes)=(\d+)", (cgroup / "io.stat").read_text())
    except OSError:
        fields = []
    return {kind: sum(int(value) for name, value in fields if name == kind) for kind in ("rbytes", "wbytes")}


def io_rates(cgroup: Path) -> tuple[float, float]:
    """MiB that it wrote and read in a second, in the mean over all but the first 2 MiB, until it is gone."""
    grown: dict[str, list[tuple[float, int]]] = {"wbytes": [(0.0, 2 * MIB)], "rbytes": [(0.0, 2 * MIB)]}
    while cgroup.exists():
        at, counted = time.monotonic(), io_bytes(cgroup)
        for kind, points in grown.items():
            if counted[kind] > points[-1][1]:
                points.append((at, counted[kind]))
        time.sleep(0.05)
    (_, (out_at, out), *_, (out_end, out_all)), (_, (back_at, back), *_, (back_end, back_all)) = grown.values()
    return (out_all - out) / (out_end - out_at) / MIB, (back_all - back) / (back_end - back_at) / MIB


def ms_of(end: Any) -> int:
    return int(end.ended_at_ms - end.started_at_ms)


def test_a_fork_bomb_stops_at_its_limit_and_is_gone_afterwards(node: Node, figure: Figure) -> None:
    node.run("bomb/0.1", BOMB, pids=40)
    most = most_processes(node.cgroup("bomb/0.1"), 31)
    node.agent.stop("bomb/0.1", 0)
    assert node.outcome("bomb/0.1")[0] == "KILLED"
    figure(f"fork bomb with 40 processes allowed: at most {most} at once, none afterwards")
    assert most <= 40 + REFUSED_AT_ONCE


def test_a_frozen_task_stands_still_and_goes_on(node: Node) -> None:
    node.run("frozen/0.1", BUSY)
    node.master.await_state("frozen/0.1", "RUNNING")
    path = node.cgroup("frozen/0.1")
    node.freeze("frozen/0.1")
    wait_for(lambda: node.is_frozen("frozen/0.1"))
    still = cpu_seconds(path)
    time.sleep(0.5)
    assert cpu_seconds(path) == still
    node.freeze("frozen/0.1", thaw=True)
    wait_for(lambda: not node.is_frozen("frozen/0.1"))
    wait_for(lambda: cpu_seconds(path) > still + 0.2)
    node.agent.stop("frozen/0.1", 0)
    assert node.outcome("frozen/0.1")[0] == "KILLED"


def test_a_frozen_task_can_be_stopped(node: Node) -> None:
    node.run("cold/0.1", "trap 'exit 3' TERM; while :; do sleep 0.1; done")
    node.master.await_state("cold/0.1", "RUNNING")
    node.freeze("cold/0.1")
    wait_for(lambda: node.is_frozen("cold/0.1"))
    node.agent.stop("cold/0.1", 5000)
    assert node.outcome("cold/0.1") == ("KILLED", 3, "CANCELLED")


DAEMON = "trap '' TERM HUP INT; while :; do sleep 1; done; : mark-{0}"


def test_a_tree_that_daemonises_and_ignores_sigterm_is_killed_whole(node: Node) -> None:
    daemon = DAEMON.format("daemons")
    line = 'for n in 1 2 3; do (setsid sh -c "$0" & setsid sh -c \'(setsid sh -c "$0" &) & exit\' "$0" &) & done'
    node.run(
        "daemons/0.1", f"set -- ; D=\"{daemon}\"; {line.replace('$0', '$D')}; trap '' TERM; sleep 1000 & wait; wait"
    )
    node.master.await_state("daemons/0.1", "RUNNING")
    wait_for(lambda: len(marked("mark-daemons")) >= 4)
    node.agent.stop("daemons/0.1", 500)
    assert node.outcome("daemons/0.1")[0] == "KILLED"
    await_gone("mark-daemons")


def test_daemons_go_with_the_task_that_left_them(node: Node) -> None:
    node.run("left/0.1", f'setsid sh -c "{DAEMON.format("left")}" & (setsid sleep 1000 &) ; sleep 0.5; exit 0')
    assert node.outcome("left/0.1") == ("SUCCEEDED", 0, "")
    await_gone("mark-left")


def test_tasks_run_as_the_user_that_they_may_ask_for(node: Node) -> None:
    node.run("nobody/0.1", "id -un; id -Gn; umask; pwd; touch here && echo written")
    node.run("alice/0.1", "id -un; id -Gn; echo $HOME; touch here && echo written", user="alice")
    node.run("root/0.1", "id", user="root")
    node.run("bob/0.1", "id", user="bob")
    node.run("ghost/0.1", "id", user="ghost")
    assert node.outcome("nobody/0.1")[0] == "SUCCEEDED"
    assert node.outcome("alice/0.1")[0] == "SUCCEEDED"
    assert node.agent.stdout("nobody/0.1").decode().split()[:3] == ["nobody", "nobody", "0022"]
    said = node.agent.stdout("alice/0.1").decode().split("\n")
    assert said[:2] == ["alice", "alice research"]
    assert "written" in said
    assert node.outcome("root/0.1")[::2] == ("FAILED", "USER_NOT_ALLOWED")
    assert node.outcome("bob/0.1")[::2] == ("FAILED", "USER_NOT_ALLOWED")
    assert node.outcome("ghost/0.1")[::2] == ("FAILED", "USER_NOT_FOUND")


def test_a_setuid_program_gives_a_task_nothing(node: Node) -> None:
    setuid = DISK / "busybox-setuid"
    setuid.write_bytes(Path("/bin/busybox").read_bytes())
    setuid.chmod(0o4755)
    node.run("setuid/0.1", f"grep NoNewPrivs /proc/self/status; {setuid} id -u; cat /disk/node.yaml /etc/passwd- 2>&1")
    node.end_of("setuid/0.1")
    said = node.agent.stdout("setuid/0.1").decode().split()
    assert said[:3] == ["NoNewPrivs:", "1", "65534"]


def test_a_task_with_cpus_of_its_own_sees_only_them(node: Node) -> None:
    node.run("pinned/0.1", "grep _allowed_list /proc/self/status; nproc", cpus="1")
    node.end_of("pinned/0.1")
    assert node.agent.stdout("pinned/0.1").split() == [b"Cpus_allowed_list:", b"1", b"Mems_allowed_list:", b"1", b"1"]


def test_a_task_opens_its_own_gpus_and_no_others(node: Node) -> None:
    tries = "; ".join(f"dd if={path} of=/dev/null count=1 2>&1 | sed -n 's/.*: //p'" for path in GPUS)
    none, second = shell_order("none/0.1", tries), shell_order("gpu/0.1", f"{tries}; echo $CUDA_VISIBLE_DEVICES")
    second.gpus.append(1)
    node.run_all([none, second])
    for task in ("none/0.1", "gpu/0.1"):
        assert node.outcome(task)[0] == "SUCCEEDED"
    assert node.agent.stdout("none/0.1").decode().splitlines() == ["Operation not permitted"] * 2
    said = node.agent.stdout("gpu/0.1").decode().splitlines()
    assert said == ["Operation not permitted", "No such device or address", "1"]


def usable_cpus(node: Node, task: str) -> str:
    return (node.cgroup(task) / "cpuset.cpus.effective").read_text().strip()


def test_cpus_that_a_task_owns_are_kept_clear_of_the_others_while_it_runs(node: Node) -> None:
    node.run("early/0.1", "sleep 1000")
    node.run("deaf/0.1", "sleep 1000")
    for task in ("early/0.1", "deaf/0.1"):
        node.master.await_state(task, "RUNNING")
        assert usable_cpus(node, task) == "0-1"
    deaf = node.cgroup("deaf/0.1") / "cpuset.cpus"
    subprocess.run(["mount", "--bind", "/dev/full", str(deaf)], check=True)  # no write to it succeeds
    node.run("owner/0.1", "sleep 1000", cpus="1")
    node.master.await_state("owner/0.1", "RUNNING")
    assert [usable_cpus(node, task) for task in ("early/0.1", "deaf/0.1", "owner/0.1")] == ["0", "0-1", "1"]
    wait_for(lambda: any("cannot keep a task off CPUs that another owns" in line for line in node.agent.lines))
    subprocess.run(["umount", str(deaf)], check=True)
    node.run("late/0.1", "sleep 1000")
    node.master.await_state("late/0.1", "RUNNING")
    assert [usable_cpus(node, task) for task in ("late/0.1", "deaf/0.1")] == ["0", "0"]
    node.agent.stop("owner/0.1", 0)
    node.end_of("owner/0.1")
    assert [usable_cpus(node, task) for task in ("early/0.1", "deaf/0.1", "late/0.1")] == ["0-1"] * 3
    for task in ("early/0.1", "deaf/0.1", "late/0.1"):
        node.agent.stop(task, 0)
        node.end_of(task)


def kept_above(node: Node) -> list[int]:
    return [int((level / "memory.low").read_text()) for level in (node.tasks, node.tasks.parent)]


def test_what_is_kept_for_tasks_is_kept_above_them_until_they_end(node: Node) -> None:
    node.run_all([shell_order(f"low-{mib}/0.1", "sleep 1000", memory_low_bytes=mib * MIB) for mib in (8, 16)])
    for mib in (8, 16):
        node.master.await_state(f"low-{mib}/0.1", "RUNNING")
        assert int((node.cgroup(f"low-{mib}/0.1") / "memory.low").read_text()) == mib * MIB
    assert kept_above(node) == [24 * MIB] * 2
    node.agent.stop("low-8/0.1", 0)
    node.end_of("low-8/0.1")
    assert kept_above(node) == [16 * MIB] * 2
    node.agent.stop("low-16/0.1", 0)
    node.end_of("low-16/0.1")
    assert kept_above(node) == [0, 0]


def test_an_agent_that_is_killed_finds_all_its_tasks_again(node: Node, figure: Figure) -> None:
    tasks = [f"kept/{number}.1" for number in range(20)]
    for number, task in enumerate(tasks):
        line = f"until [ -e /disk/go-{number % 2} ]; do sleep 0.5; done; exit {number}"
        node.run(task, line, memory_mib=16, **({"cpus": "1", "memory_low_bytes": MIB} if number == 0 else {}))
    for task in tasks:
        node.master.await_state(task, "RUNNING")
    node.agent.end(signal.SIGKILL)
    (DISK / "go-0").touch()  # the even ones end while no agent is there
    wait_for(lambda: len(node.cgroups()) == 10, why=str(node.cgroups()))
    began = time.monotonic()
    node.start()
    took = time.monotonic() - began
    states = {t.allocation_id: NAMES[t.state] for t in node.agent.identity.tasks if t.allocation_id in tasks}
    assert [states[task] for task in tasks[1::2]] == ["RUNNING"] * 10
    assert {usable_cpus(node, task) for task in tasks[1::2]} == {"0-1"}  # who owned one ended while no agent was there
    assert kept_above(node) == [0, 0]
    (DISK / "go-1").touch()
    wait_for(lambda: len(node.ended("kept/")) == 20)
    assert node.ended("kept/") == {task: number for number, task in enumerate(tasks)}
    figure(f"agent killed with 20 tasks, back after {took:.0f} s: 20 adopted, 20 exit codes right")


@pytest.mark.timeout(1200)
def test_many_tasks_leave_no_cgroup_and_no_process(node: Node, figure: Figure) -> None:
    began = time.monotonic()
    for first in range(0, MANY, 50):
        codes = {f"many/{number}.1": number % 7 for number in range(first, first + 50)}
        node.run_all([shell_order(task, f"exit {code}", memory_mib=16) for task, code in codes.items()])
        wait_for(lambda codes=codes: len(node.ended("many/").keys() & codes.keys()) == 50)  # type: ignore[misc]
        assert node.ended("many/").items() >= codes.items()
        node.master.forget = list(codes)
    took = time.monotonic() - began
    wait_for(lambda: node.cgroups() == [], why=str(node.cgroups()))
    await_gone("/disk/node/tasks/many")
    figure(f"{MANY} tasks, {MANY / took:.1f} per second under emulation: no cgroup and no process of theirs is left")
