"""What tasks use and what their owners have spent, in integers."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.limits import MAX_JOB_DEMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the kernel counted for one start of a task; all 0 where it counts nothing.

    `cpu_ms`: CPU time of all its processes. `throttled_ms`: how long `cpu.max` kept them waiting.
    `memory_bytes` is now, 0 after the end; `memory_peak_bytes` the most at any time. `oom_kills`: processes killed for
    its memory limit. `*_stalled_ms`: how long at least one of its processes waited for a CPU, for memory, for a disk
    (the kernel's pressure stall information).
    """

    cpu_ms: int = 0
    throttled_ms: int = 0
    memory_bytes: int = 0
    memory_peak_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    oom_kills: int = 0
    cpu_stalled_ms: int = 0
    memory_stalled_ms: int = 0
    io_stalled_ms: int = 0


NO_USAGE = Usage()
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Over all starts: CPU time as counted; GPUs (in thousandths) and memory (in MiB, rounded down) as held, times the
    milliseconds and the seconds that they were held. A year of 100,000 nodes fits in 64 bits."""

    cpu_ms: int = 0
    gpu_milli_s: int = 0
    memory_mib_s: int = 0

    def __add__(self, other: Spent) -> Spent:
        """Never more than MAX_JOB_DEMAND of anything."""
        return Spent(
            cpu_ms=min(self.cpu_ms + other.cpu_ms, MAX_JOB_DEMAND),
            gpu_milli_s=min(self.gpu_milli_s + other.gpu_milli_s, MAX_JOB_DEMAND),
            memory_mib_s=min(self.memory_mib_s + other.memory_mib_s, MAX_JOB_DEMAND),
        )


NOTHING_SPENT = Spent()
