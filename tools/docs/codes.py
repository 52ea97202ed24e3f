"""The references of codes: why jobs wait and end, why calls are refused, states, and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path

from gosched.core.outcome import Code
from gosched.core.reasons import Reason, RefusalReason, WaitReason
from gosched.core.records.job import JobState
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.master.base.errors import _GRPC, HTTP_STATUS
from gosched.master.http import problems
from tools.docs.markdown import code, page, table
from tools.docs.texts import entries

_SOURCE = Path(__file__).parents[2] / "gosched/core/reasons.py"
_HEAD = ("code", "meaning", "what to do")
_INTRO = """\
`job list`, `job show` and `explain` show a code and a line of words. Codes stay as they are from release to release;
scripts and alerts should compare codes, never the words. Look a code up here by the search of your browser."""
_WAITS = """\
Of a job that is `PENDING` or `SUSPENDED`: `goschedctl explain JOB` has the words, the jobs that hold what it waits
for, and what would help. The metric `gosched_pending_jobs` counts jobs by these codes."""
_ENDS = """\
Of tasks and jobs: `goschedctl job show JOB` has the code, the exit code and the detail of each task."""
_REFUSALS = """\
Of calls: gRPC has the code in the trailing metadata `gosched-reason`, HTTP in the `code` of the problem."""


def codes() -> str:
    """Return the page. Raise Incomplete if a code has no text, or a text is of no code."""
    waits, refusals = entries("wait_reasons", _names(WaitReason)), entries("refusals", _names(RefusalReason))
    ends = entries("end_reasons", _names(Reason))
    return page(
        "Reason codes",
        _INTRO,
        "## Why a job waits",
        _WAITS,
        table((*_HEAD, "says, for example"), _rows_of_waits(waits)),
        "## Why a task or a job ended",
        _ENDS,
        *_by_origin(ends),
        "## Why a call is refused",
        _REFUSALS,
        _table(refusals),
        _statuses(),
        "## States",
        *_states(),
    )


def exit_codes() -> str:
    """Return the page of exit codes."""
    texts = entries("exit_codes", (0, *_codes_of_errors(), 3, 130))
    rows = [(code(str(number)), words) for number, words in sorted(texts.items())]
    daemons = [
        ("`0`", "It was ended by SIGTERM or SIGINT."),
        ("`1`", "It cannot go on; its last line says why."),
        ("`2`", "It cannot start: a flag, the config, a port, the data directory. Its last line says why."),
    ]
    tasks = [
        ("0 to 125", "Its command's own."),
        ("`125`", "It was not started: the [reason](codes.md#why-a-task-or-a-job-ended) says why."),
        ("`126`", "The command cannot be executed."),
        ("`127`", "There is no such command."),
        ("128+n", "Signal n ended it: 137 is SIGKILL, 143 is SIGTERM."),
    ]
    return page(
        "Exit codes",
        "## `goschedctl`",
        table(("code", "meaning"), rows),
        "`run`, `submit --wait` and `job wait` return the job's own code, `exec` that of its command.",
        "## `gosched-master`, `gosched-agent`",
        table(("code", "meaning"), daemons),
        "## Tasks",
        table(("code", "meaning"), tasks),
    )


def _names(kinds: Iterable[str]) -> list[str]:
    return [str(one) for one in kinds]


def _codes_of_errors() -> list[int]:
    from gosched.client import errors

    found = {
        error.exit_code for error in vars(errors).values() if isinstance(error, type) and hasattr(error, "exit_code")
    }
    return sorted(found)


def _rows_of_waits(texts: Mapping[str, Mapping[str, str]]) -> Iterable[tuple[str, ...]]:
    return [(code(name), text["means"], text["do"], text["says"]) for name, text in texts.items()]


def _table(texts: Mapping[str, Mapping[str, str]], only: Iterable[str] | None = None) -> str:
    shown = texts if only is None else list(only)
    return table(_HEAD, [(code(name), texts[name]["means"], texts[name]["do"]) for name in shown])


def _by_origin(texts: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    """Yield a table for each comment by which the enum groups its members."""
    body = _SOURCE.read_text().partition("class Reason(StrEnum)")[2].partition("\nclass ")[0]
    for title, members in re.findall(r"\n    # (Of .*)\n((?:    [A-Z_]+ = .*\n)+)", body):
        yield f"### {title}"
        yield _table(texts, re.findall(r"^    ([A-Z_]+) = ", members, re.MULTILINE))


def _statuses() -> str:
    by_status = {status: HTTP_STATUS[status] for status in HTTP_STATUS}
    rows = []
    for status, number in by_status.items():
        of_state = ", ".join(code(one.name) for one in Code if one and _GRPC[one] is status)
        rows.append((code(status.name), str(number), of_state, problems._ACTIONS.get(number, "")))
    more = [
        ("", str(number), "", action)
        for number, action in problems._ACTIONS.items()
        if number not in by_status.values()
    ]
    head = ("gRPC status", "HTTP status", "of the state machine", "what to do")
    return "Statuses, where no code tells more:\n\n" + table(head, [*rows, *more])


def _states() -> Iterable[str]:
    texts = entries("states", ("job", "task", "node"))
    kinds: tuple[tuple[str, type[IntEnum]], ...] = (("job", JobState), ("task", TaskState), ("node", NodeState))
    for name, kind in kinds:
        described = [one.name for one in kind if one]
        if sorted(texts[name]) != sorted(described):
            raise ValueError(f"tools/docs/texts/states.yaml: the states of a {name} are {', '.join(described)}")
        yield table((f"{name} state", "meaning"), [(code(one), texts[name][one]) for one in described])
