# ruff: noqa: RUF009 - what `_table` returns is a field
"""The tables of the state, one line for each. The state, its copies, snapshots and digests are driven by these lines.

Invariant: the order of the lines is that of snapshots, of restores and of the parts that masters compare by digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from gosched.core.features import NEWEST_LEVEL
from gosched.core.outcome import Answer
from gosched.core.records.access import Binding, Token
from gosched.core.records.allocation import Allocation
from gosched.core.records.fence import Fence
from gosched.core.records.follow_up import FollowUp
from gosched.core.records.job import Job
from gosched.core.records.join import JoinedNode, JoinToken
from gosched.core.records.master import Configuration, Master
from gosched.core.records.node import Node
from gosched.core.records.queue import Queue
from gosched.core.records.reservation import Reservation
from gosched.core.records.revocation import Revocation
from gosched.core.records.run_history import RunHistory
from gosched.core.records.secret import Secret
from gosched.core.records.task import Task
from gosched.core.records.tenant import Account, Quota, Tenant, UnixAccount, account_key
from gosched.core.records.window import Window
from gosched.core.state.answered_requests import AnsweredRequests
from gosched.core.state.record_bytes import (
    account_bytes,
    answer_bytes,
    answered_bytes,
    content_bytes,
    run_history_bytes,
    tenant_bytes,
)

Key = Callable[[Any], str]
Size = Callable[[Any], int]

_TABLE = "table"  # where a field's metadata has the rest of its line


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the state: its records by their keys."""

    #: Attribute of the state: "nodes".
    name: str
    #: Class of the records.
    kind: type
    #: Name of one record, in snapshots and in the state's `put_node`: "node".
    record: str
    #: Returns the key of a record.
    key_of: Key
    #: Returns what a record counts in the footprint, by the name of the table; None: nothing, or by its job.
    size_of: Size | None

    def parts(self, contents: Contents) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the dicts of the table, each with a name."""
        yield self.name, getattr(contents, self.name)

    def items(self, contents: Contents) -> Iterator[tuple[str, Any]]:
        """Yield the records with their keys, in the order of the table."""
        yield from getattr(contents, self.name).items()

    def get(self, contents: Contents, key: str) -> Any:
        """Return the record of a key, or None."""
        return getattr(contents, self.name).get(key)

    def copy(self, contents: Contents) -> dict[str, Any]:
        """Return a copy of the table that shares its records."""
        table: dict[str, Any] = getattr(contents, self.name)
        return table.copy()

    def built(self, records: Iterable[Any]) -> dict[str, Any]:
        """Return a table of these records."""
        return {self.key_of(record): record for record in records}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTable(Table):
    """The answers below FeatureLevel.BOUNDED: a dict for each client, by request."""

    def parts(self, contents: Contents) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for client, own in contents.answers.items():
            yield f"{self.name} {client}", own

    def items(self, contents: Contents) -> Iterator[tuple[str, Any]]:
        for own in contents.answers.values():
            for answer in own.values():
                yield self.key_of(answer), answer

    def get(self, contents: Contents, key: str) -> Any:
        client, _, request = key.partition("\0")
        return contents.answers.get(client, {}).get(request)

    def copy(self, contents: Contents) -> dict[str, Any]:
        return {client: own.copy() for client, own in contents.answers.items()}

    def built(self, records: Iterable[Any]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for answer in records:
            table.setdefault(answer.client_id, {})[answer.request_id] = answer
        return table


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredTable(Table):
    """The requests that are remembered, kept in little memory."""

    def built(self, records: Iterable[Any]) -> Any:
        return AnsweredRequests(records)


def answer_key(answer: Answer) -> str:
    """Return the key of an answer in digests."""
    return f"{answer.client_id}\0{answer.request_id}"


def _account_key(account: Account) -> str:
    return account_key(account.queue, account.tenant)


def _table(
    record: str,
    key: str | Key,
    *,
    size: Size | None = None,
    kind: type[Table] = Table,
    factory: Callable[[], Any] = dict,
) -> Any:
    """Return the field of a table. `key`: the attribute of a record that is its key, or what returns it."""
    key_of = attrgetter(key) if isinstance(key, str) else key
    return field(
        default_factory=factory, metadata={_TABLE: (kind, {"record": record, "key_of": key_of, "size_of": size})}
    )


@dataclass(eq=False, kw_only=True)
class Contents:
    """What is replicated: a few values, and the tables.

    The order of `answers` (clients, and the answers of each), of `answered`, of `masters`, of
    `run_histories` and of `follow_ups` is part of the state: the oldest are forgotten, or done, first. Snapshots keep
    it.
    """

    #: Count of the applied commands.
    revision: int = 0
    #: Which behaviour of `apply` the state follows (`core/features.py`).
    feature_level: int = NEWEST_LEVEL
    #: Empty: not founded yet, or founded by a release that gave no ids.
    cluster_id: str = ""
    #: What the secrets of tasks are made from, known to masters alone; empty: there are no secrets.
    task_key: str = ""
    #: Members of the replicated log; None: the log names none yet.
    configuration: Configuration | None = None
    #: Ids of the clusters whose backups this one was restored from, the oldest first.
    lineage: tuple[str, ...] = ()
    #: Requests whose ids were made before it, in ms since 1970, are refused unless they are remembered; 0: none was
    #: forgotten that the clock would not show to be old.
    requests_from_ms: int = 0
    #: Time of the newest command, in ms since 1970; 0: no command had one.
    clock_ms: int = 0
    #: Counts the leaders, for fencing; 0: none has opened an epoch yet.
    epoch: int = 0
    #: Id of the master that opened the epoch; empty before the first.
    leader: str = ""
    #: What the next job gets as its sequence number.
    next_sequence: int = 1

    nodes: dict[str, Node] = _table("node", "id", size=content_bytes)
    queues: dict[str, Queue] = _table("queue", "path", size=content_bytes)
    quotas: dict[str, Quota] = _table("quota", "tenant", size=content_bytes)
    accounts: dict[str, Account] = _table("account", _account_key, size=account_bytes)
    tenants: dict[str, Tenant] = _table("tenant", "name", size=tenant_bytes)
    masters: dict[str, Master] = _table("master", "id")
    jobs: dict[str, Job] = _table("job", "id")
    tasks: dict[str, Task] = _table("task", "id")
    allocations: dict[str, Allocation] = _table("allocation", "id")
    fences: dict[str, Fence] = _table("fence", "job_id")
    reservations: dict[str, Reservation] = _table("reservation", "job_id")
    windows: dict[str, Window] = _table("window", "name", size=content_bytes)
    bindings: dict[str, Binding] = _table("binding", "name", size=content_bytes)
    tokens: dict[str, Token] = _table("token", "id", size=content_bytes)
    secrets: dict[str, Secret] = _table("secret", "key", size=content_bytes)
    unix_accounts: dict[str, UnixAccount] = _table("unix_account", "key", size=content_bytes)
    revocations: dict[str, Revocation] = _table("revocation", "certificate", size=content_bytes)
    join_tokens: dict[str, JoinToken] = _table("join_token", "id", size=content_bytes)
    joined_nodes: dict[str, JoinedNode] = _table("joined_node", "name", size=content_bytes)
    run_histories: dict[str, RunHistory] = _table("run_history", "key", size=run_history_bytes)
    follow_ups: dict[str, FollowUp] = _table("follow_up", "job_id")
    answers: dict[str, dict[str, Answer]] = _table("answer", answer_key, size=answer_bytes, kind=AnswerTable)
    answered: AnsweredRequests = _table(
        "answered", "key", size=answered_bytes, kind=AnsweredTable, factory=AnsweredRequests
    )


def _tables() -> Iterator[Table]:
    hints = get_type_hints(Contents)
    for table in fields(Contents):
        if _TABLE in table.metadata:
            kind, line = table.metadata[_TABLE]
            kinds = get_args(hints[table.name])
            records = kinds[1] if kinds else hints[table.name].RECORD
            yield kind(name=table.name, kind=get_args(records)[1] if get_args(records) else records, **line)


TABLES: tuple[Table, ...] = tuple(_tables())
TABLE_OF = {table.name: table for table in TABLES}
#: Names of the values that are no tables.
VALUES = tuple([value.name for value in fields(Contents) if value.name not in TABLE_OF])


@dataclass(kw_only=True)
class FrozenState(Contents):
    """A copy of the state at one revision. The records are shared with it; nothing may change the dicts."""
