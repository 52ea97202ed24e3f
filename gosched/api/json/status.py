"""The JSON of the cluster's status; alone in its module, since the command that shows it starts fast."""

from __future__ import annotations

from gosched.api.json.document import Document, all_amounts, optional, part
from gosched.api.status import BackupStatus, MasterStatus, QueueStatus, Status

#: Short: clients read the status to find the masters.
_queue_line = Document(QueueStatus, "name=path", "type", "pending", "running", all_amounts("used"))
_master_json = Document(MasterStatus, measured=True)
_backup_json = Document(BackupStatus, "last_success_at=last_success_ms", "last_bytes", "failures", "problem")

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
    "load_problem",
    part("clock", "at=clock_ms", "problem=clock_problem"),
    "feature_level",
    "newest_feature_level",
    "backup",
    nested=(_master_json, _queue_line, _backup_json),
)
