"""The JSON of the cluster: its masters, nodes, queues and quotas."""

from __future__ import annotations

from gosched.api.details import NodeDetail
from gosched.api.json.document import Document, all_amounts, may_be_unset, part
from gosched.api.json.usage import spent_json
from gosched.api.status import MasterMember, QueueStatus, QuotaStatus

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
    "node.away_ms",
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

member_json = Document(MasterMember, "name=id", "id", "address", "role", "healthy", "behind", "grpc_address")
