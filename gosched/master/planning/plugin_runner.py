"""Runs the calls of plugins in threads of their own, each plugin within its time in a cycle.

Invariant: the planner never waits for a plugin longer than that. A call that has not ended by then is left alone, and
its plugin stays out until it has. (A call that holds the interpreter's lock for good, as C code may, stops the whole
process: no thread can help against that.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from gosched.scheduling.plugins.interface import Call, Plugin, PluginFault


class PluginRunner:
    """A `Runner`. `timeouts_ms`: by plugin name, for all calls of one cycle together."""

    def __init__(self, timeouts_ms: Mapping[str, int]) -> None:
        self._timeouts_ms = timeouts_ms
        self._threads: dict[str, _Worker] = {}

    def __call__(self) -> Call:
        left_s = {name: timeout / 1000 for name, timeout in self._timeouts_ms.items()}

        def run(plugin: Plugin, call: Callable[[], Any]) -> Any:
            worker = self._threads.setdefault(plugin.name, _Worker(plugin.name))
            if not worker.idle.is_set():
                raise PluginFault("a call of an earlier cycle has not ended yet")
            started = time.monotonic()
            task = worker.start(call)
            in_time = worker.idle.wait(left_s[plugin.name])
            left_s[plugin.name] -= time.monotonic() - started
            if not in_time or left_s[plugin.name] <= 0:
                raise PluginFault(f"took longer than its {self._timeouts_ms[plugin.name]} ms in a cycle")
            if task.error is not None:
                raise task.error
            return task.answer

        return run


class _Task:
    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.answer: Any = None
        self.error: Exception | None = None


class _Worker:
    """A thread that ends with the process, whatever it does. `idle`: it may be given a task."""

    def __init__(self, name: str) -> None:
        self.idle = Event()
        self.idle.set()
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._thread = Thread(target=self._run, name=f"plugin-{name}", daemon=True)

    def start(self, call: Callable[[], Any]) -> _Task:
        if not self._thread.is_alive():
            self._thread.start()
        task = _Task(call)
        self.idle.clear()
        self._tasks.put(task)
        return task

    def _run(self) -> None:
        while True:
            task = self._tasks.get()
            try:
                task.answer = task.call()
            except Exception as error:
                task.error = error
            except BaseException as error:  # such as SystemExit, which would end this thread
                task.error = PluginFault(f"raised {type(error).__name__}")
            self.idle.set()
