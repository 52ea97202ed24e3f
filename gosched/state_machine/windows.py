"""Windows: nodes that are reserved for a time, for maintenance or for some queues and tenants.

Invariant: a window is of nodes and queues that are there when it is made, and is forgotten once it has ended.
"""

from __future__ import annotations

from gosched.core.commands.cluster import DropWindow, SetWindow
from gosched.core.events import Event, WindowsChanged
from gosched.core.limits import MAX_NAME_LENGTH, MAX_SPEC_BYTES, MAX_WINDOWS
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.window import Window
from gosched.core.rules.finding import text_of
from gosched.core.rules.values import check_line, check_moment, check_name, check_order
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import units
from gosched.state_machine.size_limits import windows_size_refusal


def set_one(state: ClusterState, command: SetWindow, events: list[Event]) -> Outcome:
    """Make a window, or change one. Jobs that run on its nodes go on until the planner evicts them."""
    window = command.window
    problem = _problem(window) or _times_problem(state, window)
    if problem:
        return Rejected(code=Code.INVALID, detail=problem)
    problem = _unknown(state, window)
    if problem:
        return Rejected(code=Code.NOT_FOUND, detail=problem)
    if state.windows.get(window.name) == window:
        return Accepted(subject=window.name, unchanged=True)
    others = [w.name for w in state.windows.values() if not _has_ended(state, w) and w.name != window.name]
    if len(others) >= MAX_WINDOWS:
        return Rejected(code=Code.EXHAUSTED, detail=f"there are {MAX_WINDOWS} windows, the limit: delete one first")
    refused = windows_size_refusal(state, window)
    if refused is not None:
        return refused
    forget_ended(state, [])
    state.put_window(window)
    events.append(WindowsChanged())
    return Accepted(subject=window.name)


def drop(state: ClusterState, command: DropWindow, events: list[Event]) -> Outcome:
    if command.name not in state.windows:
        shown = command.name[:MAX_NAME_LENGTH]
        return Rejected(code=Code.NOT_FOUND, detail=f"no window {shown!a}: it has ended, or never was")
    state.drop_window(command.name)
    events.append(WindowsChanged())
    return Accepted(subject=command.name)


def forget_ended(state: ClusterState, events: list[Event]) -> None:
    ended = [window.name for window in state.windows.values() if _has_ended(state, window)]
    for name in ended:
        state.drop_window(name)
    if ended:
        events.append(WindowsChanged())


def _has_ended(state: ClusterState, window: Window) -> bool:
    return 0 < window.end_ms <= state.clock_ms


def _problem(window: Window) -> str:
    name = window.name
    found = check_name("window name", name)
    if found:
        return str(found)
    if not window.nodes:
        return f"window {name} is of no node: name one at least"
    for tenant in window.tenants:
        found = check_name(f"window {name}: tenant", tenant)
        if found:
            return str(found)
    found = check_line(f"window {name}: its reason", window.reason)
    if found:
        return str(found)
    size = sum([len(text.encode()) for text in (*window.nodes, *window.queues, *window.tenants)])
    if size > MAX_SPEC_BYTES:
        return f"window {name}: its names take {size} bytes; at most {MAX_SPEC_BYTES} are allowed: make several windows"
    return text_of(
        check_order(f"window {name}: nodes", window.nodes)
        or check_order(f"window {name}: queues", window.queues)
        or check_order(f"window {name}: tenants", window.tenants)
    )


def _times_problem(state: ClusterState, window: Window) -> str:
    name, start, end = window.name, window.start_ms, window.end_ms
    found = check_moment(f"window {name}: its start", start) or check_moment(f"window {name}: its end", end)
    if found:
        return str(found)
    if end and end <= start:
        ends, starts = units.moment(state.feature_level, end), units.moment(state.feature_level, start)
        return f"window {name} ends at {ends}, not after its start at {starts}"
    if _has_ended(state, window):
        return f"window {name} has ended already: give an end to come"
    return ""


def _unknown(state: ClusterState, window: Window) -> str:
    for node in window.nodes:
        if node not in state.nodes:
            return f"window {window.name} is of node {node[:MAX_NAME_LENGTH]!a}, and there is no such node"
    for queue in window.queues:
        if queue not in state.queues:
            return f"window {window.name} is for queue {queue[:MAX_NAME_LENGTH]!a}, and there is no such queue"
    return ""
