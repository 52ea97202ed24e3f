"""The host's vital signs: how much of CPUs, memory, disk and GPUs is in use, what waits for them, and whether the node
should take work at all.

Invariant: looking happens in a thread of its own, so that a disk or a driver that hangs stops no heartbeat; a caller
gets the last look.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import structlog

from gosched.agent.hardware.disk import LOOK_EVERY_S, Disk
from gosched.agent.hardware.gpus import Gpus
from gosched.wire.v1 import node_pb2

HANGS_AFTER_S = 30.0
FAULT_S = 30.0
PRESSURES = ("cpu", "memory", "io")

_SOME = re.compile(r"^some avg10=([\d.]+) .*total=(\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Time in which some task waited (PSI)."""

    #: Its share of the last 10 s, in thousandths; -1: the kernel does not count it.
    milli: int = -1
    #: Its sum since boot.
    stalled_us: int = 0


class Vitals:
    """The newest look. `on_change` is called in the looking thread, after a look at which `unfit` or the bad GPUs
    changed."""

    def __init__(
        self,
        disk: Disk,
        gpus: Gpus,
        on_change: Callable[[], None],
        *,
        pressure: Path = Path("/proc/pressure"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.disk = disk
        self.gpus = gpus
        self.pressure = {name: Pressure() for name in PRESSURES}
        self._on_change = on_change
        self._pressure_files = pressure
        self._clock = clock
        self._cpu_milli = 0
        self._memory_bytes = 0
        self._busy_s, self._busy_at = _busy_seconds(), clock()
        self._looked_at = clock()
        self._fault, self._fault_until = "", 0.0
        self._ended = threading.Event()

    def start(self) -> None:
        """Look once, and then again and again in a thread that the agent's end does not wait for."""
        self.look()
        threading.Thread(target=self._look_on, name="vitals", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def look(self) -> None:
        now, busy_s = self._clock(), _busy_seconds()
        if now > self._busy_at:
            self._cpu_milli = max(0, round((busy_s - self._busy_s) / (now - self._busy_at) * 1000))
        self._busy_s, self._busy_at = busy_s, now
        memory = psutil.virtual_memory()
        self._memory_bytes = memory.total - memory.available
        self.pressure = {name: read_pressure(self._pressure_files / name) for name in PRESSURES}
        self.disk.look()
        if self._fault and self._clock() >= self._fault_until and self.disk.can_write():
            self._fault = ""
        self.gpus.look()
        self._looked_at = self._clock()

    def unfit(self) -> str:
        """Return why no more work should come to this node for now; empty: it should."""
        silent_s = self._clock() - self._looked_at
        if silent_s > HANGS_AFTER_S:
            return "the agent's look at its disk and GPUs hangs: one of them does not answer"
        return self.disk.problem or self._fault

    def note_fault(self, detail: str) -> None:
        """Take no more tasks for FAULT_S, and until the disk takes data again: one could not be started for want of
        disk or memory."""
        self._fault_until = self._clock() + FAULT_S
        self._fault = detail

    def usage(self) -> node_pb2.NodeUsage:
        gpus = zip(self.gpus.gpus, self.gpus.states, strict=True)
        return node_pb2.NodeUsage(
            cpu_milli=self._cpu_milli,
            memory_bytes=self._memory_bytes,
            disk_bytes=self.disk.used_bytes,
            cpu_pressure_milli=self.pressure["cpu"].milli,
            memory_pressure_milli=self.pressure["memory"].milli,
            io_pressure_milli=self.pressure["io"].milli,
            gpus=[
                node_pb2.GpuUsage(
                    gpu=number,
                    name=gpu.name,
                    uuid=gpu.uuid,
                    busy_milli=state.busy_milli,
                    memory_bytes=state.memory_bytes,
                    problem=state.problem,
                )
                for number, (gpu, state) in enumerate(gpus)
            ],
        )

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            before = (self.unfit(), self.gpus.bad)
            try:
                self.look()
            except Exception:
                structlog.get_logger().exception("cannot look at this machine")  # `unfit` says so when it lasts
                continue
            if (self.unfit(), self.gpus.bad) != before:
                self._on_change()


def read_pressure(file: Path) -> Pressure:
    try:
        found = _SOME.search(file.read_text(encoding="ascii"))
    except OSError:  # not in this kernel, or switched off at boot: then reading it fails
        return Pressure()
    if found is None:
        return Pressure()
    return Pressure(milli=round(float(found[1]) * 10), stalled_us=int(found[2]))


def _busy_seconds() -> float:
    """Return the busy time of all CPUs together, without what a virtual machine's host took away."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)
