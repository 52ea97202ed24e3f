"""The columns of the planner's [nodes x resources] arrays, and vectors: their first columns, of one request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gosched.core.resources import AmountMap, Resources
from gosched.core.sharing import BUILT_IN

Vector = tuple[int, int, int, int]  # amounts in the order of BUILT_IN: milli-CPUs, bytes, bytes, milli-GPUs

NOTHING: Vector = (0, 0, 0, 0)


class Column:
    """Positions in a row of an array, and in a vector. A plain namespace, because the planner looks them up several
    times per task: a member of an enum takes 75 ns longer (Python 3.11)."""

    CPU: Final = BUILT_IN.index("cpu")
    MEMORY: Final = BUILT_IN.index("memory")
    STORAGE: Final = BUILT_IN.index("storage")
    GPU: Final = BUILT_IN.index("gpu")
    #: Milli-GPUs of the devices that are free entirely.
    WHOLE: Final = 4
    #: The most milli-GPUs that one device has free.
    SHARE: Final = 5
    #: WHOLE within the best island of fast links.
    LINK: Final = 6
    #: The first of the cluster's own resources.
    CUSTOM: Final = 7


AMOUNTS = slice(0, len(BUILT_IN))  # the columns that a vector has
DEVICES = slice(Column.WHOLE, Column.CUSTOM)  # those that are derived from the devices: WHOLE, SHARE, LINK


def vector(resources: Resources) -> Vector:
    return (resources.cpu_millis, resources.memory_bytes, resources.storage_bytes, resources.gpu_millis)


def as_vector(amounts: Mapping[str, int]) -> Vector:
    cpu, memory, storage, gpu = [amounts.get(name, 0) for name in BUILT_IN]
    return cpu, memory, storage, gpu


def resources_of(amounts: Vector, custom: AmountMap) -> Resources:
    cpu, memory, storage, gpu = amounts
    return Resources(cpu_millis=cpu, memory_bytes=memory, storage_bytes=storage, gpu_millis=gpu, custom=custom)
