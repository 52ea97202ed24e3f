"""What tasks use and what their owners have spent, in integers."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.limits import MAX_JOB_DEMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the kernel counted for one start of a task; all 0 where it counts nothing."""

    #: CPU time of all its processes.
    cpu_ms: int = 0
    #: How long `cpu.max` kept them waiting.
    throttled_ms: int = 0
    #: Now; 0 after the end.
    memory_bytes: int = 0
    #: The most at any time.
    memory_peak_bytes: int = 0
    #: From disks.
    read_bytes: int = 0
    #: To disks.
    written_bytes: int = 0
    #: Processes that were killed for its memory limit.
    oom_kills: int = 0
    #: How long at least one of its processes waited for a CPU (the kernel's pressure stall information).
    cpu_stalled_ms: int = 0
    #: The same for memory.
    memory_stalled_ms: int = 0
    #: The same for a disk.
    io_stalled_ms: int = 0


NO_USAGE = Usage()
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was used over all starts. A year of 100,000 nodes fits in 64 bits."""

    #: CPU time, as counted.
    cpu_ms: int = 0
    #: Thousandths of GPUs, as held, times seconds.
    gpu_milli_s: int = 0
    #: Memory in MiB (rounded down), as held, times seconds.
    memory_mib_s: int = 0

    def __add__(self, other: Spent) -> Spent:
        """Return the sum, at most MAX_JOB_DEMAND of anything."""
        return Spent(
            cpu_ms=min(self.cpu_ms + other.cpu_ms, MAX_JOB_DEMAND),
            gpu_milli_s=min(self.gpu_milli_s + other.gpu_milli_s, MAX_JOB_DEMAND),
            memory_mib_s=min(self.memory_mib_s + other.memory_mib_s, MAX_JOB_DEMAND),
        )


NOTHING_SPENT = Spent()
