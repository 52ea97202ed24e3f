"""Runs a command in a task's container, as `docker exec -i` does: stdin, stdout, stderr, a terminal, an exit code.

Invariant: the command ends with this process, which passes on the signals that tell it to end.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from typing import Any

from gosched.agent.runtimes.docker_follow import CHUNK, Output
from gosched.agent.supervisor.family import children_by_pid, signal_one

_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_HANG_UP_S = 1.0
_END_S = 30.0
_ANSWER_S = 60.0
_STARTED = (b"101", b"200")
_CANNOT = 125
_RESIZE_TRIES, _RESIZE_AGAIN_S = 50, 0.05


def execute(client: Any, host: str, words: Sequence[str]) -> int:
    """Run the command, and return its exit code. `client`: of the daemon at `host`. `words`: [--tty] [--env
    NAME=VALUE]... CONTAINER COMMAND..."""
    rest = list(words)
    env: list[str] = []
    terminal = False
    while rest[0].startswith("--"):
        flag = rest.pop(0)
        if flag == "--tty":
            terminal = True
        elif flag == "--env":
            env.append(rest.pop(0))
        else:
            raise SystemExit(f"unknown flag {flag}")
    container, *command = rest
    made = client.exec_create(container, command, stdin=True, tty=terminal, environment=env)["Id"]
    read_end, write_end = os.pipe()
    for fd in (read_end, write_end):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (*_SIGNALS, signal.SIGWINCH):
        signal.signal(number, lambda *_: None)
    with _raw_terminal(terminal):
        try:
            line = _start(host, f"/v{client.api_version}/exec/{made}/start", terminal)
        except OSError as error:
            print(f"the command was not started: {error}", file=sys.stderr)
            return _CANNOT
        _pass_on(client, made, line, terminal, read_end)
    return _exit_code(client, made)


def _start(host: str, path: str, terminal: bool) -> socket.socket:
    """Start it, and return the connection for its input and output. By hand: the library loses what the command wrote,
    if that came together with the header of the answer. Raises OSError."""
    body = json.dumps({"Tty": terminal, "Detach": False}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(_ANSWER_S)
    line.connect(host.removeprefix("unix://"))
    line.sendall(head.encode() + body)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        byte = line.recv(1)
        if not byte or len(answer) > CHUNK:
            raise OSError(f"the daemon at {host} gives no answer")
        answer += byte
    if answer.split(None, 2)[1] not in _STARTED:
        raise OSError(line.recv(CHUNK).decode(errors="replace").strip())
    line.settimeout(None)
    return line


@contextlib.contextmanager
def _raw_terminal(terminal: bool) -> Iterator[None]:
    """Set the terminal to raw: echo and line editing are done by the container's terminal."""
    if not terminal:
        yield
        return
    before = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)  # what came meanwhile is for the command
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _pass_on(client: Any, made: str, line: socket.socket, terminal: bool, signals: int) -> None:
    fd = line.fileno()
    output = Output(fd)
    poll = select.poll()
    for each in (0, fd, signals):
        poll.register(each, select.POLLIN)
    kill_at = 0.0
    resizes = _RESIZE_TRIES if terminal else 0
    while output.is_open:
        resizes = 0 if resizes and _resize(client, made) else max(resizes - 1, 0)
        wait_s = _RESIZE_AGAIN_S if resizes else _HANG_UP_S if kill_at else None
        ready = {each for each, _ in poll.poll(None if wait_s is None else 1000 * wait_s)}
        if kill_at and time.monotonic() > kill_at:
            _signal(client, made, signal.SIGKILL)
        if fd in ready:
            output.copy() if terminal else output.pump()
        if 0 in ready and not _feed(line):
            poll.unregister(0)
        if signals in ready:
            for number in os.read(signals, CHUNK):
                if number == signal.SIGWINCH:
                    resizes = _RESIZE_TRIES
                else:
                    _signal(client, made, number)
                    kill_at = kill_at or (time.monotonic() + _HANG_UP_S if number == signal.SIGHUP else 0.0)


def _feed(line: socket.socket) -> bool:
    """Pass on input; return False at its end."""
    try:
        data = os.read(0, CHUNK)
        if data:
            line.sendall(data)
            return True
        line.shutdown(socket.SHUT_WR)
    except OSError:  # the command has ended, or its terminal has gone
        pass
    return False


def _resize(client: Any, made: str) -> bool:
    """Pass on the terminal's size; return False where the command has not begun yet, or has ended."""
    try:
        size = os.get_terminal_size(0)
        if size.lines and size.columns:
            client.exec_resize(made, height=size.lines, width=size.columns)
    except OSError:  # which all that a daemon refuses is
        return False
    return True


def _signal(client: Any, made: str, number: int) -> None:
    """Send a signal to the command and all that it started."""
    pid = client.exec_inspect(made)["Pid"]
    if not pid:
        return
    children = children_by_pid()
    family = [pid]
    for each in family:
        family.extend(children.get(each, []))
    for each in family:
        signal_one(each, number, None)


def _exit_code(client: Any, made: str) -> int:
    """Return the exit code, which is known a moment after its output has ended."""
    deadline = time.monotonic() + _END_S
    while True:
        found = client.exec_inspect(made)
        if found["ExitCode"] is not None and not found["Running"]:
            return int(found["ExitCode"])
        if time.monotonic() > deadline:
            print("its exit code is unknown", file=sys.stderr)
            return _CANNOT
        time.sleep(0.02)
