"""Resource vectors: what tasks ask for and nodes have. Integers only; an amount is never negative in a record."""

from __future__ import annotations

from dataclasses import dataclass

GPU = 1000  # milli-GPUs in one GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Milli-CPUs, bytes and milli-GPUs."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    gpu_millis: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            cpu_millis=self.cpu_millis + other.cpu_millis,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            storage_bytes=self.storage_bytes + other.storage_bytes,
            gpu_millis=self.gpu_millis + other.gpu_millis,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            cpu_millis=self.cpu_millis - other.cpu_millis,
            memory_bytes=self.memory_bytes - other.memory_bytes,
            storage_bytes=self.storage_bytes - other.storage_bytes,
            gpu_millis=self.gpu_millis - other.gpu_millis,
        )

    def times(self, count: int) -> Resources:
        return Resources(
            cpu_millis=self.cpu_millis * count,
            memory_bytes=self.memory_bytes * count,
            storage_bytes=self.storage_bytes * count,
            gpu_millis=self.gpu_millis * count,
        )

    def fits_in(self, room: Resources) -> bool:
        return (
            self.cpu_millis <= room.cpu_millis
            and self.memory_bytes <= room.memory_bytes
            and self.storage_bytes <= room.storage_bytes
            and self.gpu_millis <= room.gpu_millis
        )

    def is_negative(self) -> bool:
        return min(self.cpu_millis, self.memory_bytes, self.storage_bytes, self.gpu_millis) < 0


ZERO = Resources()
