"""The records that the API answers with, each with its message: a part of the list that `codec` compiles from."""

from __future__ import annotations

from collections.abc import Mapping

API_PAIRS: Mapping[str, str] = {
    "api.access.Bindings": "access_pb2.ListBindingsResponse",
    "api.access.AccessCheck": "access_pb2.CheckAccessResponse",
    "api.access.NewToken": "access_pb2.CreateTokenResponse",
    "api.join.NewJoinToken": "join_pb2.CreateJoinTokenResponse",
    "api.status.MasterStatus": "scheduler_pb2.MasterStatus",
    "api.status.QueueStatus": "scheduler_pb2.QueueStatus",
    "api.status.QuotaStatus": "scheduler_pb2.QuotaStatus",
    "api.status.BackupStatus": "scheduler_pb2.BackupStatus",
    "api.status.Status": "scheduler_pb2.ClusterStatus",
    "api.status.MasterMember": "cluster_pb2.MemberStatus",
    "api.status.MasterHealth": "cluster_pb2.MasterHealth",
    "wire.backup_file.BackupInfo": "cluster_pb2.BackupInfo",
    "api.explanation.Refused": "scheduler_pb2.Refused",
    "api.explanation.NodeTasks": "scheduler_pb2.NodeTasks",
    "api.explanation.Holder": "scheduler_pb2.Holder",
    "api.explanation.Victim": "scheduler_pb2.Victim",
    "api.explanation.JobWait": "scheduler_pb2.JobWait",
    "api.explanation.JobExplanation": "scheduler_pb2.JobExplanation",
    "api.details.WaitLine": "scheduler_pb2.Explanation",
    "api.details.JobDetail": "scheduler_pb2.JobView",
    "api.forecast.PlannedJob": "scheduler_pb2.PlannedJob",
    "api.forecast.MovedStart": "scheduler_pb2.MovedStart",
    "api.forecast.JobPlan": "scheduler_pb2.PlanJobResponse",
    "api.forecast.Reserved": "scheduler_pb2.ListReservationsResponse",
    "api.history.HistoryEvent": "history_pb2.HistoryEvent",
    "api.history.EventPage": "history_pb2.ListEventsResponse",
    "api.history.TaskAttempt": "history_pb2.TaskAttempt",
    "api.history.Attempt": "history_pb2.Attempt",
    "api.history.FinishedJob": "history_pb2.FinishedJob",
    "api.job_query.JobQuery": "scheduler_pb2.ListJobsRequest",
    "api.job_row.JobRow": "scheduler_pb2.JobRow",
    "api.usage.GpuUsage": "node_pb2.GpuUsage",
    "api.usage.HostUsage": "node_pb2.NodeUsage",
    "api.usage.TaskUsage": "node_pb2.TaskUsageView",
}
