"""Asks NVIDIA's management library (NVML) about the GPUs of this host.

Invariant: the library is imported here alone, and only when GPUs are looked for; what it cannot say of a GPU is left
out, and a host without its driver has no library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

MAX_EVENTS_A_LOOK = 256

_EVENT_WAIT_MS = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlGpu:
    """A GPU, as the library describes it."""

    #: Its PCI address as the kernel writes it, "0000:3b:00.0".
    bus: str = ""
    name: str = ""
    uuid: str = ""
    #: Number of its device node; -1: not known.
    minor: int = -1
    memory_bytes: int = 0
    #: The PCI addresses at the other ends of its active NVLinks.
    peers: frozenset[str] = frozenset()
    #: Whether one of them ends in an NVSwitch.
    switched: bool = False
    #: Why it could not even be described. Empty: it was.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """How a GPU is now."""

    busy_milli: int = 0
    memory_bytes: int = 0
    #: What the GPU reports, in words. Empty: nothing.
    problem: str = ""


class Nvml:
    """The library. Handles are by index, which is NVML's own: the order of PCI addresses. Not for several threads at
    once."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._gone = (library.NVML_ERROR_GPU_IS_LOST, library.NVML_ERROR_RESET_REQUIRED)
        self._handles = [self._handle(index) for index in range(library.nvmlDeviceGetCount())]
        self._events = [None if isinstance(handle, str) else self._listen(handle) for handle in self._handles]

    @property
    def hears_xids(self) -> bool:
        """Return whether it reports Xids; False on a virtual GPU, for one: then only the kernel's log has them."""
        return all(events is not None for events in self._events)

    def describe(self) -> list[NvmlGpu]:
        return [NvmlGpu(problem=h) if isinstance(h, str) else self._describe(h) for h in self._handles]

    def look(self, index: int) -> GpuState:
        handle = self._handles[index]
        if isinstance(handle, str):
            return GpuState(problem=handle)
        nvml = self._nvml
        try:
            return GpuState(
                busy_milli=self._known(lambda: int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) * 10, 0),
                memory_bytes=self._known(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used), 0),
                problem=self._memory_problem(handle) or self._recovery_problem(handle),
            )
        except nvml.NVMLError as error:
            return GpuState(problem=f"the driver says: {error}")

    def new_xids(self, index: int) -> list[int]:
        """Return what the driver has reported of it since the last call."""
        events = self._events[index]
        found: list[int] = []
        try:
            while events is not None and len(found) < MAX_EVENTS_A_LOOK:
                found.append(int(self._nvml.nvmlEventSetWait(events, _EVENT_WAIT_MS).eventData))
        except self._nvml.NVMLError as error:
            if error.value in self._gone:
                return found  # `look` says so
            if error.value != self._nvml.NVML_ERROR_TIMEOUT:
                structlog.get_logger().warning("cannot ask a GPU for its errors", gpu=index, why=str(error))
        return found

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _handle(self, index: int) -> Any:
        """Return the handle, or why there is none, as text."""
        try:
            return self._nvml.nvmlDeviceGetHandleByIndex(index)
        except self._nvml.NVMLError as error:
            return f"the driver says: {error}"

    def _listen(self, handle: Any) -> Any:
        """Make a set of its own for each GPU: an event then needs no question which GPU's it is."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:
            return None
        return events

    def _describe(self, handle: Any) -> NvmlGpu:
        nvml = self._nvml
        try:
            peers, switched = self._links(handle)
            return NvmlGpu(
                bus=_bus(nvml.nvmlDeviceGetPciInfo(handle)),
                name=_text(nvml.nvmlDeviceGetName(handle)),
                uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                minor=self._known(lambda: int(nvml.nvmlDeviceGetMinorNumber(handle)), -1),
                memory_bytes=self._known(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total), 0),
                peers=peers,
                switched=switched,
            )
        except nvml.NVMLError as error:
            return NvmlGpu(problem=f"the driver says: {error}")

    def _links(self, handle: Any) -> tuple[frozenset[str], bool]:
        nvml = self._nvml
        peers: set[str] = set()
        switched = False
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            if not self._known(lambda link=link: nvml.nvmlDeviceGetNvLinkState(handle, link), 0):  # type: ignore[misc]
                continue
            kind = self._known(lambda link=link: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link), -1)  # type: ignore[misc]
            if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                switched = True
            elif kind == nvml.NVML_NVLINK_DEVICE_TYPE_GPU:
                peers.add(_bus(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)))
        return frozenset(peers), switched

    def _memory_problem(self, handle: Any) -> str:
        """Return what is wrong with the memory. GPUs since Ampere remap rows (and keep away from a bad one by
        themselves until their next reset); older ones retire pages, and use a bad one until their next reset."""
        nvml = self._nvml
        if self._known(lambda: nvml.nvmlDeviceGetRemappedRows(handle)[3], 0):
            return "its memory has bad rows that cannot be replaced"
        if self._known(lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle), 0):
            return "its memory has bad pages that are in use until it is reset"
        return ""

    def _recovery_problem(self, handle: Any) -> str:
        nvml = self._nvml
        field = nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
        value = self._known(lambda: nvml.nvmlDeviceGetFieldValues(handle, [field])[0], None)
        if value is None or value.nvmlReturn != nvml.NVML_SUCCESS:
            return ""  # an older driver
        needs = {
            nvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "a reset",
            nvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "a reboot of the node",
            nvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "a reset",
        }.get(int(value.value.uiVal))
        return f"the driver says that it needs {needs}" if needs else ""

    def _known(self, ask: Callable[[], T], otherwise: T) -> T:
        """Return the answer, or a default: many questions make no sense for many GPUs. Raises NVMLError for one that is
        gone."""
        try:
            return ask()
        except self._nvml.NVMLError as error:
            if error.value in self._gone:
                raise
            return otherwise


def open_nvml() -> Nvml | None:
    """Return the library; None where there is no NVIDIA driver."""
    import pynvml  # small, but of no use to most nodes

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return None
    except pynvml.NVMLError as error:
        structlog.get_logger().warning("the library of the NVIDIA driver cannot be used", why=str(error))
        return None
    try:
        return Nvml(pynvml)
    except pynvml.NVMLError as error:
        structlog.get_logger().warning("the NVIDIA driver does not tell its GPUs", why=str(error))
        return None


def _bus(pci: Any) -> str:
    """Return the kernel's form: NVML's text has a domain of eight digits, the kernel's has four, more only where
    needed."""
    domain, bus, rest = _text(pci.busId).lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{rest}"


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
