"""The JSON of the cluster: its status, masters, nodes, queues and quotas."""

from __future__ import annotations

from gosched.api.details import NodeDetail
from gosched.api.json.document import Document, all_amounts, may_be_unset, optional, part
from gosched.api.json.usage import spent_json
from gosched.api.status import BackupStatus, MasterMember, MasterStatus, QueueStatus, QuotaStatus, Status

node_json = Document(
    NodeDetail,
    "node.id",
    "node.name",
    "node.address",
    "node.state",
    "node.reason",
    "node.labels",
    "node.taints",
    "node.gpu_model",
    may_be_unset("node.closed_by"),
    "drain_by=node.drain_by_ms",
    "node.failing",
    "node.isolation",
    "node.hardware",
    part("resources", "total=node.capacity", "used"),
    "tasks",
    "heartbeat_age_ms",
    "node.registered_at_ms",
    measured=True,
)

#: 0 and empty: no such rule.
queue_json = Document(
    QueueStatus,
    "id=path",
    "name=path",
    "type",
    may_be_unset("rules.order"),
    "rules.weight",
    "rules.capacity_pct",
    "rules.max_pct",
    "rules.guaranteed",
    "rules.limit",
    "rules.max_running_jobs",
    "rules.tenants",
    "rules.half_life_ms",
    may_be_unset("rules.preemption"),
    "pending",
    "running",
    all_amounts("used"),
    all_amounts("demand"),
    "fair_share",
    "ceiling",
)
#: Short: clients read the status to find the masters.
_queue_line = Document(QueueStatus, "name=path", "type", "pending", "running", all_amounts("used"))

quota_json = Document(
    QuotaStatus,
    "id=quota.tenant",
    "quota.tenant",
    "quota.limit",
    "quota.max_running_jobs",
    all_amounts("used"),
    "running_jobs",
    "spent",
    nested=(spent_json,),
)

_master_json = Document(MasterStatus, measured=True)
_backup_json = Document(BackupStatus, "last_success_at=last_success_ms", "last_bytes", "failures", "problem")
member_json = Document(MasterMember, "name=id", "id", "address", "role", "healthy", "behind", "grpc_address")

status_json = Document(
    Status,
    "leader",
    "epoch",
    "revision",
    "masters",
    "nodes",
    "nodes_ready",
    "jobs",
    "pending",
    "running",
    part("resources", "total", "used"),
    "queues",
    "state_bytes",
    "state_bytes_limit",
    optional("digest"),
    "version",
    part("clock", "at=clock_ms", "problem=clock_problem"),
    "feature_level",
    "newest_feature_level",
    "backup",
    nested=(_master_json, _queue_line, _backup_json),
)
