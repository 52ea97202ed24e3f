"""The JSON of what is reserved: windows, reserved starts and fences in one shape."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.api.forecast import Reserved
from gosched.api.json.document import Document
from gosched.api.json.values import Json
from gosched.core.records.fence import Fence
from gosched.core.records.reservation import Reservation
from gosched.core.records.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reservation:
    """One shape for all kinds: a window that an operator made, the reserved start of a job, the fence around the
    capacity for a job whose victims have not ended."""

    #: The window's name, or the job's id.
    id: str
    #: window, start or fence.
    kind: str
    start_ms: int
    #: 0: open.
    end_ms: int = 0
    nodes: tuple[str, ...]
    #: Of a window: what may run there. Neither queues nor tenants: nothing may.
    queues: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    reason: str


reservation_json = Document(
    _Reservation, "id", "kind", "start=start_ms", "end=end_ms", "nodes", "queues", "tenants", "reason"
)


def reserved_json(reserved: Reserved) -> list[Json]:
    return [
        *(window_json(window) for window in reserved.windows),
        *(reservation_json(_start(start)) for start in reserved.reservations),
        *(reservation_json(_fence(fence)) for fence in reserved.fences),
    ]


def window_json(window: Window) -> Json:
    own = {name: getattr(window, name) for name in ("start_ms", "end_ms", "nodes", "queues", "tenants", "reason")}
    return reservation_json(_Reservation(id=window.name, kind="window", **own))


def _start(start: Reservation) -> _Reservation:
    return _Reservation(
        id=start.job_id,
        kind="start",
        start_ms=start.start_ms,
        end_ms=start.end_ms,
        nodes=tuple(sorted({share.node_id for share in start.shares})),
        reason=start.why,
    )


def _fence(fence: Fence) -> _Reservation:
    return _Reservation(
        id=fence.job_id,
        kind="fence",
        start_ms=fence.made_at_ms,
        nodes=tuple(sorted({task.node_id for task in fence.tasks})),
        reason="its victims have not ended yet",
    )
