"""What an operator should look at, as the overview says it.

Invariant: a warning says what is wrong and what to do, or where to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gosched.api.status import Status
from gosched.core.records.node import NodeState
from gosched.core.state.cluster_state import ClusterState
from gosched.master.web.text import byte_count, percent, plural, span

NAMES_SHOWN = 3
FULL = 0.8  # of the bound of the state's size
OLD_BACKUP_MS = 26 * 3_600_000
LAG = 1000  # entries that a master may be behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """One thing to look at."""

    text: str
    #: Where more is to be seen; empty: nowhere.
    link: str = ""
    #: Work is lost or in danger now.
    serious: bool = False


def find_warnings(state: ClusterState, status: Status, lags: dict[str, int | None]) -> tuple[Warning, ...]:
    """Return the warnings, the serious ones first."""
    found = [*_masters(status, lags), *_nodes(state), *_state(status), *_backup(status)]
    return tuple(sorted(found, key=lambda warning: not warning.serious))


def _masters(status: Status, lags: dict[str, int | None]) -> Iterator[Warning]:
    for master in status.masters:
        if not master.healthy:
            yield Warning(text=f"Master {master.id} does not answer.", serious=True)
        elif (lags.get(master.id) or 0) > LAG:
            yield Warning(text=f"Master {master.id} is {lags[master.id]:,} entries behind.")
    if status.clock_problem:
        yield Warning(text=status.clock_problem)
    if status.load_problem:
        yield Warning(text=f"Silent nodes stay: {status.load_problem}.", serious=True)
    if status.newest_feature_level > status.feature_level:
        yield Warning(
            text="All masters run a newer release than the cluster uses: goschedctl cluster finalize-upgrade."
        )


def _nodes(state: ClusterState) -> Iterator[Warning]:
    dead = sorted(node.name for node in state.nodes.values() if node.state is NodeState.DEAD)
    if dead:
        verb = "is" if len(dead) == 1 else "are"
        yield Warning(
            text=f"{plural(len(dead), 'node')} {verb} dead: {_some(dead)}.", link="/nodes?state=DEAD", serious=True
        )
    faulty = sorted(node.name for node in state.nodes.values() if node.hardware.bad_gpus)
    if faulty:
        yield Warning(text=f"GPUs with errors take no work: {_some(faulty)}.", link="/nodes?show=faulty")
    lax = sorted(node.name for node in state.nodes.values() if node.isolation)
    if lax:
        verb = "does" if len(lax) == 1 else "do"
        yield Warning(
            text=f"{plural(len(lax), 'node')} {verb} not isolate tasks fully: {_some(lax)}.", link="/nodes?show=lax"
        )


def _state(status: Status) -> Iterator[Warning]:
    limit = status.state_bytes_limit
    if limit and status.state_bytes > FULL * limit:
        yield Warning(
            text=f"The state takes {byte_count(status.state_bytes)}, {percent(status.state_bytes, limit)} of its bound:"
            " keep fewer ended jobs (retention), or submissions will be refused.",
            serious=True,
        )


def _backup(status: Status) -> Iterator[Warning]:
    backup = status.backup
    if backup is None:
        return
    if backup.problem:
        yield Warning(text=f"The last backup failed: {backup.problem}.", serious=True)
    elif backup.last_success_ms and status.clock_ms - backup.last_success_ms > OLD_BACKUP_MS:
        yield Warning(text=f"The last backup is {span(status.clock_ms - backup.last_success_ms)} old.")


def _some(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
