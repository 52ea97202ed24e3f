"""The calls of a master, a line for each: who may make it, whether the audit log has it, and who serves it.

Invariant: a call that has no line is refused, and recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from gosched.core.access import Permission
from gosched.wire.roles import Role

OWN = "/gosched.v1."  # begins the methods of this project; those of health and reflection every caller may call
HTTP_METHOD = f"{OWN}SchedulerService/HTTP"  # stands for what is read over HTTP


class Needs(Enum):
    """What a call needs that is no permission."""

    NOTHING = auto()  # guests may make it
    USER = auto()  # every user may
    MACHINE = auto()  # no user may


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    #: Of certificates, beside those of masters, which may call everything: they pass on what others call.
    roles: frozenset[Role]
    #: Of users; what a permission on jobs, queues or tenants is needed on, the service looks at.
    needs: Permission | Needs
    #: Its successes are in the audit log, and not its refusals alone: it changes something, or hands out what may be
    #: secret. Calls of agents and masters are too many.
    is_recorded: bool
    #: Another master passes it on.
    by_leader: bool


_BOTH = frozenset({Role.CLIENT, Role.AGENT})
_AGENTS = frozenset({Role.AGENT})
_MASTERS = frozenset[Role]()


def _call(
    needs: Permission | Needs,
    *,
    roles: frozenset[Role] = frozenset({Role.CLIENT}),
    is_recorded: bool = True,
    by_leader: bool = True,
) -> Method:
    return Method(roles=roles, needs=needs, is_recorded=is_recorded, by_leader=by_leader)


METHODS: Mapping[str, Method] = {
    "SchedulerService/SubmitJob": _call(Permission.SUBMIT),
    "SchedulerService/ReadJobs": _call(Permission.VIEW, is_recorded=False, by_leader=False),
    "SchedulerService/SubmitJobs": _call(Permission.SUBMIT),
    "SchedulerService/GetJob": _call(Permission.VIEW_JOB, is_recorded=False),
    "SchedulerService/ListJobs": _call(Permission.VIEW, is_recorded=False),
    "SchedulerService/WatchJob": _call(Permission.VIEW_JOB, is_recorded=False),
    "SchedulerService/CancelJob": _call(Permission.CHANGE_JOB),
    "SchedulerService/ExecTask": _call(Permission.EXEC),
    "SchedulerService/StreamJobLogs": _call(Permission.READ_LOGS),
    "SchedulerService/ExplainJob": _call(Permission.VIEW_JOB, is_recorded=False),
    "SchedulerService/ListWaits": _call(Permission.VIEW, is_recorded=False),
    "SchedulerService/GetClusterStatus": _call(Permission.VIEW, roles=_BOTH, is_recorded=False),
    "SchedulerService/SetQueues": _call(Permission.SET_QUEUE),
    "SchedulerService/SetQuotas": _call(Permission.SET_QUOTA),
    "SchedulerService/ListQuotas": _call(Permission.VIEW, is_recorded=False),
    "SchedulerService/ControlJob": _call(Permission.CHANGE_JOB),
    "SchedulerService/PlanJob": _call(Permission.SUBMIT, is_recorded=False),
    "SchedulerService/SetClock": _call(Permission.ADMINISTER),
    "SchedulerService/SetWindow": _call(Permission.OPERATE),
    "SchedulerService/DropWindow": _call(Permission.OPERATE),
    "SchedulerService/ListReservations": _call(Permission.VIEW, is_recorded=False),
    "SchedulerService/HTTP": _call(Needs.USER, is_recorded=False, by_leader=False),
    "NodeService/RegisterNode": _call(Needs.MACHINE, roles=_AGENTS, is_recorded=False),
    "NodeService/Heartbeat": _call(Needs.MACHINE, roles=_AGENTS, is_recorded=False),
    "NodeService/ListNodes": _call(Permission.VIEW, is_recorded=False),
    "NodeService/CordonNode": _call(Permission.OPERATE),
    "NodeService/UncordonNode": _call(Permission.OPERATE),
    "NodeService/DrainNode": _call(Permission.OPERATE),
    "NodeService/RemoveNode": _call(Permission.OPERATE),
    "NodeService/LabelNode": _call(Permission.OPERATE),
    "NodeService/ListUsage": _call(Permission.VIEW, is_recorded=False),
    "ClusterService/AnnounceMaster": _call(Needs.MACHINE, roles=_MASTERS, is_recorded=False, by_leader=False),
    "ClusterService/ReadClock": _call(Needs.MACHINE, roles=_MASTERS, is_recorded=False, by_leader=False),
    "ClusterService/FinalizeUpgrade": _call(Permission.ADMINISTER),
    "ClusterService/AddMaster": _call(Permission.ADMINISTER),
    "ClusterService/RemoveMaster": _call(Permission.ADMINISTER),
    "ClusterService/ListMembers": _call(Permission.VIEW, is_recorded=False),
    "ClusterService/TransferLeadership": _call(Permission.ADMINISTER),
    "ClusterService/TakeSnapshot": _call(Permission.ADMINISTER, by_leader=False),
    "ClusterService/GetStateDigests": _call(Needs.MACHINE, roles=_MASTERS, is_recorded=False, by_leader=False),
    "ClusterService/TakeBackup": _call(Permission.ADMINISTER, by_leader=False),
    "ClusterService/GetMasterHealth": _call(Permission.VIEW, is_recorded=False, by_leader=False),
    "ClusterService/SetLogLevel": _call(Permission.ADMINISTER, by_leader=False),
    "HistoryService/ListEvents": _call(Permission.VIEW, is_recorded=False),
    "HistoryService/WatchEvents": _call(Permission.VIEW, is_recorded=False, by_leader=False),
    "HistoryService/ListAttempts": _call(Permission.VIEW_JOB, is_recorded=False),
    "HistoryService/ListFinishedJobs": _call(Permission.VIEW, is_recorded=False),
    "HistoryService/StreamHistory": _call(Needs.MACHINE, roles=_MASTERS, is_recorded=False, by_leader=False),
    "AccessService/SetBindings": _call(Permission.GRANT),
    "AccessService/ListBindings": _call(Permission.GRANT, is_recorded=False),
    "AccessService/CheckAccess": _call(Needs.USER, is_recorded=False),
    "AccessService/CreateToken": _call(Permission.VIEW),
    "AccessService/ListTokens": _call(Permission.VIEW, is_recorded=False),
    "AccessService/RevokeToken": _call(Permission.VIEW),
    "AccessService/RevokeCertificate": _call(Permission.ADMINISTER),
    "AccessService/ListRevocations": _call(Permission.ADMINISTER, is_recorded=False),
    "AccessService/UnrevokeCertificate": _call(Permission.ADMINISTER),
    "SecretService/SetSecret": _call(Permission.SET_SECRET),
    "SecretService/ListSecrets": _call(Permission.USE_SECRET, is_recorded=False),
    "SecretService/DeleteSecret": _call(Permission.SET_SECRET),
    "SecretService/RotateSecrets": _call(Permission.ADMINISTER),
    "JoinService/GetAuthority": _call(Needs.NOTHING, roles=_BOTH, is_recorded=False, by_leader=False),
    "JoinService/Join": _call(Needs.NOTHING, roles=_BOTH),
    "JoinService/RenewCertificate": _call(Needs.MACHINE, roles=_AGENTS),
    "JoinService/CreateJoinToken": _call(Permission.OPERATE),
    "JoinService/ListJoinTokens": _call(Permission.OPERATE, is_recorded=False),
    "JoinService/RevokeJoinToken": _call(Permission.OPERATE),
}
_UNKNOWN = _call(Needs.MACHINE, roles=_MASTERS, by_leader=False)
_FOREIGN = _call(Needs.USER, roles=frozenset(Role), is_recorded=False, by_leader=False)


def method_of(name: str) -> Method:
    """Return what is known of a method by its full name, such as /gosched.v1.NodeService/ListNodes."""
    return METHODS.get(name.removeprefix(OWN), _UNKNOWN) if name.startswith(OWN) else _FOREIGN
