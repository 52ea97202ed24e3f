"""`goschedctl exec JOB -- CMD`: run a command on the node, next to the task.

Invariant: however this ends, the terminal is restored.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from types import FrameType

import click

from gosched.cli.connect import connect
from gosched.cli.job_filters import task_option
from gosched.cli.job_flags import DashedCommand, command_after_dashes
from gosched.cli.output import say
from gosched.client import GoSchedError, JobDetail, Unavailable
from gosched.client.exec import Exec
from gosched.core.records.task import TaskState

STDIN = 0
CHUNK_BYTES = 32 * 1024
PLAIN_SIZE = (24, 80)  # rows and columns, where there is no terminal to ask


@click.command(cls=DashedCommand)
@click.argument("job")
@task_option
@click.option("-i", "--stdin", "interactive", is_flag=True, help="Pass stdin to the command.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command a terminal; use -it for a shell.")
@click.pass_context
def command(ctx: click.Context, job: str, task: str, interactive: bool, terminal: bool) -> int:
    """Run CMD next to a running task, in its cgroup, directory and environment, as its user: exec JOB -it -- bash

    Returns the exit code of CMD. CMD ends when this program ends. Ctrl-C interrupts CMD, a second Ctrl-C ends this."""
    words = command_after_dashes(ctx)
    if not words:
        raise click.UsageError("nothing to run: give a command after --, such as: goschedctl exec JOB -it -- bash")
    if interactive and terminal and not os.isatty(STDIN):
        raise click.UsageError("stdin is not a terminal: leave out -t")
    client = connect(ctx)
    detail = client.get_job(job)
    with Exec(
        client,
        detail.id,
        words,
        task=task or _first_running(detail),
        env={"TERM": os.environ.get("TERM", "dumb")} if terminal else None,
        size=terminal_size() if terminal else None,
    ) as running:
        return until_end(running, interactive=interactive, terminal=terminal)


def _first_running(detail: JobDetail) -> str:
    """Return the first of several running tasks; empty otherwise: the master takes the only one, or says why not."""
    running = [task for task in detail.tasks if task.state is TaskState.RUNNING]
    if len(running) < 2:
        return ""
    first = min(running, key=lambda task: task.rank)
    name = f"{first.group}/{first.index}"
    say(f"in {name}, the first of {len(running)} running tasks: choose another with --task")
    return name


def until_end(running: Exec, *, interactive: bool, terminal: bool) -> int:
    """Pass input, output and signals on until the command ends, and return its exit code. `interactive`: stdin goes to
    it; `terminal`: it has one."""
    ended_by: list[int] = []  # the signal that ended this program

    def leave(number: int) -> None:
        ended_by.append(number)
        running.cancel()

    interrupts = iter((running.signal,))
    handlers: dict[int, Callable[[int], None]] = {
        signal.SIGINT: lambda number: next(interrupts, leave)(number),
        signal.SIGTERM: leave,
        signal.SIGHUP: leave,
    }
    if terminal:
        handlers[signal.SIGWINCH] = lambda _: running.resize(*terminal_size())
    with _handled(handlers), _raw_terminal() if interactive and terminal else contextlib.nullcontext():
        if interactive:
            threading.Thread(target=_pass_stdin, args=(running,), daemon=True).start()
        elif not terminal:
            running.end_input()
        try:
            for stream, data in running:
                out = sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer
                out.write(data)
                out.flush()
        except GoSchedError:
            if not ended_by:
                raise
    return 128 + ended_by[0] if ended_by else running.exit_code or 0


def _pass_stdin(running: Exec) -> None:
    with contextlib.suppress(OSError, Unavailable):  # a terminal that hung up, a command that has ended
        while data := os.read(STDIN, CHUNK_BYTES):
            running.send(data)
    running.end_input()


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass each key to the command, Ctrl-C too."""
    found = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN, termios.TCSADRAIN)  # what was typed meanwhile is for the command
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSANOW, found)


@contextlib.contextmanager
def _handled(handlers: dict[int, Callable[[int], None]]) -> Iterator[None]:
    def handle(number: int, _: FrameType | None) -> None:
        handlers[number](number)

    found = {number: signal.signal(number, handle) for number in handlers}
    try:
        yield
    finally:
        for number, handler in found.items():
            signal.signal(number, handler)


def terminal_size() -> tuple[int, int]:
    """Return the rows and columns of the terminal here."""
    for fd in (0, 1, 2):
        with contextlib.suppress(OSError):
            columns, rows = os.get_terminal_size(fd)
            return rows, columns
    return PLAIN_SIZE
