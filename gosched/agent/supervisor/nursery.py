"""Forks a supervisor for each task, so that none of them has to start an interpreter.

    nursery SOCKET_FD DATA_DIR

It gets one message for each task: the allocation's directory, and with it the descriptor of its lock. It answers with
the supervisor's pid and its start time, with nothing where the supervisor ended before it was looked at, or with an
error: then none was started, and the task is placed again. The agent's data directory is on the command line of the
nursery and of the supervisors, for others to read.

Invariant: the nursery ends with its agent, the supervisors go on.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys

from gosched.agent.supervisor import supervise
from gosched.agent.supervisor.family import start_time

MAX_MESSAGE = 8192


def main() -> None:
    agent = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    gc.disable()
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(agent, MAX_MESSAGE, 1)
        if not message:
            return
        try:
            pid = fork_supervisor(message, descriptors[0], agent)
        except OSError as error:
            answer: dict[str, object] = {"error": f"cannot start a supervisor: {error}"}
        else:
            answer = seen(pid)
        os.close(descriptors[0])
        agent.send(json.dumps(answer).encode())


def seen(pid: int) -> dict[str, object]:
    try:
        return {"pid": pid, "start_time": start_time(pid)}
    except OSError:  # a short task, while this process had to wait for a CPU
        return {}


def fork_supervisor(directory: bytes, lock: int, agent: socket.socket) -> int:
    """Fork one and return its pid. Raises OSError: there is none."""
    pid = os.fork()
    if pid:
        return pid
    try:
        agent.close()
        os.setsid()
        os.chdir(directory)
        log = os.open("supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(lock, False)
        supervise.main()
        sys.stderr.flush()
        os._exit(0)
    except BaseException as error:
        print(f"the supervisor failed: {error!r}", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    main()
