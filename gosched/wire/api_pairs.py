"""The records that the API answers with, each with its message: a part of the list that `codec` compiles."""

from __future__ import annotations

from google.protobuf.message import Message

from gosched.api import details, explanation, forecast, status, usage
from gosched.wire.backup_file import BackupInfo
from gosched.wire.v1 import cluster_pb2, node_pb2, scheduler_pb2

# Children before parents.
API_PAIRS: tuple[tuple[type, type[Message]], ...] = (
    (status.MasterStatus, scheduler_pb2.MasterStatus),
    (status.QueueStatus, scheduler_pb2.QueueStatus),
    (status.QuotaStatus, scheduler_pb2.QuotaStatus),
    (status.BackupStatus, scheduler_pb2.BackupStatus),
    (status.Status, scheduler_pb2.ClusterStatus),
    (status.MasterMember, cluster_pb2.MemberStatus),
    (status.MasterHealth, cluster_pb2.MasterHealth),
    (BackupInfo, cluster_pb2.BackupInfo),
    (explanation.Refused, scheduler_pb2.Refused),
    (explanation.NodeTasks, scheduler_pb2.NodeTasks),
    (explanation.Holder, scheduler_pb2.Holder),
    (explanation.Victim, scheduler_pb2.Victim),
    (explanation.JobExplanation, scheduler_pb2.JobExplanation),
    (details.WaitLine, scheduler_pb2.Explanation),
    (details.JobDetail, scheduler_pb2.JobView),
    (forecast.PlannedJob, scheduler_pb2.PlannedJob),
    (forecast.MovedStart, scheduler_pb2.MovedStart),
    (forecast.JobPlan, scheduler_pb2.PlanJobResponse),
    (forecast.Reserved, scheduler_pb2.ListReservationsResponse),
    (usage.GpuUsage, node_pb2.GpuUsage),
    (usage.HostUsage, node_pb2.NodeUsage),
    (usage.TaskUsage, node_pb2.TaskUsageView),
)
