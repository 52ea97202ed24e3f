"""The JSON of events, attempts and accounting."""

from __future__ import annotations

from gosched.api.history import Attempt, EventPage, FinishedJob, HistoryEvent
from gosched.api.json.document import Document
from gosched.api.json.usage import spent_json

event_json = Document(
    HistoryEvent,
    "revision",
    "number",
    "at=at_ms",
    "kind",
    "job=job_id",
    "job_name",
    "queue",
    "tenant",
    "user",
    "task=task_id",
    "node=node_id",
    "attempt",
    "code",
    "message",
)
event_page_json = Document(EventPage, "events", "revision", "more", "oldest", nested=(event_json,))
attempt_json = Document(Attempt)
finished_job_json = Document(
    FinishedJob,
    "id=job_id",
    *[name for name in FinishedJob.__dataclass_fields__ if name != "job_id"],
    nested=(spent_json,),
)
