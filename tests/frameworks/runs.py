"""One job under one fault: what its ranks wrote, and the figures of its recovery."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

from gosched.client import GoSchedClient, GoSchedError
from gosched.client.records import HistoryEvent, JobDetail
from gosched.core.records.job import JobState
from tests.frameworks.hosts import Cluster
from tests.frameworks.jobs import RANKS, job
from tests.integration.support import PATIENCE_S, until

RECOVERY_S = 75.0  # a node is lost after 10 s; two slow cores start three frameworks at once
WARM_STEPS = 30  # before a fault: one checkpoint, and 10 steps that it does not have
BEYOND_STEPS = 10  # after a fault, than the last step before it


class Step(NamedTuple):
    """A line of the program."""

    rank: int
    node: str
    pid: int
    attempt: int
    step: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table."""

    framework: str
    fault: str
    policy: str
    #: To the first event of the job; None: there was none.
    noticed_s: float | None
    #: To the first step of a process that is new; None: there is none.
    again_s: float | None
    #: The longest time without a step of any rank; None: it never ran again.
    pause_s: float | None
    #: That a rank did twice, at most.
    steps_lost: int | None
    #: Of ranks that the fault had spared.
    pids_kept: str
    #: Ranks that are on the node where they were.
    nodes_kept: str
    state: str
    restarts: int
    words: str


@dataclass(slots=True)
class Run:
    """A job of these tests, from its start over one fault to what became of it."""

    cluster: Cluster
    client: GoSchedClient
    shared: Path
    framework: str
    #: Keys of the job file.
    policy: str
    name: str = "train"
    fault: str = ""
    struck_at: float = 0.0
    #: By rank, the last step before the fault.
    before: dict[int, Step] = field(default_factory=dict)
    #: Ranks whose processes the fault ended.
    struck: tuple[int, ...] = ()
    explained: str = ""

    def steps(self) -> list[Step]:
        file = self.shared / "steps"
        lines = file.read_text().splitlines() if file.exists() else []
        return [Step(int(w[0]), w[1], int(w[2]), int(w[3]), int(w[4]), float(w[5])) for w in map(str.split, lines)]

    def last(self) -> dict[int, Step]:
        """Return the last step of each rank."""
        return {step.rank: step for step in self.steps()}

    def node_of(self, rank: int) -> str:
        return self.last()[rank].node

    def detail(self) -> JobDetail:
        return self.client.get_job(self.name)

    def start(self) -> None:
        """Submit the job, and wait until all its ranks have done some work."""
        self.client.submit(job(self.framework, self.shared, more=self.policy))

        def warm() -> bool:
            found = self.last()
            return len(found) == RANKS and min(step.step for step in found.values()) >= WARM_STEPS

        until(warm, f"{RANKS} ranks run", PATIENCE_S)

    def strike(self, fault: str, act: Callable[[], object], *, ranks: Sequence[int] = ()) -> None:
        """Do harm now. `ranks`: whose processes it ends."""
        self.fault, self.struck = fault, tuple(ranks)
        self.struck_at = time.time()
        act()
        self.before = {step.rank: step for step in self.steps() if step.at <= self.struck_at}

    def recover(self, timeout_s: float = RECOVERY_S) -> None:
        """Wait until all ranks are beyond the work before the fault, or the job has ended, or time is up."""
        ends = time.monotonic() + timeout_s
        while time.monotonic() < ends and not self.is_beyond() and not self.detail().state.is_final:
            with suppress(GoSchedError):
                explanation = self.client.explain(self.name)
                if explanation.job.state is JobState.PENDING and explanation.code:
                    self.explained = f"{explanation.code}: {explanation.message}"
            time.sleep(0.2)

    def is_beyond(self) -> bool:
        goal = max(step.step for step in self.before.values()) + BEYOND_STEPS
        last = self.last()
        return all(last[rank].step >= goal for rank in self.before) and all(
            last[rank].pid != self.before[rank].pid for rank in self.struck
        )

    def events(self) -> list[HistoryEvent]:
        """Return the job's events since the fault."""
        return list(self.client.list_events(job=self.name, since_ms=int(self.struck_at * 1000)).events)

    def kept_pids(self) -> list[int]:
        """Return the ranks whose process the fault spared, and who has gone on since."""
        last = self.last()
        spared = [was for rank, was in self.before.items() if rank not in self.struck]
        return sorted([was.rank for was in spared if last[was.rank].pid == was.pid and psutil.pid_exists(was.pid)])

    def moved(self) -> list[int]:
        """Return the ranks whose last step was not on the node where they were."""
        last = self.last()
        return [rank for rank, was in self.before.items() if last[rank].node != was.node]

    def row(self) -> Row:
        found, events = self.detail().job, self.events()
        runs = found.state is JobState.RUNNING
        return Row(
            framework=self.framework,
            fault=self.fault,
            policy=self.policy.replace("\n", ", "),
            noticed_s=events[0].at_ms / 1000 - self.struck_at if events else None,
            again_s=self._again_s(),
            pause_s=self._pause_s() if runs else None,
            steps_lost=self._steps_lost() if runs else None,
            pids_kept=f"{len(self.kept_pids())} of {len(self.before) - len(self.struck)}",
            nodes_kept=f"{len(self.before) - len(self.moved())} of {len(self.before)}" if runs else "-",
            state=found.state.name + (f" ({found.reason})" if found.reason else ""),
            restarts=found.restarts,
            words="; ".join([*told(events, self.struck_at), *filter(None, [self.explained])]),
        )

    def _new(self) -> list[Step]:
        """Return the steps of processes that were not there before the fault."""
        old = {step.pid for step in self.before.values()}
        return [step for step in self.steps() if step.at > self.struck_at and step.pid not in old]

    def _again_s(self) -> float | None:
        new = self._new()
        return new[0].at - self.struck_at if new else None

    def _pause_s(self) -> float | None:
        times = [max(step.at for step in self.before.values())]
        times += [step.at for step in self.steps() if step.at > self.struck_at]
        times += [] if self.is_beyond() else [time.time()]  # it may hang
        return max((after - before for before, after in itertools.pairwise(times)), default=None)

    def _steps_lost(self) -> int | None:
        """Return by how many steps a new process began before where its rank was; None: a rank has none yet."""
        old, new = dict(self.before), {step.rank: step.step for step in reversed(self._new())}
        for step in self.steps():
            if step.pid == old[step.rank].pid:
                old[step.rank] = step
        if set(self.struck) - set(new):
            return None
        return max([old[rank].step + 1 - first for rank, first in new.items()] + [0])


def told(events: Sequence[HistoryEvent], since: float) -> list[str]:
    """Return the events' lines, each with its seconds after a moment."""
    return [f"{event.at_ms / 1000 - since:.1f} s {event.message}" for event in events]


def table(rows: Sequence[tuple[Row, bool]]) -> str:
    """Return the rows in Markdown, each with whether its test has passed."""
    heads = ["framework", "fault", "policy", "noticed", "runs again", "pause", "steps lost", "pids kept", "nodes kept"]
    heads += ["job", "restarts", "right", "words"]
    lines = [heads, ["---"] * len(heads)]
    for row, right in rows:
        cells = [row.framework, row.fault, row.policy, _seconds(row.noticed_s), _seconds(row.again_s)]
        cells.append(_seconds(row.pause_s))
        cells += ["-" if row.steps_lost is None else str(row.steps_lost), row.pids_kept, row.nodes_kept, row.state]
        lines.append([*cells, str(row.restarts), "yes" if right else "**no**", row.words.replace("|", "/")])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"
