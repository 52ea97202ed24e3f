"""What people send over HTTP to change nodes, quotas, windows and masters, as JSON.

Invariant: a key that is not known is an error that names the nearest one, as in files.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import Field

from gosched.config.access_file import Role, Subject
from gosched.config.agent_settings import TaintConfig
from gosched.config.errors import ConfigError, shown, suggestion
from gosched.config.moment import moment_from_ms
from gosched.config.queues import JobCount, QuotaConfig, check_quota_list
from gosched.config.tree import Document
from gosched.config.validation import LabelKey, Millis, Model, Name, Pairs, Text, Word, validate
from gosched.config.vector import Vector
from gosched.config.windows import WindowConfig
from gosched.core.limits import MAX_DETAIL_LENGTH, MAX_DURATION_MS, MAX_RULES
from gosched.core.records.tenant import Quota
from gosched.core.records.window import Window
from gosched.core.resources import AmountMap
from gosched.core.spec.placement_rules import Taint

Reason = Annotated[Text, Field(max_length=MAX_DETAIL_LENGTH)]
Few = Field(max_length=MAX_RULES)
WINDOW_KEYS = ("start", "end", "nodes", "resources", "queues", "tenants", "reason")
M = TypeVar("M", bound=Model)


class Cordon(Model):
    """Closes a node."""

    reason: Reason = ""


class Drain(Model):
    """Empties a node. `deadline_s`: what is still there then is stopped; 0: it may end by itself."""

    reason: Reason = ""
    deadline_s: Annotated[float, Field(ge=0, le=MAX_DURATION_MS / 1000)] = 0.0


class Labels(Model):
    """Changes the labels and taints of a node that operators set."""

    labels: Pairs = ()
    drop_labels: Annotated[tuple[LabelKey, ...], Few] = ()
    taints: Annotated[tuple[TaintConfig, ...], Few] = ()
    drop_taints: Annotated[tuple[Text, ...], Few] = ()

    def taint_records(self) -> tuple[Taint, ...]:
        return tuple([taint.record() for taint in self.taints])


class Quotas(Model):
    """All quotas."""

    quotas: tuple[QuotaConfig, ...]

    def records(self) -> tuple[Quota, ...]:
        check_quota_list(self.quotas, ("quotas",))
        return tuple([quota.record() for quota in self.quotas])


class OneQuota(Model):
    """The quota of one tenant; without a limit it has none."""

    limit: Vector = ()
    max_running_jobs: JobCount | None = None


class NewMaster(Model):
    """A master to add, by its id and the address of its replica."""

    id: Name
    address: Text


class NewTokenBody(Model):
    """A token to make; without `user` it is the caller's own."""

    name: Word
    role: Role
    lasts_ms: Annotated[Millis, Field(ge=1, le=MAX_DURATION_MS)] = Field(default=30 * 86_400_000, alias="lasts")
    user: Text = ""
    groups: tuple[Subject, ...] = ()
    tenants: tuple[Word, ...] = ()
    queues: tuple[Word, ...] = ()


def read_request(model: type[M], value: Any, *, source: str = "body") -> M:
    """Return what the body of a request says. Raises ConfigError."""
    return validate(model, Document(value=value, source=source))


def read_window(name: str, value: Any, now_ms: int) -> tuple[Window, AmountMap]:
    """Return the window that a body describes, and the resources for which nodes are to be chosen. `now_ms`: what its
    times are counted from. Raises ConfigError."""
    if not isinstance(value, dict):
        raise ConfigError("body: expected an object with end, and nodes or resources")
    if unknown := next((key for key in value if key not in WINDOW_KEYS), None):
        raise ConfigError(f"body: unknown key {shown(unknown)}{suggestion(unknown, WINDOW_KEYS)}")
    times = {f"{key}_ms": _moment(value[key], key, now_ms) for key in ("start", "end") if value.get(key) is not None}
    rest = {key: item for key, item in value.items() if key not in ("start", "end")}
    found = read_request(WindowConfig, {"start_ms": now_ms, **rest, **times, "name": name})
    return found.record(), found.resources


def _moment(value: object, key: str, now_ms: int) -> int:
    try:
        if not isinstance(value, str):
            raise ValueError(f"expected a time such as 2026-12-01T06:00:00Z, got {shown(value)}")
        return moment_from_ms(value, now_ms)
    except ValueError as error:
        raise ConfigError(f"body: {key}: {error}") from None
