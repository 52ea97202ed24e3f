"""What is asked of a ResourceManager, as values: the request, and how its answer is read.

Invariant: each call may be repeated, at another ResourceManager too, without a second effect: applications are
submitted under an id of their own, and one that is killed stays killed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from gosched.config.errors import shown
from gosched.integrations.yarn import answers
from gosched.integrations.yarn.errors import YarnMisused
from gosched.integrations.yarn.fields import Fields
from gosched.integrations.yarn.records import (
    ClusterInfo,
    ClusterMetrics,
    NewApplication,
    Submission,
    YarnApplication,
    YarnNode,
    YarnScheduler,
)

T = TypeVar("T")
_ID = re.compile(r"application_\d{1,20}_\d{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request. `T`: what its answer is read as."""

    path: str
    read: Callable[[Fields], T]
    method: str = "GET"
    query: tuple[tuple[str, str], ...] = ()
    #: None: it has no body.
    body: bytes | None = None
    #: A ResourceManager on standby answers for itself.
    of_any: bool = False

    def target(self, user: str) -> str:
        """Return the path and the query. `user`: who asks, by its own word; empty: nobody in particular."""
        query = [*self.query, *([("user.name", user)] if user else [])]
        return f"/ws/v1/cluster/{self.path}{'?' * bool(query)}{urlencode(query)}"


def info() -> Call[ClusterInfo]:
    return Call(path="info", read=answers.read_info, of_any=True)


def metrics() -> Call[ClusterMetrics]:
    return Call(path="metrics", read=answers.read_metrics)


def nodes(states: Sequence[str] = ()) -> Call[tuple[YarnNode, ...]]:
    return Call(path="nodes", read=answers.read_nodes, query=_query(states=states))


def scheduler() -> Call[YarnScheduler]:
    return Call(path="scheduler", read=answers.read_scheduler)


def apps(
    states: Sequence[str] = (),
    user: str = "",
    queue: str = "",
    types: Sequence[str] = (),
    tags: Sequence[str] = (),
    started_after_ms: int = 0,
    limit: int = 0,
) -> Call[tuple[YarnApplication, ...]]:
    started = str(started_after_ms) if started_after_ms else ""
    most = str(limit) if limit else ""
    query = _query(
        states=states,
        user=user,
        queue=queue,
        applicationTypes=types,
        applicationTags=tags,
        startedTimeBegin=started,
        limit=most,
    )
    return Call(path="apps", read=answers.read_apps, query=query)


def app(id: str) -> Call[YarnApplication]:
    return Call(path=_of(id), read=answers.read_app)


def state(id: str) -> Call[str]:
    return Call(path=f"{_of(id)}/state", read=answers.read_state)


def new_application() -> Call[NewApplication]:
    return Call(path="apps/new-application", read=answers.read_new_application, method="POST", body=b"")


def submit(submission: Submission) -> Call[None]:
    _of(submission.id)
    return Call(path="apps", read=_nothing, method="POST", body=_json(_body(submission)))


def kill(id: str) -> Call[str]:
    """Ask for its end; the answer is the state that it has by now."""
    return Call(path=f"{_of(id)}/state", read=answers.read_state, method="PUT", body=_json({"state": "KILLED"}))


def _nothing(answer: Fields) -> None:
    """Read an answer that says no more than its status."""


def _of(id: str) -> str:
    if not _ID.fullmatch(id):
        raise YarnMisused(f"{shown(id)} is no id of an application, such as application_1700000000000_0001")
    return f"apps/{quote(id, safe='')}"


def _query(**values: str | Sequence[str]) -> tuple[tuple[str, str], ...]:
    texts = {name: value if isinstance(value, str) else ",".join(value) for name, value in values.items()}
    return tuple([(name, text) for name, text in texts.items() if text])


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _body(submission: Submission) -> dict[str, Any]:
    container = {
        "commands": {"command": submission.command},
        "environment": {"entry": [{"key": name, "value": value} for name, value in submission.environment]},
        "local-resources": {
            "entry": [
                {
                    "key": file.name,
                    "value": {
                        "resource": file.url,
                        "type": file.type,
                        "visibility": file.visibility,
                        "size": file.size_bytes,
                        "timestamp": file.modified_ms,
                    },
                }
                for file in submission.local_resources
            ]
        },
    }
    body: dict[str, Any] = {
        "application-id": submission.id,
        "application-name": submission.name,
        "application-type": submission.type,
        "queue": submission.queue,
        "max-app-attempts": submission.max_attempts,
        "resource": {"memory": submission.memory_mib, "vCores": submission.vcores},
        "application-tags": {"tag": list(submission.tags)},
        "am-container-spec": container,
    }
    if submission.priority is not None:
        body["priority"] = submission.priority
    return body
