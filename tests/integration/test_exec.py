"""`goschedctl exec` on a real cluster, from real terminals: beside the task in every way, and gone with its caller."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.task import TaskState

from .support import PATIENCE_S, PATIENT, goschedctl, until

FACTS = "id; pwd; umask; ulimit -n; ulimit -c; echo $GOSCHED_TASK_ID $COLOUR; cat /proc/self/cgroup"
FACTS += "; grep -e NoNewPrivs -e Cpus_allowed_list /proc/self/status; readlink /proc/self/ns/*"
JOB = f"""
name: place
tasks:
  worker:
    count: 2
    user: nobody
    umask: "0027"
    rlimits: {{nofile: 77, core: 0}}
    env: {{COLOUR: blue}}
    run: |
      {{ {FACTS}; }} > facts.tmp
      mv facts.tmp facts
      sleep 36000
"""
GOSCHEDCTL = str(Path(sys.executable).with_name("goschedctl"))
TAKE_TERMINAL = (
    "import os, sys, fcntl, termios as t; fcntl.ioctl(0, t.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = {"users": {"own": True, "allowed": ["nobody"]}}
    with LocalCluster(masters=3, agents=[AgentShape(settings=settings)], settings=PATIENT) as running:
        yield running


@pytest.fixture(scope="module")
def job(cluster: LocalCluster) -> str:
    with cluster.client() as client:
        client.submit(JOB)
        until(lambda: ready(client.get_job("place")), "both tasks run")
    for task in ("worker/0", "worker/1"):
        until_file(cluster, "place", "facts", "--task", task)
    return "place"


def until_file(cluster: LocalCluster, job: str, name: str, *flags: str) -> None:
    """Waits until the task has made it in its directory."""
    words = ["exec", job, *flags, "--", "test", "-e", name]
    until(lambda: goschedctl(cluster.endpoints, *words).returncode == 0, f"there is {name}")


def ready(detail) -> bool:
    return all(task.state is TaskState.RUNNING for task in detail.tasks)


class Terminal:
    """A terminal with one goschedctl in it, whose screen is a string."""

    def __init__(self, cluster: LocalCluster, *words: str) -> None:
        self.master, self.slave = os.openpty()
        self.resize(24, 80)
        self.before = termios.tcgetattr(self.slave)
        self.screen = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, GOSCHEDCTL, *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            env={**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints, "TERM": "vt100"},
        )

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> None:
        """Reads up to `text`, and forgets it."""
        ends = time.monotonic() + PATIENCE_S
        while text.encode() not in self.screen:
            assert time.monotonic() < ends, f"no {text!r} on the screen: {self.screen[-2000:]!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.screen += os.read(self.master, 65536)
        self.screen = self.screen.partition(text.encode())[2]

    def end(self) -> int:
        """The exit code; the terminal must be as it was found."""
        code = self.process.wait(PATIENCE_S)
        assert termios.tcgetattr(self.slave) == self.before
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for fd in (self.master, self.slave):
            os.close(fd)


@pytest.fixture
def shell(cluster: LocalCluster, job: str) -> Iterator[Terminal]:
    terminal = Terminal(cluster, "exec", job, "--task", "worker/1", "-it", "--", "sh")
    with contextlib.closing(terminal):
        terminal.until("$ ")
        yield terminal


@pytest.fixture
def mark() -> str:
    """An argument for commands, by which no other test of this machine calls its own; one that `sleep` takes."""
    return str(10**6 + secrets.randbelow(10**9))


def beside(mark: str) -> list[psutil.Process]:
    """The commands with it, without those that started them."""
    commands = (["sleep", mark], ["tail", "-c", mark])
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] in commands]


def test_a_command_is_where_its_task_is_and_may_do_what_it_may(cluster: LocalCluster, job: str) -> None:
    for master in cluster.masters.values():  # a follower passes it on
        done = goschedctl(
            master.grpc, "exec", job, "--task", "worker/1", "--", "sh", "-c", f"cat facts; echo =; {FACTS}"
        )
        assert done.returncode == 0, done.stderr
        theirs, ours = done.stdout.split("=\n")
        assert theirs == ours
        assert "(nobody)" in ours
        assert "/worker/1 blue" in ours


def test_the_first_of_several_tasks_is_taken_and_named(cluster: LocalCluster, job: str) -> None:
    done = goschedctl(cluster.endpoints, "exec", job, "--", "sh", "-c", "echo $GOSCHED_TASK_INDEX")
    assert (done.stdout, "in worker/0, the first of 2" in done.stderr) == ("0\n", True)


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        (["sh", "-c", "exit 9"], 9, ""),
        (["sh", "-c", "kill -TERM $$"], 143, ""),
        (["no-such-command"], 127, "no-such-command: no such command on this node"),
        (["./facts"], 126, "./facts: Permission denied"),
    ],
)
def test_the_exit_code_is_the_commands(
    cluster: LocalCluster, job: str, command: list[str], code: int, why: str
) -> None:
    done = goschedctl(cluster.endpoints, "exec", job, "--task", "worker/0", "--", *command)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (code, "", why)


def test_what_goes_through_comes_out_whole(cluster: LocalCluster, job: str) -> None:
    data = os.urandom(32 << 20)
    done = subprocess.run(
        [GOSCHEDCTL, "--endpoints", cluster.endpoints, "exec", job, "--task", "worker/0", "-i", "--", "cat"],
        input=data,
        capture_output=True,
        timeout=2 * PATIENCE_S,
        check=True,
    )
    assert done.stdout == data


def test_a_shell_in_a_terminal(shell: Terminal, mark: str) -> None:
    shell.type("stty size; tty; echo $TERM\n")
    shell.until("24 80\r\n/dev/pts/")
    shell.until("vt100")
    shell.resize(50, 132)
    shell.type('until [ "$(stty size)" != "24 80" ]; do sleep 0.05; done; stty size\n')
    shell.until("50 132")
    shell.type(f"sleep {mark}\n")
    until(lambda: beside(mark), "it sleeps")
    shell.type("\x03")  # Ctrl-C is the shell's affair
    until(lambda: not beside(mark), "it was interrupted")
    shell.type(f"sleep {mark} | tail -c {mark}\n")
    until(lambda: len(beside(mark)) == 2, "both are there to be stopped")
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("seq 100000; echo =$((6 * 7))=\n")
    shell.until("100000\r\n=42=")
    shell.type("exit 3\n")
    shell.type("exit 3\n")  # dash speaks of stopped jobs first
    assert shell.end() == 3
    until(lambda: not beside(mark), "what was stopped has ended too")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_is_restored_when_goschedctl_is_told_to_end(
    shell: Terminal, mark: str, number: signal.Signals
) -> None:
    shell.type(f"trap '' HUP TERM; sleep {mark}\n")
    until(lambda: beside(mark), "it sleeps")
    shell.process.send_signal(number)
    assert shell.end() == 128 + number
    until(lambda: not beside(mark), "the command has ended")


def test_nothing_of_a_command_is_left_when_its_caller_is_killed(cluster: LocalCluster, job: str, mark: str) -> None:
    line = f"trap '' HUP; setsid sleep {mark} & nohup sleep {mark} & sleep {mark}"
    caller = subprocess.Popen([GOSCHEDCTL, "--endpoints", cluster.endpoints, "exec", job, "--", "sh", "-c", line])
    until(lambda: len(beside(mark)) == 3, "all sleep")
    caller.kill()
    caller.wait()
    until(lambda: not beside(mark), "they have ended")
    with cluster.client() as client:
        assert ready(client.get_job(job))


def test_a_command_ends_with_its_task(cluster: LocalCluster, mark: str) -> None:
    with cluster.client() as client:
        client.submit("name: short\nrun: while ! test -e end; do sleep 0.1; done\n")
        until(lambda: ready(client.get_job("short")), "it runs")
        caller = subprocess.Popen(
            [GOSCHEDCTL, "--endpoints", cluster.endpoints, "exec", "short", "--", "sleep", mark],
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: beside(mark), "it sleeps")
        assert goschedctl(cluster.endpoints, "exec", "short", "--", "touch", "end").returncode == 0
        assert "the task has ended" in caller.communicate(timeout=PATIENCE_S)[1]
        assert caller.returncode in (129, 137)  # hung up, or killed with the cgroup
        assert client.wait("short").exit_code == 0
        done = goschedctl(cluster.endpoints, "exec", "short", "--", "true")
        assert (done.returncode, "the job is SUCCEEDED" in done.stderr) == (1, True), done.stderr


def test_a_command_enters_the_namespaces_that_a_task_made_for_itself(cluster: LocalCluster) -> None:
    inside = "mount -t tmpfs none /mnt && touch /mnt/seen && hostname inside && touch ready && sleep 36000"
    with cluster.client() as client:
        client.submit(f"name: apart\nrun: exec unshare -mu sh -c '{inside}'\n")
        until(lambda: ready(client.get_job("apart")), "it runs")
        until_file(cluster, "apart", "ready")
        line = "hostname; ls /mnt"
        assert goschedctl(cluster.endpoints, "exec", "apart", "--", "sh", "-c", line).stdout == "inside\nseen\n"
        client.cancel("apart")


def test_a_suspended_job_takes_no_command(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        client.submit("name: still\nrun: sleep 36000\n")
        until(lambda: ready(client.get_job("still")), "it runs")
        assert goschedctl(cluster.endpoints, "job", "suspend", "still").returncode == 0
        done = goschedctl(cluster.endpoints, "exec", "still", "--", "true")
        assert (done.returncode, "goschedctl job resume still" in done.stderr) == (1, True)
        assert goschedctl(cluster.endpoints, "job", "cancel", "still").returncode == 0


def test_a_command_ends_with_its_agent_and_the_task_goes_on(cluster: LocalCluster, job: str, mark: str) -> None:
    agent = next(iter(cluster.agents.values()))
    caller = subprocess.Popen(
        [GOSCHEDCTL, "--endpoints", cluster.endpoints, "exec", job, "--task", "worker/0", "--", "sleep", mark],
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: beside(mark), "it sleeps")
    agent.kill()
    try:
        said = caller.communicate(timeout=PATIENCE_S)[1]
        assert (caller.returncode, "cannot be reached" in said) == (1, True), said
        until(lambda: not beside(mark), "it has ended")
    finally:
        agent.start()
    again = ["exec", job, "--task", "worker/0", "--", "sh", "-c", "echo $GOSCHED_ATTEMPT"]
    until(lambda: goschedctl(cluster.endpoints, *again).stdout == "1\n", "the same task takes commands again")
