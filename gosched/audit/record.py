"""One record of the audit log, and its JSON.

Invariant: a record has a bounded size, whatever its texts hold, and is ASCII: names and reasons are chosen by callers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum

MAX_LINE_BYTES = 8_000  # fits what syslog daemons take by default; all bounds below together are less
_CUT = "..."
# Bytes of each text in its JSON.
_BOUNDS = {
    "master": 256,
    "user": 512,
    "roles": 512,
    "address": 128,
    "action": 256,
    "object": 1_536,
    "request_id": 256,
    "code": 64,
    "reason": 2_048,
    "torn": 768,
}


class Outcome(StrEnum):
    """What came of a call."""

    ALLOWED = "allowed"
    #: The caller may not do it.
    REFUSED = "refused"
    #: It was allowed, and did not succeed.
    FAILED = "failed"


class How(StrEnum):
    """How a caller was authenticated."""

    CERTIFICATE = "certificate"
    TOKEN = "token"
    JWT = "jwt"
    SOCKET = "socket"
    #: Not at all: it is its address.
    ADDRESS = "address"
    #: The master itself.
    MASTER = "master"
    #: Its credentials could not be read.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    #: When the call ended, by the master's wall clock; in ms since 1970.
    time_ms: int
    #: The master that served or refused it.
    master: str
    #: The caller's name; empty: not known.
    user: str = ""
    authenticated: How = How.UNKNOWN
    #: Its roles and groups, with commas.
    roles: str = ""
    #: Where it called from: an IP address; empty: from the master itself.
    address: str = ""
    #: The method, such as SchedulerService/CancelJob.
    action: str
    #: What it was about: jobs, queues, tenants, nodes, as short text.
    object: str = ""
    #: Of the state, right after it; 0: it is about no state.
    revision: int = 0
    outcome: Outcome
    #: gRPC's name of the status, such as PERMISSION_DENIED.
    code: str = "OK"
    #: Why it was refused, or failed.
    reason: str = ""
    #: That names the change: a repeat has the same one.
    request_id: str = ""
    #: It was so already.
    unchanged: bool = False
    #: How many calls were like this one, which is the last of them.
    count: int = 1
    #: How many records before this one were lost, because they could not be written.
    lost: int = 0
    #: What stood behind the last whole line when the log was opened, as hexadecimal digits: a crash tore it.
    torn: str = ""


#: Fields that are left out where they say nothing.
_SPARE = {
    "roles": "",
    "request_id": "",
    "unchanged": False,
    "count": 1,
    "lost": 0,
    "torn": "",
    "object": "",
    "reason": "",
    "revision": 0,
}


def record_json(record: AuditRecord) -> dict[str, str | int]:
    """Return the JSON of a record, with bounded texts."""
    shown: dict[str, str | int] = {"time": _moment(record.time_ms)}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name != "time_ms" and _SPARE.get(field.name) != value:
            shown[field.name] = bounded(value, _BOUNDS[field.name]) if field.name in _BOUNDS else value
    return shown


def encoded(value: object) -> str:
    """Return JSON in one line, of ASCII alone."""
    return json.dumps(value, separators=(",", ":"))


def bounded(text: str, most: int) -> str:
    """Return the text, cut where its JSON has more bytes."""
    size = len(encoded(text)) - 2
    if size <= most:
        return text
    text = text[:most]
    while (size := len(encoded(text)) - 2) > most - len(_CUT):
        text = text[: min(len(text) - 1, len(text) * (most - len(_CUT)) // size)]
    return text + _CUT


def _moment(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
