"""Resource vectors: what tasks ask for and nodes have. Integers only; an amount is never negative in a record."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.replace import quickly_made

MILLI = 1000  # thousandths of a CPU in one CPU, and of a GPU in one GPU

# Amounts by name: pairs sorted by name, no zeros, so that equal maps are equal records.
AmountMap = tuple[tuple[str, int], ...]


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """A vector of amounts: what tasks request and nodes have."""

    #: Thousandths of a CPU.
    cpu_millis: int = 0
    #: Memory.
    memory_bytes: int = 0
    #: Local disk space.
    storage_bytes: int = 0
    #: Thousandths of a GPU. Of a task, fewer than 1000 are a share of one GPU; more are whole GPUs.
    gpu_millis: int = 0
    #: The cluster's own resources, in whole units, by name; empty: none.
    custom: AmountMap = ()

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            cpu_millis=self.cpu_millis + other.cpu_millis,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            storage_bytes=self.storage_bytes + other.storage_bytes,
            gpu_millis=self.gpu_millis + other.gpu_millis,
            custom=_combined(self.custom, other.custom, 1) if self.custom or other.custom else (),
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            cpu_millis=self.cpu_millis - other.cpu_millis,
            memory_bytes=self.memory_bytes - other.memory_bytes,
            storage_bytes=self.storage_bytes - other.storage_bytes,
            gpu_millis=self.gpu_millis - other.gpu_millis,
            custom=_combined(self.custom, other.custom, -1) if self.custom or other.custom else (),
        )

    def times(self, count: int) -> Resources:
        return Resources(
            cpu_millis=self.cpu_millis * count,
            memory_bytes=self.memory_bytes * count,
            storage_bytes=self.storage_bytes * count,
            gpu_millis=self.gpu_millis * count,
            custom=tuple([(name, amount * count) for name, amount in self.custom if count]),
        )

    def fits_in(self, capacity: Resources) -> bool:
        return (
            self.cpu_millis <= capacity.cpu_millis
            and self.memory_bytes <= capacity.memory_bytes
            and self.storage_bytes <= capacity.storage_bytes
            and self.gpu_millis <= capacity.gpu_millis
            and (not self.custom or _within(self.custom, capacity.custom))
        )

    def is_zero(self) -> bool:
        return not (self.cpu_millis or self.memory_bytes or self.gpu_millis or self.storage_bytes or self.custom)

    def is_negative(self) -> bool:
        return (
            min(self.cpu_millis, self.memory_bytes, self.storage_bytes, self.gpu_millis) < 0
            or min((amount for _, amount in self.custom), default=0) < 0
        )


ZERO = Resources()


def _combined(left: AmountMap, right: AmountMap, sign: int) -> AmountMap:
    total = dict(left)
    for name, amount in right:
        total[name] = total.get(name, 0) + sign * amount
    return tuple(sorted([(name, amount) for name, amount in total.items() if amount]))


def _within(requested: AmountMap, capacity: AmountMap) -> bool:
    offered = dict(capacity)
    return all(amount <= offered.get(name, 0) for name, amount in requested)
