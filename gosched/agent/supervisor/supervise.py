"""Runs one task, outlives the agent, and records how the task ended.

Its line is a pipe to the agent: a byte says that the task runs, its end that this process attends to it no more.

In the allocation's directory it reads `launch.json` and, whenever SIGURG comes, `stop.json` and `freeze.json`; it
writes `supervisor.json`, `task.json` once the task runs, and `exit.json`. SIGURG is ignored by default: the agent may
send it before the handler is there, since the files are read after that too.

Invariant: `exit.json` is written, synced, after the last process of the task is gone, and the allocation's lock is held
until then.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from typing import Any

from gosched.agent.supervisor.commands import run
from gosched.agent.supervisor.control_group import ControlGroup
from gosched.agent.supervisor.family import kill_leftovers, own_start_time, reap
from gosched.agent.supervisor.freezing import Freezing
from gosched.agent.supervisor.launch import Launch, read_launch
from gosched.agent.supervisor.launching import NotStarted, become_subreaper, start_task
from gosched.agent.supervisor.lease import LOOK_EVERY_S, Lease
from gosched.agent.supervisor.logs import CHUNK, Log, open_logs
from gosched.agent.supervisor.records import (
    NODE_FAULTS,
    RESULT,
    SUPERVISOR,
    TASK,
    USAGE,
    StopOrder,
    note,
    now_ms,
    read,
    read_stop,
    record_exit,
    wants_frozen,
    write,
)
from gosched.agent.supervisor.stopping import Stopping
from gosched.core.reasons import Reason


def main(woken: int, line: int = -1) -> bool:
    """Supervise the task of the working directory. `woken`: from `prepare_process`; `line`: -1: the agent has none.
    Return whether nothing of the task is left in this process, so that it may attend to another."""
    launch = read_launch()
    group = ControlGroup(launch.cgroup)
    try:
        # Before the task: where this record is missing, nothing ran.
        me = {"pid": os.getpid(), "start_time": own_start_time(os.getpid()), "boot_id": launch.boot_id}
        write(SUPERVISOR, me, sync=True)
        stop = read_stop()
        if stop is not None:
            end(launch, group, ending(stop.ends_as, None, stop.reason, "stopped before it started", 0))
            return False
        late = Lease(launch.lease, launch.lease_grace_ms).expired()
        if late is not None:  # the host was suspended while its order was on the way
            end(launch, group, ending(late.ends_as, None, late.reason, f"{late.detail}: it was not started", 0))
            return False
        logs, writers = open_logs(launch.log_max_bytes, launch.log_files)
        pid = start_task(launch, writers)
    except NotStarted as failure:
        record = ending("FAILED", failure.exit_code, failure.reason, failure.detail, 0)
        end(launch, group, {**record, "blames_node": failure.blames_node})
        return False
    except OSError as error:
        detail = f"the node cannot start the task: {error}"
        if error.errno in NODE_FAULTS:
            record = ending("LOST", None, Reason.NODE_FAULT, detail, 0)
        else:
            record = ending("FAILED", 125, Reason.START_FAILED, detail, 0)
        end(launch, group, {**record, "blames_node": True})
        return False
    began_at, started_at_ms = time.monotonic(), now_ms()
    if not launch.announces:
        note(TASK, {"pid": pid, "started_at_ms": started_at_ms})
        tell(line)
    status, stop = watch(pid, launch, group, logs, woken)
    is_gone = group.empty()
    kill_leftovers()
    for log in logs:
        log.drain()
    # By the clock that is never set: a task never ends before it started, nor before it has saved itself.
    ended_at_ms = started_at_ms + math.ceil((time.monotonic() - began_at) * 1000)
    record = describe(status, stop, started_at_ms, group)
    detail = record["detail"] if is_gone else f"{record['detail']}; some of its processes hang in the kernel"
    end(launch, group, {**record, "detail": detail, "ended_at_ms": ended_at_ms})
    for log in logs:
        log.close()
    return is_gone


def tell(line: int) -> None:
    """Tell the agent that the task runs. One that has ended finds it in the records."""
    if line >= 0:
        with contextlib.suppress(BrokenPipeError):
            os.write(line, b"+")


def prepare_process() -> int:
    """Return the pipe that signals are written to. Orphans of the task become children of this process."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGURG):
        signal.signal(number, lambda *_: None)
    become_subreaper()
    return read_end


def watch(pid: int, launch: Launch, group: ControlGroup, logs: list[Log], woken: int) -> tuple[int, StopOrder | None]:
    """Wait for the end of the task's main process, obeying orders meanwhile. Return its wait status and the stop order,
    if one came."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    by_fd = {log.fd: log for log in logs}
    for fd in by_fd:
        poll.register(fd, select.POLLIN)
    freezing = Freezing(launch, group)
    stopping, lease = Stopping(pid, group, freezing), Lease(launch.lease, launch.lease_grace_ms)
    stop: StopOrder | None = None
    look = True  # an order may have come before the handler
    while True:
        if look:
            stop = read_stop() or stop
            if stop is None:
                freezing.set(wants_frozen())
        late = lease.expired()
        if stop is None:
            stop = late
        elif late is not None:
            stop.checkpoint_ms = 0  # what is left is for SIGTERM
        wait_s = math.inf if stop is None else stopping.go_on(stop, lease.left_ms() / 1000)
        if lease.path:
            wait_s = min(wait_s, LOOK_EVERY_S)
        look = False
        for fd, _ in poll.poll(None if wait_s == math.inf else wait_s * 1000 + 1):
            if fd == woken:
                look = signal.SIGURG in os.read(woken, CHUNK)
            elif not by_fd[fd].pump():
                poll.unregister(fd)
        status = reap().get(pid)
        if status is not None:
            return status, stop


def describe(status: int, stop: StopOrder | None, started_at_ms: int, group: ControlGroup) -> dict[str, Any]:
    """Return the record of the end. What the runtime says of it (`result.json`) counts for more than its command's exit
    code."""
    code = os.waitstatus_to_exitcode(status)
    detail = f"ended with exit code {code}"
    if code < 0:
        detail = (
            f"ended by {signal.Signals(-code).name}" if -code in set(signal.Signals) else f"ended by signal {-code}"
        )
        code = 128 - code
    result = read(RESULT) or {}
    # A container's, which is not in the task's cgroup: to its end, or, if its launcher was killed, until just before.
    usage = result.get("usage") or read(USAGE) or group.usage()
    if stop is not None:
        record = ending(stop.ends_as, code, stop.reason, stop.detail or detail, started_at_ms)
    elif code == 0:
        record = ending("SUCCEEDED", 0, "", "", started_at_ms)
    elif usage.get("oom_kills") and "usage" not in result and not group.is_over_memory():
        record = ending(
            "FAILED", code, Reason.NODE_OUT_OF_MEMORY, f"{detail}: the node had no memory left", started_at_ms
        )
    elif usage.get("oom_kills") or result.get("reason") == Reason.OOM_KILLED:
        detail = f"{detail}: it used more memory than it asked for"
        record = ending("FAILED", code, Reason.OOM_KILLED, detail, started_at_ms)
    else:
        reason = Reason.SIGNALLED if status & 0x7F else Reason.NONZERO_EXIT
        record = ending("FAILED", code, reason, detail, started_at_ms)
        record |= {key: result[key] for key in ("reason", "detail", "blames_node") if key in result}
    return {**record, "usage": usage}


def ending(state: str, exit_code: int | None, reason: str, detail: str, started_at_ms: int) -> dict[str, Any]:
    return {
        "state": state,
        "exit_code": exit_code,
        "reason": reason,
        "detail": detail,
        "started_at_ms": started_at_ms,
        "ended_at_ms": now_ms(),
    }


def end(launch: Launch, group: ControlGroup, record: dict[str, Any]) -> None:
    for command in launch.cleanup:
        run(command)
    group.remove()
    record_exit(record)
