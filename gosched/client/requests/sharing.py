"""Queues, quotas and reservations: how the cluster is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gosched.client import records
from gosched.client.answers import WindowSet
from gosched.client.calls import SCHEDULER, Call, names, rpc
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2


def set_queues(
    queues: Sequence[records.Queue],
    quotas: Sequence[records.Quota] | None = None,
    *,
    dry_run: bool = False,
    request_id: str | None = None,
) -> Call[bool]:
    """Replace all queues, and all quotas where some are given, or change nothing. False: they were so already.
    `dry_run`: check them, and change nothing."""
    request = scheduler_pb2.SetQueuesRequest(
        **names(request_id),
        queues=[to_message(queue, types_pb2.Queue) for queue in queues],
        quotas=[to_message(quota, types_pb2.Quota) for quota in quotas or ()],
        sets_quotas=quotas is not None,
        dry_run=dry_run,
    )
    return Call(rpc=rpc(SCHEDULER, "SetQueues"), request=request, read=_is_changed, is_change=True)


def set_quotas(
    quotas: Sequence[records.Quota], *, replace: bool = False, dry_run: bool = False, request_id: str | None = None
) -> Call[bool]:
    """Set the quotas of these tenants, all or none. A quota without any limit is removed, and with `replace` those
    of all other tenants, too. False: they were so already. `dry_run`: check them, and change nothing."""
    request = scheduler_pb2.SetQuotasRequest(
        **names(request_id),
        quotas=[to_message(quota, types_pb2.Quota) for quota in quotas],
        replace=replace,
        dry_run=dry_run,
    )
    return Call(rpc=rpc(SCHEDULER, "SetQuotas"), request=request, read=_is_changed, is_change=True)


def list_quotas() -> Call[list[records.QuotaStatus]]:
    """Return the quotas by tenant, also of tenants that have none and hold something."""
    return Call(
        rpc=rpc(SCHEDULER, "ListQuotas"),
        request=scheduler_pb2.ListQuotasRequest(),
        read=lambda answer: [to_record(item, records.QuotaStatus) for item in answer.quotas],
    )


def set_window(
    window: records.Window, *, resources: records.AmountMap | Mapping[str, int] = (), request_id: str | None = None
) -> Call[WindowSet]:
    """Reserve nodes for the window's queues and tenants; for maintenance, if it names none. `resources`, if the
    window names no nodes: enough are chosen to have so much. A window of that name is changed."""
    request = scheduler_pb2.SetWindowRequest(
        **names(request_id), window=to_message(window, types_pb2.Window), resources=dict(resources)
    )
    return Call(
        rpc=rpc(SCHEDULER, "SetWindow"),
        request=request,
        read=lambda answer: WindowSet(
            window=to_record(answer.window, records.Window), in_the_way=tuple(answer.in_the_way)
        ),
        is_change=True,
    )


def drop_window(name: str, *, request_id: str | None = None) -> Call[None]:
    """Drop the window of that name."""
    request = scheduler_pb2.DropWindowRequest(**names(request_id), name=name)
    return Call(rpc=rpc(SCHEDULER, "DropWindow"), request=request, read=lambda answer: None, is_change=True)


def list_reservations() -> Call[records.Reserved]:
    """Return the windows, and the starts that pending jobs were promised."""
    return Call(
        rpc=rpc(SCHEDULER, "ListReservations"),
        request=scheduler_pb2.ListReservationsRequest(),
        read=lambda answer: to_record(answer, records.Reserved),
    )


def _is_changed(answer: scheduler_pb2.SetQueuesResponse | scheduler_pb2.SetQuotasResponse) -> bool:
    return not answer.unchanged
