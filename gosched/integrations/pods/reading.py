"""A pod as the API server shows it, in the few facts that count for a task.

Invariant: a field that is missing has no effect, and one of another type is an error that names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gosched.config.errors import shown
from gosched.integrations.pods.errors import PodUnreachable

#: The container that is the task; others of a template serve it.
CONTAINER = "task"
TASK = "gosched.io/task-id"
ALLOCATION = "gosched.io/allocation"
ATTEMPT = "gosched.io/attempt"
FOLLOWER = "gosched.io/follower"
_UNREMARKABLE = frozenset({"", "ContainerCreating", "PodInitializing", "Completed", "Error"})

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    name: str
    uid: str
    #: Changes with the pod.
    version: str
    #: Whose task it is; empty: not one of gosched's.
    task: str
    #: The start of the task that follows it.
    allocation: str
    #: The attempt that created it.
    attempt: str
    #: The program that created it.
    follower: str
    #: Name of its node; empty: it has none yet.
    node: str
    #: Somebody has deleted it.
    is_leaving: bool
    #: Its container has begun: there is a log.
    has_started: bool
    has_ended: bool
    #: It was ended as a whole, by its node or a deadline: whatever its container says.
    was_stopped: bool
    #: Of the container; None: there is none.
    exit_code: int | None
    #: Why it ended, or does not start; one line for each part. Empty: nothing is worth a word.
    words: tuple[str, ...]


def read_pod(answer: Json) -> Pod:
    """Return the pod of an answer. Raises PodUnreachable: that is no pod."""
    metadata, status = _child(answer, "metadata"), _child(answer, "status")
    annotations, spec = _child(metadata, "annotations"), _child(answer, "spec")
    state = _child(_container(status), "state")
    ended = state.get("terminated")
    phase = _text(status, "phase")
    words = [_line(status)] if phase == "Failed" else []
    words += [_line(one) for one in _list(status, "conditions") if one.get("type") == "PodScheduled" and _is_false(one)]
    words += [_line(_child(state, "waiting"))]
    if ended is not None:
        words += [_line(_child(state, "terminated"))]
    return Pod(
        name=_needed(metadata, "name"),
        uid=_needed(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        task=_text(annotations, TASK),
        allocation=_text(annotations, ALLOCATION),
        attempt=_text(annotations, ATTEMPT),
        follower=_text(annotations, FOLLOWER),
        node=_text(spec, "nodeName"),
        is_leaving=bool(_text(metadata, "deletionTimestamp")),
        has_started=ended is not None or state.get("running") is not None,
        has_ended=ended is not None or phase in ("Succeeded", "Failed"),
        was_stopped=phase == "Failed" and bool(_text(status, "reason")),
        exit_code=_exit_code(_child(state, "terminated")) if ended is not None else None,
        words=tuple([line for line in words if line]),
    )


def _container(status: Json) -> Json:
    found = _list(status, "containerStatuses")
    return next((one for one in found if one.get("name") == CONTAINER), {})


def _is_false(condition: Json) -> bool:
    return _text(condition, "status") == "False"


def _exit_code(terminated: Json) -> int:
    code = terminated.get("exitCode")
    if not isinstance(code, int) or isinstance(code, bool):
        raise _wrong("exitCode", "a number", code)
    return code if 0 <= code < 256 else 1


def _line(found: Json) -> str:
    """Return the reason and the message; empty where the reason says what is said anyway."""
    reason, message = _text(found, "reason"), " ".join(_text(found, "message").split())[:300]
    if reason in _UNREMARKABLE and not message:
        return ""
    return f"{reason}{': ' * bool(reason and message)}{message}"


def _child(found: Json, key: str) -> Json:
    value = found.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(key, "an object", value)
    return value


def _list(found: Json, key: str) -> list[Json]:
    value = found.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise _wrong(key, "objects", value)
    return value


def _text(found: Json, key: str) -> str:
    value = found.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(key, "a text", value)
    return value


def _needed(found: Json, key: str) -> str:
    value = _text(found, key)
    if not value:
        raise PodUnreachable(f"the answer has no {key}: is this an API server?")
    return value


def _wrong(key: str, kind: str, value: object) -> PodUnreachable:
    return PodUnreachable(f"the API server's pod has as {key} {shown(value)}, not {kind}")
