"""Gives each task a supervisor: one that is free, or else a new fork, so that none has to start an interpreter.

    nursery SOCKET_FD DATA_DIR

It gets one message for each task: the allocation's directory, and with it the descriptors of its lock and of its line.
It answers with the supervisor's pid and its start time, with nothing where the supervisor ended before it was looked
at, or with an error: then none was started, and the task is placed again. The agent's data directory is on the command
line of the nursery and of the supervisors, for others to read.

A supervisor whose task has ended waits for the next one: a fork of an interpreter copies its memory page by page, which
costs more than all that a supervisor does for a short task. It holds lock and line only while it attends to a task.

Invariant: the nursery ends with its agent, and with it each supervisor that is free; the others go on to the end of
their task. What waits here is bounded in number and in time.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from gosched.agent.supervisor import supervise
from gosched.agent.supervisor.control_group import cgroup_of
from gosched.agent.supervisor.family import start_time
from gosched.agent.supervisor.records import Output, complain

MAX_MESSAGE = 8192
MAX_KEPT = 64  # supervisors that may come back, busy ones included: each is a descriptor
MAX_TASKS = 1000  # of one supervisor
IDLE_S = 1.0  # that a supervisor waits for its next task

LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
STAY, FREE = b"stay", b"free"  # said to a supervisor: wait for another task; and by it: it does


@dataclass(slots=True, eq=False)
class Supervisor:
    """A supervisor that may come back."""

    pid: int
    start_time: int
    #: This process' end of the socket to it.
    socket: socket.socket
    #: When it became free; 0: it has a task.
    free_at: float = 0.0


class Nursery:
    """The supervisors that may come back, by the descriptor of their socket, those that got a task last behind."""

    def __init__(self, agent: socket.socket) -> None:
        self.agent = agent
        self.kept: dict[int, Supervisor] = {}
        self.free: list[Supervisor] = []
        self.poll = select.poll()
        self.poll.register(agent, select.POLLIN)

    def run(self) -> None:
        """Serve the agent until it ends."""
        while True:
            asked = False
            for fd, _ in self.poll.poll(IDLE_S * 1000 if self.free else None):
                if fd == self.agent.fileno():
                    asked = True
                else:
                    self.hear(self.kept[fd])
            if asked and not self.serve():  # now that it is known who is free
                return
            while self.free and self.free[0].free_at < time.monotonic() - IDLE_S:
                self.drop(self.free[0])

    def serve(self) -> bool:
        """Give one task a supervisor. Return False once the agent has ended."""
        message, descriptors, _, _ = socket.recv_fds(self.agent, MAX_MESSAGE, 2)
        if not message:
            return False
        try:
            answer = self.reuse(message, descriptors) or self.fork(message, descriptors)
        except OSError as error:
            answer = {"error": f"cannot start a supervisor: {error}"}
        for descriptor in descriptors:
            os.close(descriptor)
        self.agent.send(json.dumps(answer).encode())
        return True

    def hear(self, supervisor: Supervisor) -> None:
        """Take note that a supervisor is free, or has ended."""
        try:
            is_free = supervisor.socket.recv(MAX_MESSAGE, socket.MSG_DONTWAIT) == FREE
        except BlockingIOError:  # nothing came after all
            return
        except OSError:
            is_free = False
        if is_free:
            supervisor.free_at = time.monotonic()
            self.free.append(supervisor)
        else:
            self.drop(supervisor)

    def drop(self, supervisor: Supervisor) -> None:
        """Let a supervisor end, once it is free."""
        if supervisor in self.free:
            self.free.remove(supervisor)
        self.poll.unregister(supervisor.socket)
        del self.kept[supervisor.socket.fileno()]
        supervisor.socket.close()

    def reuse(self, message: bytes, descriptors: list[int]) -> dict[str, object]:
        """Give the task to a free supervisor, and return what is answered. Empty: there is none."""
        while self.free:
            supervisor = self.free.pop()  # the one whose memory is warm
            try:
                socket.send_fds(supervisor.socket, [message], descriptors)
                os.kill(supervisor.pid, signal.SIGCONT)  # the last task's user may have stopped it
            except OSError:  # it was killed
                self.drop(supervisor)
                continue
            supervisor.free_at = 0.0
            self.kept[supervisor.socket.fileno()] = self.kept.pop(supervisor.socket.fileno())
            return {"pid": supervisor.pid, "start_time": supervisor.start_time}
        return {}

    def fork(self, message: bytes, descriptors: list[int]) -> dict[str, object]:
        """Give the task to a new supervisor, and return what is answered. Raises OSError: there is none."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            inherited = [self.agent.fileno(), ours.fileno(), *self.kept]
            pid = os.fork()
            if not pid:
                live(message, descriptors, theirs, inherited)
        try:
            began = start_time(pid)
            ours.send(STAY)
        except OSError:  # it has ended: a short task, while this process had to wait for a CPU
            ours.close()
            return {}
        if len(self.kept) >= MAX_KEPT:
            self.drop(next(iter(self.kept.values())))
        self.kept[ours.fileno()] = Supervisor(pid, began, ours)
        self.poll.register(ours, select.POLLIN)
        return {"pid": pid, "start_time": began}


def main() -> None:
    agent = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.disable()
    gc.freeze()
    Nursery(agent).run()


def live(message: bytes, descriptors: list[int], nursery: socket.socket, inherited: list[int]) -> NoReturn:
    """Be a supervisor: of this task, and of those that come after it."""
    try:
        for descriptor in inherited:
            os.close(descriptor)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)
        woken = supervise.prepare_process()
        made = condition()
        may_stay = False  # until the nursery has seen it
        for left in reversed(range(MAX_TASKS)):
            is_clean = attend(message, descriptors, woken) and condition() == made
            may_stay = may_stay or has_come(nursery)
            if not (is_clean and may_stay and left):
                break
            nursery.send(FREE)
            message, descriptors, _, _ = socket.recv_fds(nursery, MAX_MESSAGE, 2)
            if not message:
                break
        os._exit(0)
    except (BrokenPipeError, ConnectionResetError):  # the nursery has ended
        os._exit(0)
    except BaseException as error:
        complain(f"the supervisor failed: {error!r}")
    os._exit(1)


def attend(directory: bytes, descriptors: list[int], woken: int) -> bool:
    """Supervise one task from start to end. Return whether nothing of it is left."""
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    os.chdir(directory)
    Output.is_file = True
    is_clean = supervise.main(woken, line=descriptors[1] if len(descriptors) > 1 else -1)
    Output.is_file = False
    os.chdir("/")  # before it is free: by its directory others know which task it attends to
    for descriptor in descriptors:
        os.close(descriptor)
    return is_clean


def condition() -> tuple[object, ...]:
    """Return what tasks inherit from this process, and one of the same user, or of root, can change in it."""
    with open("/proc/self/oom_score_adj", encoding="ascii") as file:
        oom_score_adj = file.read()
    limits = [resource.getrlimit(kind) for kind in LIMITS]
    priority, cpus = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
    return oom_score_adj, limits, priority, cpus, os.sched_getscheduler(0), cgroup_of(os.getpid())


def has_come(nursery: socket.socket) -> bool:
    """Return whether the nursery has said STAY."""
    try:
        return nursery.recv(MAX_MESSAGE, socket.MSG_DONTWAIT) == STAY
    except BlockingIOError:
        return False


if __name__ == "__main__":
    main()
