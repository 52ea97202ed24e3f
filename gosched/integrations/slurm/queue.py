"""Jobs as squeue, sacct and scancel know them: states, ids, columns, and which ones are meant."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gosched.api.job_row import JobRow
from gosched.core.reasons import WaitReason
from gosched.core.records.job import JobState
from gosched.integrations.slurm.columns import Column, moment, span
from gosched.integrations.slurm.command_line import Given
from gosched.integrations.slurm.convert import CPUS_LABEL, NAME_LABEL, NODES_LABEL
from gosched.integrations.slurm.hostlist import compressed, distinct
from gosched.integrations.slurm.values import job_id

LIVE = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)
#: Slurm's states with their codes.
STATES = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
    "TIMEOUT": "TO",
    "OUT_OF_MEMORY": "OOM",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "DEADLINE": "DL",
}
_OF_FAILURES = {"TIMEOUT": "TIMEOUT", "OOM_KILLED": "OUT_OF_MEMORY", "NODE_LOST": "NODE_FAIL", "PREEMPTED": "PREEMPTED"}
_MAX_ELEMENTS = 10_000  # that one range names
_NOW = re.compile(r"now(?:-(\d{1,6})(second|minute|hour|day|week)s?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A job with the nodes that it runs on."""

    row: JobRow
    #: In the order of the tasks; empty: it does not run, or they were not looked up.
    nodes: tuple[str, ...] = ()
    now_ms: int

    @property
    def state(self) -> str:
        row = self.row
        if is_to_come(row):
            return "PENDING"
        if row.state is JobState.FAILED:
            return "DEADLINE" if row.reason.startswith("DEADLINE") else _OF_FAILURES.get(row.reason, "FAILED")
        return "COMPLETED" if row.state is JobState.SUCCEEDED else row.state.name

    @property
    def name(self) -> str:
        return dict(self.row.labels).get(NAME_LABEL) or self.row.name

    @property
    def seconds(self) -> float:
        row = self.row
        began = row.placed_at_ms
        return ((row.ended_at_ms or self.now_ms) - began) / 1000 if began else 0.0

    @property
    def id(self) -> str:
        """Return the id as Slurm writes that of an array's element; of an array with how many elements are to come."""
        row = self.row
        if is_element(row):
            return f"{row.parent}_{row.element}"
        return f"{row.id}_[+{row.array_size - row.children.made}]" if row.children and is_to_come(row) else row.id

    @property
    def why(self) -> str:
        """Return the nodes, or in parentheses why there are none."""
        row = self.row
        if is_to_come(row) and row.state is JobState.RUNNING:
            return "(JobArrayTaskLimit)"
        if row.state is JobState.PENDING:
            return f"({self.reason})"
        if row.state.is_final and row.state is not JobState.SUCCEEDED:
            return f"({row.reason or row.state.name})"
        return compressed(self.nodes)

    @property
    def reason(self) -> str:
        """Return gosched's code of why it waits or ended, but Slurm's own word for a begin, which scripts look for."""
        row = self.row
        return "BeginTime" if row.wait_code == WaitReason.BEGIN else row.wait_code or row.reason or "None"

    @property
    def start_ms(self) -> int:
        """Return when this attempt was placed, else when it is expected to start; 0: not known."""
        row = self.row
        return row.placed_at_ms or row.start_ms or (row.begin_ms if row.begin_ms > self.now_ms else 0)

    @property
    def exit_code(self) -> str:
        code = self.row.exit_code or 0
        return f"0:{code - 128}" if code > 128 else f"{code}:0"


def is_element(row: JobRow) -> bool:
    return bool(row.parent) and row.id == f"{row.parent}.{row.element}"


def is_shown(row: JobRow) -> bool:
    """Return whether a row is a job of Slurm's kind: an array is, while it has elements to make."""
    if row.cron:
        return False
    return not row.array_size or is_to_come(row)


def is_to_come(row: JobRow) -> bool:
    """Return whether it is an array that has elements to make."""
    return bool(row.array_size and row.children and row.children.made < row.array_size and not row.state.is_final)


def _limit(line: Line, *, left: bool = False) -> str:
    limit_ms = line.row.timeout_ms
    if not limit_ms:
        return "UNLIMITED"
    return span(limit_ms / 1000 - (line.seconds if left else 0))


def _label(line: Line, key: str) -> str:
    return dict(line.row.labels).get(key, "")


def _node_count(line: Line) -> object:
    return len(line.nodes) or _label(line, NODES_LABEL) or line.row.task_count


SQUEUE_COLUMNS: Mapping[str, Column[Line]] = {
    "A": Column(title="JOBID", value=lambda line: line.row.id),
    "a": Column(title="ACCOUNT", value=lambda line: line.row.tenant),
    "C": Column(title="CPUS", value=lambda line: _label(line, CPUS_LABEL) or "N/A"),
    "D": Column(title="NODES", value=_node_count),
    "e": Column(title="END_TIME", value=lambda line: moment(line.row.ended_at_ms) or "N/A"),
    "E": Column(title="DEPENDENCY", value=lambda line: ",".join(one.job for one in line.row.waits_for) or "(null)"),
    "F": Column(title="ARRAY_JOB_ID", value=lambda line: line.row.parent or line.row.id),
    "i": Column(title="JOBID", value=lambda line: line.id),
    "j": Column(title="NAME", value=lambda line: line.name),
    "k": Column(title="COMMENT", value=lambda line: _label(line, "slurm/comment") or "(null)"),
    "K": Column(title="ARRAY_TASK_ID", value=lambda line: line.row.element if is_element(line.row) else "N/A"),
    "l": Column(title="TIME_LIMIT", value=_limit),
    "L": Column(title="TIME_LEFT", value=lambda line: _limit(line, left=True)),
    "M": Column(title="TIME", value=lambda line: span(line.seconds)),
    "N": Column(title="NODELIST", value=lambda line: compressed(line.nodes)),
    "P": Column(title="PARTITION", value=lambda line: line.row.queue),
    "q": Column(title="QOS", value=lambda line: line.row.priority),
    "Q": Column(title="PRIORITY", value=lambda line: line.row.priority),
    "r": Column(title="REASON", value=lambda line: line.reason),
    "R": Column(title="NODELIST(REASON)", value=lambda line: line.why),
    "S": Column(title="START_TIME", value=lambda line: moment(line.start_ms) or "N/A"),
    "t": Column(title="ST", value=lambda line: STATES[line.state]),
    "T": Column(title="STATE", value=lambda line: line.state),
    "u": Column(title="USER", value=lambda line: line.row.user),
    "V": Column(title="SUBMIT_TIME", value=lambda line: moment(line.row.submitted_at_ms)),
}
SQUEUE_DEFAULT = "%.26i %.9P %.8j %.8u %.2t %.10M %.6D %R"
SQUEUE_LONG = "%.26i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"

SACCT_COLUMNS: Mapping[str, Column[Line]] = {
    "JobID": Column(title="JobID", value=lambda line: line.id, width=26),
    "JobIDRaw": Column(title="JobIDRaw", value=lambda line: line.row.id, width=24),
    "JobName": Column(title="JobName", value=lambda line: line.name),
    "Partition": Column(title="Partition", value=lambda line: line.row.queue),
    "Account": Column(title="Account", value=lambda line: line.row.tenant),
    "AllocCPUS": Column(title="AllocCPUS", value=lambda line: _label(line, CPUS_LABEL)),
    "NCPUS": Column(title="NCPUS", value=lambda line: _label(line, CPUS_LABEL)),
    "NNodes": Column(title="NNodes", value=_node_count, width=8),
    "State": Column(title="State", value=lambda line: line.state),
    "ExitCode": Column(title="ExitCode", value=lambda line: line.exit_code, width=8),
    "Submit": Column(title="Submit", value=lambda line: moment(line.row.submitted_at_ms), width=19),
    "Start": Column(title="Start", value=lambda line: moment(line.row.started_at_ms) or "Unknown", width=19),
    "End": Column(title="End", value=lambda line: moment(line.row.ended_at_ms) or "Unknown", width=19),
    "Elapsed": Column(title="Elapsed", value=lambda line: span(line.seconds, full=True)),
    "ElapsedRaw": Column(title="ElapsedRaw", value=lambda line: int(line.seconds)),
    "Timelimit": Column(title="Timelimit", value=_limit),
    "User": Column(title="User", value=lambda line: line.row.user, width=9),
    "Priority": Column(title="Priority", value=lambda line: line.row.priority),
    "Reason": Column(title="Reason", value=lambda line: line.row.reason, width=22),
}
SACCT_DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
SACCT_BRIEF = "JobID,State,ExitCode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which jobs are meant. What is empty does not choose."""

    users: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    #: Where the job runs, on one of them at least.
    nodes: frozenset[str] = frozenset()

    def fits(self, line: Line) -> bool:
        row = line.row
        pairs: tuple[tuple[frozenset[str], Collection[str]], ...] = (
            (self.users, (row.user,)),
            (self.states, (line.state,)),
            (self.queues, (row.queue,)),
            (self.tenants, (row.tenant,)),
            (self.names, (line.name, row.name)),
            (self.nodes, line.nodes),
        )
        return all(not wanted or any(value in wanted for value in values) for wanted, values in pairs)


def choice_of(given: Given, own_user: str, *, state: str, tenant: str, name: str = "name") -> Choice:
    """Return what the options choose; `state`, `tenant`, `name` are the options' names. Raises ConfigError."""
    users = _list(given, "user") | ({own_user} if "me" in given else set())
    return Choice(
        users=frozenset(users),
        states=frozenset(given.read(state, states) if state in given else ()),
        queues=frozenset(_list(given, "partition")),
        tenants=frozenset(_list(given, tenant)),
        names=frozenset(_list(given, name)),
        nodes=frozenset(given.read("nodelist", distinct) if "nodelist" in given else ()),
    )


def states(text: str) -> set[str]:
    """Return states by their names or codes; none: all. Raises ValueError."""
    words = {word.strip().upper() for word in text.split(",") if word.strip()}
    if not words:
        raise ValueError("is empty")
    if "ALL" in words:
        return set()
    by_code = {code: state for state, code in STATES.items()}
    found = {by_code.get(word, word) for word in words}
    if unknown := sorted(found - STATES.keys()):
        raise ValueError(f"{', '.join(unknown)}: the states are {', '.join(f'{s} ({c})' for s, c in STATES.items())}")
    return found


def ids(words: Sequence[str]) -> list[str]:
    """Return gosched's ids of jobs that are written as in Slurm: `ID`, `ID_3`, `ID_[1-3]`."""
    found: list[str] = []
    for word in words:
        for part in re.split(r",(?![^\[]*\])", word):
            listed = re.fullmatch(r"(j-\w+)_\[([0-9,-]+)\]", part)
            if listed is None:
                found += [job_id(part)] if part else []
                continue
            for piece in listed[2].split(","):
                first, _, last = piece.partition("-")
                is_range = first.isdigit() and (not last or last.isdigit())
                if not is_range or not 0 <= int(last or first) - int(first) <= _MAX_ELEMENTS:
                    raise ValueError(f"{part!r} names no elements of an array, such as {listed[1]}_[1-3]")
                found += [f"{listed[1]}.{index}" for index in range(int(first), int(last or first) + 1)]
    return found


def since_ms(text: str) -> int:
    """Return a start time of sacct, in the zone of this machine. Raises ValueError."""
    now = datetime.now()
    word = text.strip().lower()
    if word in ("today", "midnight"):
        return _ms(now.replace(hour=0, minute=0, second=0, microsecond=0))
    try:
        if found := _NOW.fullmatch(word):
            return _ms(now - timedelta(**{f"{found[2] or 'second'}s": int(found[1] or 0)}))
        if re.fullmatch(r"\d\d:\d\d(:\d\d)?", word):
            return _ms(datetime.combine(now.date(), datetime.strptime(word, "%H:%M" + ":%S" * (len(word) > 5)).time()))
        return _ms(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise ValueError(f"expected YYYY-MM-DD, with THH:MM[:SS], HH:MM, today or now-2days, got {text!r}") from None


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _ms(moment: datetime) -> int:
    return max(1, int(moment.timestamp() * 1000))


def _list(given: Given, name: str) -> set[str]:
    if name not in given:
        return set()
    found = {word for word in given.get(name).split(",") if word}
    if not found:  # of a variable that is not set: it must not choose all
        raise given.problem(name, "is empty")
    return found
