"""How much of a Spark task's memory is the heap of its JVM.

Invariant: the memory of each JVM stays within its task's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

DAEMON_MIB = 256  # of a worker, or of the master beside the driver: a JVM in the same task
LEAST_HEAP_MIB = 450  # with less an executor refuses to start

_MIB = 1 << 20
_LEAST_OVERHEAD_MIB = 384  # what Spark itself adds to a heap elsewhere, or a tenth
_JVM_MEMORY = re.compile(r"([0-9]{1,9})([kmgt]?)b?", re.IGNORECASE)
_JVM_UNITS_MIB: Mapping[str, float] = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}


def heap_mib(memory_bytes: int) -> int:
    """Return the heap of a JVM in a task of so much memory, beside the JVM of a daemon."""
    memory_mib = memory_bytes // _MIB
    return memory_mib - max(_LEAST_OVERHEAD_MIB, memory_mib // 10) - DAEMON_MIB


def memory_mib(heap: int) -> int:
    """Return the least memory of a task whose `heap_mib` is so large."""
    beside = heap + DAEMON_MIB
    return max(beside + _LEAST_OVERHEAD_MIB, (beside - 1) * 10 // 9 + 1)


def least_memory_mib() -> int:
    """Return the least memory of a task in which a JVM of Spark starts."""
    return memory_mib(LEAST_HEAP_MIB)


def cores(cpu_millis: int) -> int:
    """Return how many tasks of Spark run at once."""
    return max(1, cpu_millis // 1000)


def jvm_mib(value: str) -> float:
    """Read an amount as a JVM does, but a number alone as MiB, as Spark does; 0: it is no amount."""
    found = _JVM_MEMORY.fullmatch(value.strip())
    return int(found[1]) * _JVM_UNITS_MIB[found[2].lower()] if found else 0
